"""GitHub workflows: actions are pinned by commit, and only the publishing job gets an identity token."""

from __future__ import annotations

import re
import subprocess

import pytest
from project import ROOT
from yaml_in_c import safe_load

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
RELEASE = safe_load((ROOT / ".github/workflows/release.yml").read_text())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_their_version(path):
    used = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line
    assert safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_only_what_was_tested_is_published_by_a_job_that_does_nothing_else():
    build, publish = RELEASE["jobs"]["build"], RELEASE["jobs"]["publish"]
    assert (publish["needs"], publish["permissions"]) == ("build", {"id-token": "write"})
    assert "permissions" not in build
    assert not any("run" in step for step in publish["steps"])
    assert [step["run"] for step in build["steps"] if "run" in step][-1] == ".ci/wheel dist"


@pytest.mark.parametrize(
    ("tag", "entry", "good"),
    [("v1.2.0", "## 1.2.0", True), ("v1.2.0", "## 1.2.0 (unreleased)", False), ("v1.2.1", "## 1.2.1", False)],
)
def test_a_tag_must_be_the_version_with_an_entry_of_the_changelog(in_tmp, tag, entry, good):
    (in_tmp / ".venv/bin").mkdir(parents=True)
    (in_tmp / ".venv/bin/python").write_text("#!/bin/sh\necho 1.2.0\n")
    (in_tmp / ".venv/bin/python").chmod(0o755)
    (in_tmp / "CHANGELOG.md").write_text(f"# Changelog\n\n{entry}\nText.\n")
    (check,) = [step["run"] for step in RELEASE["jobs"]["build"]["steps"] if "tag" in step.get("name", "")]
    done = subprocess.run(
        ["bash", "-e", "-c", check], env={"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}, check=False
    )
    assert (done.returncode == 0) == good
