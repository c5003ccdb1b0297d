"""`wsoup cache`: what it lists, what it calls useless, and that pruning removes exactly that."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from repository import make_dvc_folder
from rich.filesize import decimal
from small_world import COLOURS, write_image_folder
from typer.testing import CliRunner

from wsoup.base.errors import MismatchError, MissingError
from wsoup.cli import app as cli
from wsoup.datasets import digests
from wsoup.disk import code, store
from wsoup.disk.shards import Owner, Shards
from wsoup.images import reuse
from wsoup.pipeline import workspace
from wsoup.pipeline.cache import Entry, look, prune
from wsoup.pipeline.graph import stage_names

ROOT = Path(__file__).parents[2]
SLOW = '''
"""Five shards; the later ones never finish in time."""
import time
import numpy as np
from wsoup.pipeline import stage
from wsoup.disk.shards import Shards
from wsoup.runtime.work import finish_shards

def main(owner):
    """Slow."""
    def task(_, shard):
        time.sleep(0 if shard < 2 else 600)
        return {"a": np.zeros(1000)}
    finish_shards([Shards(owner, inputs=1, n=5)], task=task, label="slow", unit="shard")

if __name__ == "__main__":
    stage.run(main)
'''


@pytest.fixture
def run(in_tmp: Path) -> Path:
    """A folder with the project's params.yaml, dvc.yaml and stages, and one more stage, which is slow."""
    shutil.copy(ROOT / "params.yaml", in_tmp)
    generated = shutil.ignore_patterns("world", "encoder")
    shutil.copytree(ROOT / "data/toy", in_tmp / "data/toy", ignore=generated)  # made by its stages
    shutil.copytree(ROOT / "stages", in_tmp / "stages", ignore=shutil.ignore_patterns("__pycache__"))
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    stages["stages"]["slow"] = {"cmd": "python -m stages.slow", "deps": ["stages/slow.py"]}
    (in_tmp / "dvc.yaml").write_text(yaml.safe_dump(stages))
    (in_tmp / "stages/slow.py").write_text(SLOW)
    make_dvc_folder(in_tmp)
    for room in code.rooms(in_tmp / "stages/slow.py"):  # as `wsoup init` writes them
        store.write_json(in_tmp / workspace.code_file(room), code.digest(room))
    shutil.copy(ROOT / workspace.VERSIONS, in_tmp / workspace.VERSIONS)
    return in_tmp


@pytest.fixture
def slow(run: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The slow stage, running, with two of its five shards done."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-m", "stages.slow"], cwd=run, env=environment)
    try:
        while len(list(run.glob(".cache/wsoup/slow/*/*.part"))) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def begun(name: str, *, shards: int = 2, inputs: object = 1) -> Shards:
    """Resume state as an interrupted stage leaves it."""
    script = Path("stages").resolve() / f"{name.partition('@')[0]}.py"
    state = Shards(Owner.of(script, name=name), inputs=inputs, n=4)
    state.begin()
    for shard in range(shards):
        state.save(shard, {"a": np.arange(1000.0)})
    return state


def of_kind(kind: str) -> list[Entry]:
    return [entry for entry in look() if entry.kind == kind]


