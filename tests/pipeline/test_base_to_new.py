"""`wsoup base-to-new`: one command runs each dataset with its classes divided, and goes on after an interrupt."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
from over_runs import completed, half_way, rows_of
from repository import git
from yaml_in_c import safe_load

from wsoup.disk.store import sha256_file


def files_of(folder: Path) -> dict[str, str]:
    """Every file of the working folder that git or DVC knows, with its digest."""
    listed = git(folder, "ls-files", "--cached", "--others", "--exclude-standard").split()
    return {name: sha256_file(folder / name) for name in listed if (folder / name).is_file()}


@pytest.mark.slow
def test_one_command_divides_each_dataset_and_goes_on_after_an_interrupt(project, tmp_path):
    copy = project.copy(tmp_path / "project")
    shutil.copytree(copy.folder / "photo", copy.folder / "second")
    params = safe_load((copy.folder / "params.yaml").read_text())
    params["datasets"]["second"] = params["datasets"]["photo"] | {"role": "xd", "root": "second", "watch": "second"}
    params["finetune"]["methods"].pop("ce")
    copy.write_params(params)
    copy.commit("a second dataset")
    before = files_of(copy.folder)
    process = half_way("base-to-new", copy.folder)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate()
    assert (process.returncode, printed) == (130, "")
    printed = completed("base-to-new", copy.folder, "--figure", "base_to_new.svg", out=tmp_path / "rows.csv")
    assert "left out: other: has 2 classes; two halves need 4" in printed
    assert re.search(r"2 runs to come \(photo, second\): at most [\d.]+ min on this machine", printed)
    assert printed.count("Running stage 'prepare@photo'") == 0, "the interrupted run goes on"
    rows = rows_of(tmp_path / "rows.csv", header="dataset,method,texts,base,new,h,seeds")
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    assert datasets == ["photo", "second", "all datasets, H of the means", "all datasets, mean of H"]
    methods = {row["method"] for row in rows if row["dataset"] == "photo"}
    assert {"Class name only", "Word soup", "coop_diverse + Word soup"} < methods
    assert {row["seeds"] for row in rows} == {"2"}
    after = files_of(copy.folder)
    assert {name for name in after if after[name] != before.get(name)} == {"base_to_new.md", "base_to_new.svg"}
    assert (copy.folder / "base_to_new.md").read_text().startswith("# From base to new classes: means over 2 datasets")
    again = completed("base-to-new", copy.folder, out=tmp_path / "again.csv")
    assert "Running stage" not in again
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()
