"""`wsoup shots`: one command runs params.yaml with each number of shots, prints the figure's rows and draws it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from over_runs import completed, half_way, rows_of
from processes import children

from wsoup.report.record import load_record


@pytest.mark.slow
def test_one_command_makes_the_figure_over_shots(project, tmp_path):
    """The working folder stays as it is, and a second call runs nothing."""
    copy = project.copy(tmp_path / "project")
    before = load_record(copy.folder)
    printed = completed("shots", copy.folder, "--figure", "shots.svg", out=tmp_path / "shots.csv")
    rows = rows_of(tmp_path / "shots.csv", header="shots,variant,row,source,xd,dg")
    assert {row["shots"] for row in rows} == {"1", "2"}, "2 are what params.yaml has"
    of_two = {(row["variant"], row["row"]): float(row["xd"]) for row in rows if row["shots"] == "2" and row["xd"]}
    assert of_two == {
        (v, key): places["xd"] for v, rows in before.rows.items() for key, places in rows.items() if "xd" in places
    }
    by_shots = {n: [row | {"shots": ""} for row in rows if row["shots"] == n] for n in ("1", "2")}
    assert by_shots["1"] != by_shots["2"]
    assert load_record(copy.folder) == before
    assert "Running stage" in printed
    assert re.search(r"2 runs to come \(1 shot, 2 shots\): at most [\d.]+ min on this machine", printed)
    drawn = (copy.folder / "shots.svg").read_text(encoding="utf-8")
    assert "word soup" in drawn
    assert "coop_diverse, finetuned" in drawn
    again = completed("shots", copy.folder, out=tmp_path / "again.csv")
    assert again == "", "nothing runs again"
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "shots.csv").read_bytes()


@pytest.mark.slow
def test_an_interrupt_ends_all_and_the_next_call_goes_on(project, tmp_path):
    """An interrupt of the command alone, which a stage of DVC's would not hear by itself."""
    copy = project.copy(tmp_path / "project")
    copy.edit("fewshot", shots=1)
    process = half_way("shots", copy.folder)
    (dvc,) = children(process.pid, doing="dvc")
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate()
    assert (process.returncode, printed) == (130, "")
    assert errors.endswith("interrupted; nothing half-written is left\n")
    assert not Path(f"/proc/{dvc}").exists()
    assert "Running stage 'embed_train'" not in completed("shots", copy.folder, out=tmp_path / "shots.csv")
    assert (tmp_path / "shots.csv").read_text().startswith("shots,variant,row,source,xd,dg\n1,ce,")
