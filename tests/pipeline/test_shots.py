"""`wsoup shots`: one command runs params.yaml with each number of shots and prints the figure."""

from __future__ import annotations

import csv
import io
import re

import pytest

from wsoup.report.record import load_record


@pytest.mark.slow
def test_one_command_makes_the_figure_over_shots(project, tmp_path):
    """The working folder stays as it is, and a second call runs nothing."""
    copy = project.copy(tmp_path / "project")
    before = load_record(copy.folder)
    printed = copy.run("wsoup", "shots")
    rows = list(csv.DictReader(io.StringIO(printed[printed.index("shots,variant") :])))
    assert {row["shots"] for row in rows} == {"1", "2"}, "2 are what params.yaml has"
    of_two = {(row["variant"], row["row"]): float(row["xd"]) for row in rows if row["shots"] == "2" and row["xd"]}
    assert of_two == {
        (v, key): places["xd"] for v, rows in before.rows.items() for key, places in rows.items() if "xd" in places
    }
    assert {row["source"] for row in rows if row["shots"] == "1"} != {
        row["source"] for row in rows if row["shots"] == "2"
    }
    assert load_record(copy.folder) == before
    assert "Running stage" in printed
    assert re.search(r"runs to come, with 1, 2 shots: at most [\d.]+ min on this machine", printed)
    again = copy.run("wsoup", "shots")
    assert "Running stage" not in again
    assert printed.endswith(again)
