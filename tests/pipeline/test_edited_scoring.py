"""An edit costs what it means: `dvc repro` after one in wsoup/core/scoring.py, which six kinds of stages import."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project import METHODS, Project

SCORING = "wsoup/core/scoring.py"
RUN = {"score@words", "score@descriptors", "soup@word", "soup@descriptor", "head@ridge", "survey", "evaluate"}
RUN |= {f"evaluate_tuned@{method}" for method in METHODS}
"""Stages that import it."""


@pytest.fixture
def edited(project: Project, tmp_path: Path) -> Project:
    return project.copy(tmp_path / "project")


def finished(project: Project) -> dict[Path, int]:
    """The shards of the stages in `RUN`, and when each was written."""
    shards = {}
    for stage in RUN:
        for path in project.folder.glob(f".cache/wsoup/{stage}/*/*.part"):
            shards[path] = path.stat().st_mtime_ns
    return shards


def encoded(printed: str) -> list[int]:
    """The numbers of texts that stages encoded, as they print them."""
    return [int(n) for n in re.findall(r"(\d+) texts and \d+ tokens encoded here", printed)]


@pytest.mark.long
def test_a_docstring_costs_no_work(edited: Project) -> None:
    """No stage runs but `code`, whose result stays: every shard is that of the run before."""
    before = finished(edited)
    outs = edited.outs()
    assert {path.parts[-3] for path in before} == RUN
    source = (edited.folder / SCORING).read_text()
    (edited.folder / SCORING).write_text(source.replace('"""', '"""Edited. ', 1))
    printed = edited.run("dvc", "repro")
    assert set(re.findall(r"Running stage '([^']+)'", printed)) == {"code"}
    assert encoded(printed) == []
    assert finished(edited) == before
    assert edited.outs() == outs


@pytest.mark.long
def test_another_operator_costs_all_of_it(edited: Project) -> None:
    before = finished(edited)
    outs = edited.outs()
    edited.edit_code(SCORING, "wins = own > best", "wins = own < best")
    printed = edited.run("dvc", "repro")
    assert set(re.findall(r"Running stage '([^']+)'", printed)) >= RUN
    texts = encoded(printed)
    assert len(texts) >= 6
    assert min(texts) > 0
    after = finished(edited)
    assert {path.parts[-3] for path in after} == RUN
    assert not after.keys() & before.keys()
    assert edited.outs() != outs
