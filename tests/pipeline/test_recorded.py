"""What is edited between a stage's last look and DVC's own is taken back; DVC runs here for real."""

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

from wsoup.core.disk import store
from wsoup.core.params.section import read_yaml
from wsoup.pipeline import inputs, recorded

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
from wsoup.core.errors import WsoupError
from wsoup.pipeline import inputs, recorded
before = inputs.read(sys.argv[1])
try:
    recorded.check(sys.argv[1], outs=before.outs)
except WsoupError as error:
    sys.exit(f"error: {error}")
Path(before.outs[0]).mkdir()
Path(before.outs[0], "it").write_text(sys.argv[1] + Path("content.txt").read_text())
recorded.leave(sys.argv[1], inputs.check_unchanged(sys.argv[1], since=before))
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
    """Make an edit in the moment after stage one has looked, once."""
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
"""What is named -> what is done."""
PARAMS_EDIT, CODE_EDIT = list(EDITS)[:2]


@pytest.mark.parametrize("said", EDITS)
def test_the_next_stage_names_what_was_edited_and_takes_the_entry_back(folder: Path, said: str) -> None:
    with_edit(EDITS[said])
    [line] = re.findall("error: .*", dvc("repro", good=False))
    assert line.startswith(f"error: one@a ran with {said}")
    assert line.endswith(", edited just after its end; the entry is out of dvc.lock, run `dvc repro` again")
    assert len(line) < 500
    assert (entry("one@a"), cached()) == ("", 0)
    if said == CODE_EDIT:
        assert dvc("repro").count("Running stage") == 2
        assert dvc("status").strip() == "Data and pipelines are up to date."
        assert recorded.doubted() == []


@pytest.mark.parametrize("said", [PARAMS_EDIT, CODE_EDIT])
def test_the_last_stage_of_a_run_is_doubted_until_it_runs_again(folder: Path, said: str) -> None:
    with_edit(EDITS[said])
    dvc("repro", "one@a")
    [line] = recorded.doubted()
    assert line.startswith(f"one@a ran with {said}")
    assert len(line) < 500
    place, command = re.search(r"remove (\S+) and run `dvc (.*)`$", line).groups()
    shutil.rmtree(place)
    dvc(*command.split())
    assert recorded.doubted() == []
    assert cached() == 1


def test_what_an_earlier_run_is_of_stays_in_the_run_cache(folder: Path) -> None:
    """k0: 3 and 4 are there; the run with 5 during which it is set to 3 takes the place of neither."""
    for k0 in ("3", "4"):
        Path("params.yaml").write_text(PARAMS.replace("3", k0))
        Path("content.txt").write_text(k0)
        dvc("repro")
    rights = cached()
    Path("params.yaml").write_text(PARAMS.replace("3", "5"))
    Path("content.txt").write_text("5")
    with_edit(f"Path('params.yaml').write_text({PARAMS!r})")
    assert "one@a ran with params.yaml: k0 5, and dvc.lock says 3" in dvc("repro", good=False)
    assert cached() == rights
    assert "Running stage" not in dvc("repro")
    assert Path("made/it").read_text() == "one@a3"


def test_an_edit_of_what_it_does_not_read_and_another_spelling_are_no_fault(folder: Path) -> None:
    with_edit("Path('params.yaml').write_text('k0: 0003\\nsizes: {a: 0.00001}\\nother: 2')")
    assert dvc("repro").count("Running stage") == 2
    assert recorded.doubted() == []
    assert [path.name for path in Path(".cache/wsoup/locks").iterdir()] == ["two.ran"], "the other was looked at"


def test_an_edit_after_dvc_has_looked_is_an_edit_like_any_other(folder: Path) -> None:
    dvc("repro", "one@a")
    for edit in EDITS.values():
        exec(edit)
        assert recorded.doubted() == []
    dvc("commit", "--force", "one@a")
    assert recorded.doubted() == [], "the run cache has what it ran with"
    assert dvc("repro").count("Running stage") == 1
    assert recorded.doubted() == []


