"""Reports are written atomically."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from processes import run_stage

from wsoup.report.run import write_reports
from wsoup.report.tables import Table


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def report(value: float) -> dict:
    return {
        "tables": [Table("t", "T", ["a"], [{"a": value}])],
        "figures": {"f": [{"x": value}]},
        "values": {"metrics": {"soup": value}},
    }


@pytest.mark.parametrize(
    "broken",
    [
        {"tables": [Table("t", "T", ["a"], [{"a": 2.0}]), Table("u", "U", ["a"], [None])]},
        {"figures": {"f": [{"x": 2.0}], "g": [{"x": {1}}]}},
        {"values": {"metrics": {"soup": {1, 2}}}},
    ],
    ids=["tables", "figures", "metrics"],
)
def test_a_failure_half_way_keeps_the_last_report(tmp_path, broken):
    write_reports(tmp_path, **report(1.0))
    before = files(tmp_path)
    assert set(before) == {"tables/t.csv", "tables/t.md", "plots/f.json", "metrics.json"}
    with pytest.raises((TypeError, AttributeError)):
        write_reports(tmp_path, **{**report(2.0), **broken})
    assert files(tmp_path) == before


def test_a_new_report_replaces_the_last_one_and_its_tables(tmp_path):
    write_reports(tmp_path, **report(1.0))
    write_reports(tmp_path, tables=[Table("u", "U", ["a"], [])], figures={}, values={"metrics": {}})
    assert set(files(tmp_path)) == {"tables/u.csv", "tables/u.md", "metrics.json"}


@pytest.mark.parametrize("missing", ["survey/descriptors.parquet", "soups/word/seed2.json", "results/pretrained"])
def test_a_missing_input_keeps_the_last_report(project, tmp_path, missing):
    folder = tmp_path / "run"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns(".git", ".dvc", "__pycache__"))
    before = files(folder / "reports")
    away = folder / "artifacts" / missing
    shutil.rmtree(away) if away.is_dir() else away.unlink()
    assert "does not exist" in run_stage(folder, "report", code=1, root=folder)
    assert files(folder / "reports") == before
