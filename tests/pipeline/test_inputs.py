"""What is edited between a stage's last look and DVC's own is found by whoever comes next; DVC runs here for real."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import ROOT
from repository import make_dvc_folder

from wsoup.core.errors import ChangedError
from wsoup.disk import store
from wsoup.pipeline import inputs

PIPELINE = """
stages:
  one:
    foreach: [a]
    do:
      cmd: python one.py
      params: [k0, "sizes.${item}"]
      deps: [code, photos]
      outs: [made]
"""
STAGE = """
from pathlib import Path
from wsoup.pipeline import inputs
before = inputs.read("one@a")
Path("made").write_text("made")
inputs.check_unchanged("one@a", since=before)
exec(Path("edit.txt").read_text())
"""


@pytest.fixture
def folder(in_tmp: Path) -> Path:
    make_dvc_folder(in_tmp)
    Path("dvc.yaml").write_text(PIPELINE)
    Path("params.yaml").write_text("k0: 3\nsizes: {a: 1.0e-05}\nother: 1\n")
    Path("one.py").write_text(STAGE)
    for name in ("code/b.json", "code/a/c.json", "code/a-b.json", "photos/1.png", "photos/2.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    return in_tmp


def repro(edit: str = "") -> None:
    """`dvc repro`, and an edit by the stage itself once it has looked."""
    Path("edit.txt").write_text(edit)
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q", "--force"], check=True, env=environment)


def notes() -> list[Path]:
    return list(Path(".cache/wsoup/locks").iterdir())


EDITS = {
    "params.yaml: k0": "Path('params.yaml').write_text('k0: 4\\nsizes: {a: 1.0e-05}')",
    "params.yaml: sizes.a": "Path('params.yaml').write_text('k0: 3\\nsizes: {a: 2.0e-05}')",
    "code": "Path('code/b.json').write_text('other')",
    "photos": "Path('photos/3.png').write_text('late')",
}
"""What is named -> what is done."""


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_that_dvc_certified_is_named_until_the_stage_runs_again(folder: Path, what: str) -> None:
    repro(EDITS[what])
    said = (
        f"{what} changed just after one@a ended, and dvc.lock says that its results are of that: they are not; run "
        "`dvc checkout`, `dvc repro --force --single-item one@a` and `dvc repro`"
    )
    assert inputs.misrecorded() == [said]
    assert inputs.misrecorded(starting="two") == [], "of another run of DVC"
    [note] = notes()
    store.write_json(note, {**store.read_json(note), "run": os.getppid()})
    assert inputs.misrecorded(starting="two") == [said]
    repro()
    assert inputs.misrecorded() == []


def test_other_results_in_their_place_are_not_those_of_the_note(folder: Path) -> None:
    """DVC restores what an earlier run made of these inputs, and runs no stage."""
    repro(EDITS["code"])
    [note] = notes()
    [out] = store.read_json(note)["outs"]
    files = [Path(out)] if Path(out).is_file() else [path for path in Path(out).rglob("*") if path.is_file()]
    before = files[0].read_bytes()
    os.chmod(files[0], 0o644)
    files[0].write_bytes(b"restored")
    assert inputs.misrecorded() == []
    assert notes() == []
    files[0].write_bytes(before)


def test_a_removed_image_is_named_too(folder: Path) -> None:
    repro("Path('photos/2.png').unlink()")
    assert inputs.misrecorded()[0].startswith("photos changed just after")


def test_a_stage_that_starts_again_is_not_kept_from_it(folder: Path) -> None:
    repro(EDITS["code"])
    assert inputs.misrecorded(starting="one@a") == []
    assert notes() == []


@pytest.mark.parametrize("edit", ["", "Path('params.yaml').write_text('k0: 3\\nsizes: {a: 0.00001}\\nother: 2')"])
def test_what_made_the_results_leaves_no_note(folder: Path, edit: str) -> None:
    repro(edit)
    assert [note.name for note in notes()] == ["one@a.ended"]
    assert inputs.misrecorded() == []
    assert notes() == []


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_after_dvc_has_looked_is_an_edit_like_any_other(folder: Path, what: str) -> None:
    repro()
    exec(EDITS[what])
    assert inputs.misrecorded() == []


def test_a_note_of_long_ago_or_a_damaged_one_says_nothing(folder: Path) -> None:
    repro(EDITS["code"])
    [note] = notes()
    store.write_json(note, {**store.read_json(note), "ended": time.time_ns() - 3600 * 10**9})
    assert inputs.misrecorded() == []
    for text in ("", "[]", '{"stage": 1}'):
        note.write_text(text)
        assert inputs.misrecorded() == []
        assert notes() == []
    repro(EDITS["params.yaml: k0"])
    Path("dvc.lock").write_text("a: [")
    assert inputs.misrecorded() == []


def test_another_folder_with_the_same_cache_is_another_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repro(EDITS["code"])
    (folder / "other").mkdir()
    monkeypatch.setenv("WSOUP_CACHE", str(folder / ".cache/wsoup"))
    monkeypatch.chdir(folder / "other")
    assert inputs.misrecorded() == []
    monkeypatch.chdir(folder)
    assert len(inputs.misrecorded()) == 1


def test_a_stage_without_dvc_leaves_no_note(folder: Path) -> None:
    repro()
    note, *_ = notes()
    note.unlink()
    inputs.check_unchanged("one@a", since=inputs.read("one@a"))
    assert notes() == []
    with pytest.raises(ChangedError, match=r"code/b\.json changed while one@a ran"):
        inputs.check_unchanged("one@a", since={**inputs.read("one@a"), "code/b.json": "other"})
