"""`wsoup cache`: what it lists, what it calls useless, and that pruning removes exactly that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from repository import make_dvc_folder
from typer.testing import CliRunner
from yaml_in_c import safe_load

from wsoup.base.errors import MismatchError, MissingError
from wsoup.cli import app as cli
from wsoup.disk import cache_folder, code
from wsoup.disk.shards import Owner, Shard
from wsoup.pipeline.cache import look, prune
from wsoup.pipeline.packages import VERSIONS, versions_yaml

ROOT = Path(__file__).parents[2]
CACHE = Path(".cache/wsoup")
SLOW = '''
"""Five shards; the later ones never finish in time."""
import time
from functools import partial
from wsoup.pipeline import stage
from wsoup.disk.shards import Shard
from wsoup.runtime.work import finish_shards

def main(owner):
    """Slow."""
    def compute(i):
        time.sleep(0 if i < 2 else 600)
        return b"done"
    finish_shards([Shard(owner, i, partial(compute, i)) for i in range(5)], label="slow", unit="shard")

if __name__ == "__main__":
    stage.run(main)
'''


def project(folder: Path) -> Path:
    """A folder with the project's params.yaml, dvc.yaml and stages, and one more stage, which is slow."""
    shutil.copy(ROOT / "params.yaml", folder)
    generated = shutil.ignore_patterns("world", "encoder")
    shutil.copytree(ROOT / "data/toy", folder / "data/toy", ignore=generated)  # made by its stages
    shutil.copytree(ROOT / "stages", folder / "stages", ignore=shutil.ignore_patterns("__pycache__"))
    stages = safe_load((ROOT / "dvc.yaml").read_text())
    stages["stages"]["slow"] = {"cmd": "python stages slow", "deps": ["stages/slow.py"], "outs": ["artifacts/slow"]}
    (folder / "dvc.yaml").write_text(yaml.safe_dump(stages))
    (folder / "stages/slow.py").write_text(SLOW)
    (folder / VERSIONS).write_text(versions_yaml(code.installed()))
    return folder


@pytest.fixture
def run(in_tmp: Path) -> Path:
    make_dvc_folder(in_tmp)
    return project(in_tmp)


