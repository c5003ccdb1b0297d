"""A dvc.lock that DVC cannot read: the error says what to do, and doing it costs no work."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import Project

from wsoup.pipeline.lock_file import damaged

LOCK = """schema: '2.0'
stages:
  prepare@photo:
    cmd: python stages prepare
    deps:
    - path: photo
      hash: md5
      md5: 2592892bcb0ffee95efb760ed7934808.dir
      size: 14092
      nfiles: 12
"""
STEP = "`git checkout dvc.lock` or remove it, then `dvc repro` takes finished stages from DVC's cache"


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("", "expected a dictionary"),
        ("schema: '2.0'\nsta", "line 3: could not find expected ':'"),
        (LOCK[: LOCK.index("deps:") + 5], "expected a list"),
        (LOCK[: LOCK.index("hash:") + 2], "line 8: could not find expected"),
        (LOCK.replace("    deps:", "<<<<<<< HEAD\n    deps:"), "line 6: could not find expected"),
    ],
)
def test_a_cut_file_is_named_with_the_next_step(in_tmp, cut, why):
    Path("dvc.lock").write_text(cut)
    sentence = damaged()
    assert sentence is not None
    assert sentence.startswith("DVC cannot read dvc.lock (")
    assert why in sentence
    assert sentence.endswith(STEP)


def test_a_whole_file_and_none_are_not_damaged(in_tmp):
    assert damaged() is None
    Path("dvc.lock").write_text(LOCK)
    assert damaged() is None
    Path("dvc.lock").write_text(LOCK[: LOCK.index("hash:")])  # a cut that DVC reads: the stage is not recorded whole
    assert damaged() is None


@pytest.mark.long
def test_what_the_error_says_costs_no_work(project: Project, tmp_path: Path):
    copy = project.copy(tmp_path / "project")
    lock = copy.folder / "dvc.lock"
    whole = lock.read_bytes()
    lock.write_bytes(whole[: whole.index(b"nfiles:") + 3])
    for command in (["check"], ["plan"]):
        assert "error: DVC cannot read dvc.lock (" in copy.run("python", "-m", "wsoup", *command, good=False)
    copy.run("dvc", "repro", good=False)
    lock.unlink()
    assert copy.repro() == {"report"}, "DVC's run cache has the others; of outs that git keeps it has none"
    assert lock.read_bytes() == whole
