"""What to do next: in a folder without a pipeline, and after a check that found nothing."""

from __future__ import annotations

import shutil

import pytest
import yaml
from processes import ROOT
from run_cli import run
from yaml_in_c import safe_load

from wsoup.pipeline.planning.plan import duration

COMMANDS = ("results", "report", "compare", "check", "plan", "cache", "shots", "base-to-new")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_gives_the_same_cure_in_a_bare_folder(in_tmp, command):
    code, printed, errors = run(command)
    assert (code, printed) == (1, "")
    assert errors == (
        f"error: {in_tmp} is not a pipeline folder: it has neither params.yaml nor dvc.yaml; run `wsoup init FOLDER`, "
        "which makes one, or go to yours\n"
    )


@pytest.mark.parametrize(
    ("there", "command", "says"),
    [
        ("params.yaml", "plan", "dvc.yaml does not exist: run this in the folder of dvc.yaml and params.yaml"),
        ("params.yaml", "cache", "dvc.yaml does not exist: run this in the folder of dvc.yaml and params.yaml"),
        ("dvc.yaml", "plan", "params.yaml does not exist; write one with `wsoup profile demo --out params.yaml`"),
        ("dvc.yaml", "check", "params.yaml does not exist; write one with `wsoup profile demo --out params.yaml`"),
    ],
)
def test_in_half_a_pipeline_folder_the_missing_file_is_named(in_tmp, there, command, says):
    (in_tmp / there).write_bytes((ROOT / there).read_bytes())
    assert run(command) == (1, "", f"error: {says}\n")


@pytest.mark.parametrize(
    ("section", "entry", "key"),
    [("heads", "ridge", "soup"), ("soups", "word", "pool"), ("soups", "word", "kind")],
)
def test_a_key_that_dvc_yaml_looks_for_is_missed_in_one_line(in_tmp, section, entry, key):
    """DVC's own words for it are "Could not find 'item.soup'", and name dvc.yaml."""
    params = safe_load((ROOT / "params.yaml").read_text())
    del params[section][entry][key]
    (in_tmp / "params.yaml").write_text(yaml.safe_dump(params))
    shutil.copy(ROOT / "dvc.yaml", in_tmp)
    for command in (("repro",), ("repro", "report"), ("check",)):
        code, printed, errors = run(*command)
        assert (code, printed) == (1, "")
        assert errors.startswith(f"error: params.yaml: {section}.{entry}") or f"'{section}.{entry}.{key}'" in errors
        assert errors.count("\n") == 1


def test_no_time_is_shown_as_nothing():
    assert [duration(hours) for hours in (30.04, 1, 0.5, 5 / 3600)] == ["30.0 h", "1.0 h", "30 min", "0.1 min"]


def test_a_check_without_problems_names_the_next_step(project, tmp_path):
    copy = project.copy(tmp_path / "project")
    *_, last = copy.run("wsoup", "check").splitlines()
    assert last.endswith("; next: dvc repro")
