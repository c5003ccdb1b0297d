"""Edits between a stage's last look at its inputs and DVC's are caught; DVC runs here for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import run_module
from project import ROOT, Project
from repository import make_dvc_folder

from wsoup.disk import store
from wsoup.params.section import read_yaml
from wsoup.pipeline import recorded
from wsoup.pipeline.inputs import files_of, md5, read_inputs

PIPELINE = """
stages:
  one:
    foreach: [a]
    do:
      cmd: python stage.py one@a && python edit.py
      params: [k0, "sizes.${item}"]
      deps: [code, photos, list.txt]
      outs: [made]
  two:
    cmd: python stage.py two
    params: [k0]
    deps: [made]
    outs: [made_of_it]
"""
STAGE = """
import sys
from pathlib import Path
from wsoup.base.errors import WsoupError
from wsoup.pipeline import recorded
from wsoup.pipeline.inputs import check_unchanged, read_inputs
before = read_inputs(sys.argv[1])
try:
    recorded.check_notes(sys.argv[1], outs=before.outs)
except WsoupError as error:
    sys.exit(f"error: {error}")
Path(before.outs[0]).mkdir()
Path(before.outs[0], "it").write_text(sys.argv[1] + Path("content.txt").read_text())
recorded.leave_note(sys.argv[1], check_unchanged(sys.argv[1], since=before))
"""
PARAMS = "k0: 3\nsizes: {a: 1.0e-05, b: 2}\nother: 1\n"


@pytest.fixture
def folder(in_tmp: Path) -> Path:
    make_dvc_folder(in_tmp)
    files = {"dvc.yaml": PIPELINE, "params.yaml": PARAMS, "stage.py": STAGE, "edit.py": "", "content.txt": ""}
    for name in ("code/b.json", "code/a/c.json", "code/a-b.json", "photos/1.png", "photos/2.png", "list.txt"):
        files[name] = name
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return in_tmp


def dvc(*arguments: str, good: bool = True) -> str:
    """A command of DVC; what it and its stages printed."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": paths, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    code, printed = run_module("dvc", *arguments, folder=Path.cwd(), variables=variables)
    assert (code == 0) is good, printed
    return printed


def with_edit(edit: str) -> None:
    """Make an edit once, just after stage one has looked."""
    Path("edit.py").write_text(f"from pathlib import Path\nPath('edit.py').write_text('')\n{edit}\n")


def entry(stage: str) -> str:
    return recorded._entry_text(stage)


def cached() -> int:
    """Runs in DVC's run cache."""
    return len(list(Path(".dvc/cache/runs").glob("*/*/*")))


EDITS = {
    "params.yaml: sizes.a 1e-05, and dvc.lock says 2e-05": (
        "Path('params.yaml').write_text('k0: 3\\nsizes: {a: 2.0e-05}')"
    ),
    "code {'md5': '": "Path('code/b.json').write_text('other')",
    "photos {'nfiles': 2, 'size': 24}, and dvc.lock says {'nfiles': 3, 'size': 28}": (
        "Path('photos/3.png').write_text('late')"
    ),
    "list.txt {'size': 8}, and dvc.lock says {'size': 5}": "Path('list.txt').write_text('other')",
}
"""Text in the error -> the edit."""
PARAMS_EDIT, CODE_EDIT = list(EDITS)[:2]


@pytest.mark.parametrize("message", EDITS)
def test_the_next_stage_names_the_edit_and_removes_the_entry(folder: Path, message: str) -> None:
    with_edit(EDITS[message])
    [line] = re.findall("error: .*", dvc("repro", good=False))
    assert line.startswith(f"error: one@a ran with {message}")
    assert line.endswith(", edited just after its end; the entry is out of dvc.lock, run `dvc repro` again")
    assert len(line) < 500
    assert (entry("one@a"), cached()) == ("", 0)
    if message == CODE_EDIT:
        assert dvc("repro").count("Running stage") == 2
        assert dvc("status").strip() == "Data and pipelines are up to date."
        assert recorded.doubted() == []


@pytest.mark.parametrize("message", [PARAMS_EDIT, CODE_EDIT])
def test_the_last_stage_of_a_run_is_doubted_until_it_runs_again(folder: Path, message: str) -> None:
    with_edit(EDITS[message])
    dvc("repro", "one@a")
    [line] = recorded.doubted()
    assert line.startswith(f"one@a ran with {message}")
    assert len(line) < 500
    place, command = re.search(r"remove (\S+) and run `dvc (.*)`$", line).groups()
    shutil.rmtree(place)
    dvc(*command.split())
    assert recorded.doubted() == []
    assert cached() == 1


def test_earlier_runs_stay_in_the_run_cache(folder: Path) -> None:
    """Runs with k0 3 and 4 are there; one with 5, during which it is set to 3, replaces neither."""
    for k0 in ("3", "4"):
        Path("params.yaml").write_text(PARAMS.replace("3", k0))
        Path("content.txt").write_text(k0)
        dvc("repro")
    before = cached()
    Path("params.yaml").write_text(PARAMS.replace("3", "5"))
    Path("content.txt").write_text("5")
    with_edit(f"Path('params.yaml').write_text({PARAMS!r})")
    assert "one@a ran with params.yaml: k0 5, and dvc.lock says 3" in dvc("repro", good=False)
    assert cached() == before
    assert "Running stage" not in dvc("repro")
    assert Path("made/it").read_text() == "one@a3"