@pytest.mark.parametrize("content", ["the same of both", ""])
def test_results_from_the_run_cache_are_nobodys_fault(folder: Path, content: str) -> None:
    for k0 in ("3", "4", "3"):
        Path("params.yaml").write_text(PARAMS.replace("3", k0))
        Path("content.txt").write_text(content or k0)
        printed = dvc("repro", "one@a")
        assert recorded.doubted() == []
    assert "Running stage" not in printed
    assert dvc("repro", "--force", "--downstream", "one@a").count("Running stage") == 2
    assert recorded.doubted() == []


def test_a_stage_that_dvc_did_not_record_is_nobodys_fault(folder: Path) -> None:
    """Its note is of what never came into dvc.lock, which holds the same results of other params."""
    dvc("repro")
    Path("params.yaml").write_text(PARAMS.replace("1.0e-05", "2"))
    with_edit(f"Path('params.yaml').write_text({PARAMS!r}); raise SystemExit(1)")
    Path("dvc.yaml").write_text(PIPELINE + "  three:\n    cmd: python stage.py three\n    outs: [made_of_nothing]\n")
    printed = dvc("repro", "--keep-going", good=False)
    assert "error: " not in printed
    assert "three" in printed
    assert entry("three")
    assert recorded.doubted() == []


def test_files_that_dvc_is_told_to_leave_out_are_nobodys_fault(folder: Path) -> None:
    """A note counts them, dvc.lock does not."""
    Path(".dvcignore").write_text("1.png\nb.json\n")
    with_edit("Path('photos/3.png').write_text('late')")
    dvc("repro")
    assert recorded.doubted() == []


def test_a_folder_of_a_user_who_works_elsewhere_is_another_matter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_edit(EDITS[CODE_EDIT])
    dvc("repro", "one@a")
    assert len(recorded.doubted()) == 1
    monkeypatch.setenv("WSOUP_CACHE", str(folder / ".cache/wsoup"))
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    assert recorded.doubted() == []


def test_what_cannot_be_read_accuses_nobody(folder: Path) -> None:
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


def test_every_stage_of_a_run_is_told_as_dvc_tells_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole sections, items of them, keys in other files; folders of code, images and results."""
    monkeypatch.chdir(project.folder)
    stages = list(read_yaml("dvc.lock")["stages"])
    assert len(stages) > 20
    for stage in stages:
        read, written = inputs.read(stage), recorded._parsed(stage, entry(stage))
        ran = recorded._ran(read)
        assert recorded._said(written, like=ran) == ran
        outs = {out["path"]: out["md5"] for out in written["outs"]}
        for out in read.outs:
            states = {str(path): inputs.md5(path) for path in inputs.files_of(Path(out))}
            assert recorded._in_dvcs_terms(out, states) == {"md5": outs[out]}
    assert recorded.doubted() == []


def test_a_stage_without_dvc_leaves_no_note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVC_STAGE", raising=False)
    Path("made").mkdir()
    recorded.leave("one@a", inputs.read("one@a"))
    assert not Path(".cache").exists()


def test_a_process_of_the_same_number_is_told_by_when_it_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".dvc/tmp").mkdir()
    held = {"write": {str(folder / "made"): {"pid": os.getpid(), "cmd": "dvc repro"}}, "read": {}}
    (folder / ".dvc/tmp/rwlock").write_text(json.dumps(held))
    monkeypatch.setenv("DVC_ROOT", str(folder))
    mine = recorded._dvc_process(["made"])
    assert mine.startswith(f"{store.place()} {os.getpid()} ")
    assert recorded._dvc_process(["made_of_it"]) == ""
    with subprocess.Popen(["sleep", "9"]) as other:
        held["write"][str(folder / "made")]["pid"] = other.pid
        (folder / ".dvc/tmp/rwlock").write_text(json.dumps(held))
        assert recorded._dvc_process(["made"]).split()[2] > mine.split()[2]
        other.kill()
    assert recorded._dvc_process(["made"]) == "", "it has ended"


def test_a_note_and_the_look_at_it_take_a_moment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dvc("repro", "one@a")
    monkeypatch.setenv("DVC_STAGE", "one@a")
    read = inputs.read("one@a")
    began = time.process_time()
    for _ in range(20):
        recorded.leave("one@a", read)
        recorded.check("two", outs=["made_of_it"])
        recorded.doubted()
    assert (time.process_time() - began) / 20 < 0.05