def command(*arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(cli.app, ["cache", *arguments], env={"COLUMNS": "250"})
    assert ran.exit_code == code
    return ran.output


# -------------------------------------------------------------------------------------------------------- stages


def test_stages_are_those_of_dvc_yaml_with_names_from_params(run: Path) -> None:
    stages = stage_names()
    assert {"prepare@shapes", "embed_train", "score@words", "soup@word", "finetune@ce", "slow"} <= set(stages)
    assert not any(name.startswith("landscape") for name in stages)


def test_in_another_folder_it_says_where_to_run(in_tmp: Path) -> None:
    with pytest.raises(MissingError, match=r"dvc\.yaml does not exist: run this in the folder of dvc.yaml and params"):
        look()
    shutil.copy(ROOT / "params.yaml", in_tmp)
    with pytest.raises(MissingError, match=r"dvc.yaml does not exist: run this in the folder of"):
        look()
    (in_tmp / "wsoup").mkdir()
    with pytest.raises(MismatchError, match=r"not the one of .*; run `python -m wsoup cache` there"):
        look()


# --------------------------------------------------------------------------------------------------- resume state


def test_resume_state_of_an_interrupted_stage_is_kept(run: Path) -> None:
    state = begun("score@words")
    state.running(2).write_bytes(b"half of a training")
    (entry,) = of_kind("resume state")
    assert (entry.name, entry.state, entry.useless) == ("score@words", "2 of 4 shards, 1 begun", None)
    assert entry.size == sum(file.stat().st_size for file in state.folder.iterdir())
    assert 0 <= entry.age < 60
    assert "freed 0 bytes" in command("--prune")
    assert [state.done(shard) for shard in range(4)] == [True, True, False, False]


def test_resume_state_of_removed_stages_and_changed_code_or_packages_is_useless(run: Path) -> None:
    kept = begun("score@words")
    begun("finetune@gone")
    begun("soup@word")
    begun("landscape@coop")  # only `methods` names landscapes
    about = begun("survey").folder / "about.json"
    about.write_text(about.read_text().replace(Owner.of(run / "stages/survey.py", name="x").packages["torch"], "0.1"))
    begun("evaluate").folder.joinpath("about.json").write_text("{")
    (run / "stages/soup.py").write_text((run / "stages/soup.py").read_text() + "# a changed line\n")
    why = {entry.name: entry.useless for entry in of_kind("resume state")}
    assert why.pop("survey").startswith("packages of 'survey' changed (torch 0.1 -> ")
    assert why == {
        "score@words": None,
        "finetune@gone": "dvc.yaml and params.yaml make no stage 'finetune@gone'",
        "landscape@coop": "dvc.yaml and params.yaml make no stage 'landscape@coop'",
        "soup@word": "code of 'soup@word' changed",
        "evaluate": "its about.json cannot be read",
    }
    expected = sum(entry.size for entry in look() if entry.useless)
    printed = command("--prune")
    assert printed.count("removed ") == 5
    assert printed.splitlines()[-1] == f"freed {decimal(expected)}"
    assert [path.name for path in Path(".cache/wsoup").iterdir()] == ["score@words"]
    assert kept.done(0)


def test_resume_state_of_other_inputs_is_kept(run: Path) -> None:
    begun("score@words", inputs=1)
    begun("score@words", inputs=2)
    assert [entry.useless for entry in of_kind("resume state")] == [None, None]


def test_only_a_damaged_shard_is_removed(run: Path) -> None:
    state = begun("score@words")
    state.path(1).write_bytes(state.path(1).read_bytes()[:-1])
    part = next(entry for entry in of_kind("resume state") if entry.useless)
    assert (part.paths, part.state, part.useless) == ((state.path(1),), "part 1", "damaged")
    command("--prune")
    assert sorted(path.name for path in state.folder.iterdir()) == ["00000.part", "about.json"]


# -------------------------------------------------------------------------------------------------- running stages


def test_a_running_stage_is_left_alone_and_a_killed_one_is_judged(run: Path, slow: subprocess.Popen[bytes]) -> None:
    script = run / "stages/slow.py"
    begun_as = script.read_text()
    script.write_text(begun_as + "# edited while it runs\n")
    (entry,) = of_kind("resume state")
    assert (entry.name, entry.state, entry.useless) == ("slow", "2 of 5 shards, running", None)
    assert any(lock.name == "slow" and lock.state.startswith("running: process ") for lock in of_kind("locks"))
    judged_before_it_began = Entry("resume state", "slow", entry.paths, useless="code changed", stage="slow")
    lines = list(prune([judged_before_it_began]))
    assert lines == [f"kept {entry.paths[0]}: stage 'slow' is running", "freed 0 bytes"]
    assert "freed 0 bytes" in command("--prune")
    assert slow.poll() is None

    slow.send_signal(signal.SIGKILL)
    slow.wait()
    assert of_kind("resume state")[0].useless == "code of 'slow' changed"
    script.write_text(begun_as)
    assert of_kind("resume state")[0].useless is None  # its original code is back
    script.write_text(begun_as + "# edited\n")
    assert "code of 'slow' changed" in command("--prune")
    assert not Path(".cache/wsoup/slow").exists()


def test_an_interrupted_stage_says_whether_shards_are_kept(run: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for done, says in (
        (0, "nothing was finished, run it again"),
        (2, "finished work is kept, run it again to continue"),
    ):
        (run / "stages/slow.py").write_text(SLOW.replace("shard < 2", f"shard < {done}"))
        process = subprocess.Popen(
            [sys.executable, "-m", "stages.slow"], cwd=run, env=environment, stderr=subprocess.PIPE, text=True
        )
        while not list(run.glob(".cache/wsoup/slow/*/about.json")) or len(list(run.glob("**/*.part"))) < done:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.communicate()[1].splitlines()[-1].endswith(f"slow: interrupted; {says}")
        shutil.rmtree(run / ".cache/wsoup/slow")


def test_locks_of_removed_stages_are_removed(run: Path) -> None:
    locks = Path(".cache/wsoup/locks")
    locks.mkdir(parents=True)
    of_removed = ("word_soup.lock", "word_soup.0-of-2.lock", "word_soup.0-of-2.pid", "word_soup.ran")
    for name in ("score@words.lock", "score@words.ran", *of_removed):
        (locks / name).touch()
    (entry,) = of_kind("locks")  # the free lock of an existing stage is not listed
    assert (len(entry.paths), entry.useless) == (4, "of stages that no longer exist")
    assert "removed 4 locks (0 bytes): of stages that no longer exist" in command("--prune")
    assert sorted(path.name for path in locks.iterdir()) == ["score@words.lock", "score@words.ran"]


# ------------------------------------------------------------------------------------- digests, features, others


def test_digests_name_their_datasets(run: Path) -> None:
    for name in ("data/toy/world/shapes", "elsewhere"):
        write_image_folder(run / name, splits={"test": 1}, classes=COLOURS)
        images = [f"test/{colour}/00.png" for colour in COLOURS]
        digests.of_images(name, images[:2], origin="test")
        digests.of_images(name, images, origin="test")
    (run / ".cache/wsoup/digests/0.checked").write_bytes(b"damaged")
    entries = {entry.name: (entry.state, entry.useless) for entry in of_kind("digests")}
    assert entries == {
        str(run.resolve() / "data/toy/world/shapes"): ("4 images of shapes", None),
        str(run.resolve() / "elsewhere"): ("4 images", "no dataset of params.yaml is there"),
        "0.checked": ("", "damaged"),
    }
    command("--prune")
    assert [entry.useless for entry in of_kind("digests")] == [None]


def test_only_features_of_existing_stages_are_kept(run: Path) -> None:
    for name, version in (("embed@shapes", "now"), ("embed@counts", "before"), ("embed@gone", "now")):
        owner = Owner.of(Path("stages/embed.py").resolve(), name=name)
        owner = owner if version == "now" else dataclasses.replace(owner, packages={"torch": "0.1"})
        digest = hashlib.sha256(name.encode()).hexdigest()
        reuse.KeptFeatures(owner, None, 1).write(np.ones((1, 4), np.float32), digests=[digest], positions=np.array([0]))
    (run / ".cache/wsoup/features/embed@forms.checked").write_bytes(b"damaged")
    entries = {entry.name: (entry.state, entry.useless) for entry in of_kind("features")}
    assert entries["embed@shapes"] == ("1 images", None)
    assert str(entries["embed@counts"][1]).startswith("packages of 'embed@counts' changed (")
    assert entries["embed@gone"] == ("1 images", "dvc.yaml and params.yaml make no stage 'embed@gone'")
    assert entries["embed@forms"] == ("", "damaged")
    command("--prune")
    assert [entry.name for entry in of_kind("features")] == ["embed@shapes"]


def test_only_half_written_files_of_dead_processes_are_removed(run: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for folder in (".cache/wsoup/digests", "artifacts/soups", "reports"):
        (run / folder).mkdir(parents=True)
        (run / folder / f".a.{store.place()}-{ended.pid}-abc.tmp").write_text("half")
        (run / folder / f".a.{store.place()}-{os.getpid()}-abc.tmp").write_text("half")
    assert len(of_kind("half-written")) == 3
    assert "freed 12 bytes" in command("--prune")
    assert len(list(run.rglob(".*.tmp"))) == 3


def test_unknown_files_are_shown_and_kept(run: Path) -> None:
    for name in ("notes.txt", "score@words/notes.txt", "digests/notes.txt", "timings.jsonl"):
        store.write_json(f".cache/wsoup/{name}", {})
    assert sorted(entry.name for entry in of_kind("unknown")) == [
        "digests/notes.txt",
        "notes.txt",
        "score@words/notes.txt",
    ]
    command("--prune")
    assert len(list(Path(".cache/wsoup").rglob("*.txt"))) == 3
    assert Path(".cache/wsoup/timings.jsonl").exists()


# ------------------------------------------------------------------------------------------------------ the table


def test_the_table_shows_every_entry_and_the_total(run: Path) -> None:
    assert command() == ".cache/wsoup: 0 bytes\n"
    begun("score@words")
    begun("finetune@[red]gone")
    printed = command()
    assert "finetune@[red]gone" in printed
    assert "2 of 4 shards" in printed
    used = decimal(sum(file.stat().st_size for file in Path(".cache/wsoup").rglob("*") if file.is_file()))
    assert f".cache/wsoup: {used}; " in printed
    assert "of no use, which `wsoup cache --prune` removes" in printed