@pytest.fixture
def slow(run: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The slow stage, running, with two of its five shards done."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "stages", "slow"]
    with subprocess.Popen(command, cwd=run, env=environment, stderr=subprocess.PIPE) as process:
        try:
            while len(list(CACHE.glob("slow/*/*.part"))) < 2:
                assert process.poll() is None
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def begun(name: str) -> Shard:
    """A shard as an interrupted stage leaves it."""
    cache_folder.make_cache_dir()
    owner = Owner.of(Path("stages").resolve() / f"{name.partition('@')[0]}.py", name=name)
    shard = Shard(owner, 1, bytes)
    shard.save(b"done")
    return shard


def command(*arguments: str) -> str:
    ran = CliRunner().invoke(cli.app, ["cache", *arguments], env={"COLUMNS": "250"})
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_in_another_folder_it_says_where_to_run(in_tmp: Path) -> None:
    shutil.copy(ROOT / "params.yaml", in_tmp)
    with pytest.raises(MissingError, match=r"dvc\.yaml does not exist: run this in the folder of dvc.yaml and params"):
        look()
    (in_tmp / "wsoup").mkdir()
    with pytest.raises(MismatchError, match=r"not the one of .*; run `python -m wsoup cache` there"):
        look()


@pytest.mark.parametrize("inside", [".", "a/pipeline"])
def test_only_shards_of_removed_stages_and_changed_code_are_removed(in_tmp, monkeypatch, inside):
    """Also in a subfolder of a DVC repository, where its stages have other names for DVC."""
    make_dvc_folder(in_tmp)
    (in_tmp / inside).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(project(in_tmp / inside))
    kept, gone, changed = begun("score@words"), begun("finetune@gone"), begun("soup@word")
    Path("stages/soup.py").write_text(Path("stages/soup.py").read_text() + "CHANGED = True\n")
    for path in (CACHE / "notes.txt", CACHE / "score@words/notes.txt"):
        path.write_text("mine")
    shown = command().splitlines()
    assert f"{kept.path.parent}" in {line.split("  ")[-1] for line in shown}
    printed = command("--prune").splitlines()
    removed = [f"removed {gone.path.parent}", f"removed {changed.path.parent}"]
    assert [line.partition(" (")[0] for line in printed] == removed
    assert kept.done()
    assert not gone.done()
    assert not changed.done()
    assert len([*CACHE.rglob("notes.txt")]) == 2


def test_a_running_stage_is_left_alone_and_a_killed_one_is_judged(run: Path, slow: subprocess.Popen[bytes]) -> None:
    script = run / "stages/slow.py"
    begun_as = script.read_text()
    script.write_text(begun_as + "EDITED = True\n")
    (version,) = CACHE.glob("slow/*")
    assert command("--prune") == f"kept {version}: stage 'slow' is running\n"
    slow.send_signal(signal.SIGKILL)
    slow.wait()
    script.write_text(begun_as)
    assert command("--prune") == ""  # its original code is back
    script.write_text(begun_as + "EDITED = True\n")
    assert "no stage has this name, code and packages" in command()
    assert command("--prune").startswith(f"removed {version} (")
    assert not version.exists()


def test_an_interrupted_stage_says_that_shards_are_kept(run: Path, slow: subprocess.Popen[bytes]) -> None:
    slow.send_signal(signal.SIGTERM)
    assert slow.communicate()[1].splitlines()[-1] == (
        b"slow: interrupted; finished work is kept, run it again to continue"
    )


def test_a_stage_removes_half_written_files_of_its_own_outs_alone(run: Path) -> None:
    """Another stage, perhaps on another machine, may be writing the others."""
    (run / "stages/slow.py").write_text(SLOW.replace("600", "0"))
    end = "0a0a0a0a0a0a.tmp"
    own = [Path(f"artifacts/.slow.{end}"), Path(f"artifacts/slow/.b.{end}/c"), CACHE / f"slow/.d.{end}"]
    names = (".slow.notes.tmp", f".slower.{end}", f"soups/.d.{end}", "slow/e")
    others = [Path("artifacts") / name for name in names]
    for path in [*own, *others]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "stages", "slow"], env=environment, check=True)
    assert [path.exists() for path in [*own, *others]] == [False] * 3 + [True] * 4


def test_what_a_killed_run_left_beside_an_out_is_listed_and_removed(run: Path) -> None:
    """DVC may restore the out from its cache, so that the stage never runs to remove it."""
    left = Path("artifacts/scores/.words.parquet.0a0a0a0a0a0a.tmp")
    others = [Path("artifacts/scores/.words.parquet.notes.tmp"), Path("artifacts/scores/.mine.0a0a0a0a0a0a.tmp")]
    for path in [left, *others]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    assert f"4 bytes  {left}: half-written, perhaps by a killed run" in command()
    cache_folder.make_cache_dir()
    lock = CACHE / "locks/score@words.lock"
    lock.parent.mkdir()
    with FileLock(lock):
        assert command("--prune") == f"kept {left}: stage 'score@words' is running\n"
    assert command("--prune") == f"removed {left} (4 bytes)\n"
    assert [path.exists() for path in [left, *others]] == [False, True, True]


def test_a_folder_that_wsoup_did_not_make_is_not_pruned(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSOUP_CACHE", "mine")
    yours = Path("mine/wsoup-cache/soup@gone") / ("a" * 20) / "thesis.txt"
    yours.parent.mkdir(parents=True)
    yours.write_text("mine")
    for _ in range(2):
        with pytest.raises(MismatchError, match=r"was not made by wsoup \(it has no CACHEDIR.TAG\): nothing in it"):
            list(prune(look()))
        cache_folder.make_cache_dir()  # a folder with files in it is never taken over
    assert yours.read_text() == "mine"