def test_edits_of_other_keys_and_another_spelling_are_ignored(folder: Path) -> None:
    with_edit("Path('params.yaml').write_text('k0: 0003\\nsizes: {a: 0.00001}\\nother: 2')")
    assert dvc("repro").count("Running stage") == 2
    assert recorded.doubted() == []
    assert [path.name for path in Path(".cache/wsoup/locks").iterdir()] == ["two.ran"], "the other note was checked"


def test_an_edit_after_dvc_has_looked_is_an_ordinary_edit(folder: Path) -> None:
    dvc("repro", "one@a")
    for edit in EDITS.values():
        exec(edit)
        assert recorded.doubted() == []
    dvc("commit", "--force", "one@a")
    assert recorded.doubted() == [], "the run cache has what it ran with"
    assert dvc("repro").count("Running stage") == 1
    assert recorded.doubted() == []


@pytest.mark.parametrize("content", ["the same of both", ""])
def test_results_from_the_run_cache_are_not_doubted(folder: Path, content: str) -> None:
    for k0 in ("3", "4", "3"):
        Path("params.yaml").write_text(PARAMS.replace("3", k0))
        Path("content.txt").write_text(content or k0)
        printed = dvc("repro", "one@a")
        assert recorded.doubted() == []
    assert "Running stage" not in printed
    assert dvc("repro", "--force", "--downstream", "one@a").count("Running stage") == 2
    assert recorded.doubted() == []


def test_a_stage_that_dvc_did_not_record_is_not_doubted(folder: Path) -> None:
    """Its note never reached dvc.lock, which has the same results for other params."""
    dvc("repro")
    Path("params.yaml").write_text(PARAMS.replace("1.0e-05", "2"))
    with_edit(f"Path('params.yaml').write_text({PARAMS!r}); raise SystemExit(1)")
    Path("dvc.yaml").write_text(PIPELINE + "  three:\n    cmd: python stage.py three\n    outs: [made_of_nothing]\n")
    printed = dvc("repro", "--keep-going", good=False)
    assert "error: " not in printed
    assert "three" in printed
    assert entry("three")
    assert recorded.doubted() == []


def test_files_that_dvc_ignores_cause_no_doubt(folder: Path) -> None:
    """A note counts them, dvc.lock does not."""
    Path(".dvcignore").write_text("1.png\nb.json\n")
    with_edit("Path('photos/3.png').write_text('late')")
    dvc("repro")
    assert recorded.doubted() == []


def test_notes_of_another_folder_are_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_edit(EDITS[CODE_EDIT])
    dvc("repro", "one@a")
    assert len(recorded.doubted()) == 1
    monkeypatch.setenv("WSOUP_CACHE", str(folder / ".cache/wsoup"))
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    assert recorded.doubted() == []


def test_unreadable_records_cause_no_doubt(folder: Path) -> None:
    with_edit(EDITS[CODE_EDIT])
    dvc("repro", "one@a")
    lock, note = Path("dvc.lock"), Path(".cache/wsoup/locks/one@a.ran")
    whole = lock.read_bytes()
    for damaged in (b"", b"\xff[", b"[", *(whole[:size] for size in range(0, len(whole) - 60, 40))):
        lock.write_bytes(damaged)
        assert recorded.doubted() == []
    lock.unlink()
    assert recorded.doubted() == []
    lock.write_bytes(whole)
    assert len(recorded.doubted()) == 1
    note.write_bytes(note.read_bytes()[:-1])
    assert recorded.doubted() == []


def test_inputs_of_every_stage_are_as_in_dvc_lock(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole sections, items of them, keys in other files; folders of code, images and results."""
    monkeypatch.chdir(project.folder)
    stages = list(read_yaml("dvc.lock")["stages"])
    assert len(stages) > 20
    for stage in stages:
        inputs, written = read_inputs(stage), recorded._parsed(stage, entry(stage))
        ran = recorded._in_lock_terms(inputs)
        assert recorded._entry_values(written, like=ran) == ran
        outs = {out["path"]: out["md5"] for out in written["outs"]}
        for out in inputs.outs:
            states = {str(path): md5(path) for path in files_of(Path(out))}
            assert recorded._lock_state(out, states) == {"md5": outs[out]}
    assert recorded.doubted() == []


def test_a_stage_without_dvc_leaves_no_note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVC_STAGE", raising=False)
    Path("made").mkdir()
    recorded.leave_note("one@a", read_inputs("one@a"))
    assert not Path(".cache").exists()


def test_a_process_with_the_same_id_differs_by_its_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".dvc/tmp").mkdir()
    held = {"write": {str(folder / "made"): {"pid": os.getpid(), "cmd": "dvc repro"}}, "read": {}}
    (folder / ".dvc/tmp/rwlock").write_text(json.dumps(held))
    monkeypatch.setenv("DVC_ROOT", str(folder))
    own = recorded._dvc_process(["made"])
    assert own.startswith(f"{store.place()} {os.getpid()} ")
    assert recorded._dvc_process(["made_of_it"]) == ""
    with subprocess.Popen(["sleep", "9"]) as other:
        held["write"][str(folder / "made")]["pid"] = other.pid
        (folder / ".dvc/tmp/rwlock").write_text(json.dumps(held))
        assert recorded._dvc_process(["made"]).split()[2] > own.split()[2]
        other.kill()
    assert recorded._dvc_process(["made"]) == "", "it has ended"


def test_leaving_and_checking_a_note_takes_milliseconds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dvc("repro", "one@a")
    monkeypatch.setenv("DVC_STAGE", "one@a")
    inputs = read_inputs("one@a")
    began = time.process_time()
    for _ in range(20):
        recorded.leave_note("one@a", inputs)
        recorded.check_notes("two", outs=["made_of_it"])
        recorded.doubted()
    assert (time.process_time() - began) / 20 < 0.05
