"""Putting a profile in place: whole or not at all, and with reports of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from wsoup.artifacts import Artifacts
from wsoup.store import replacing


def write(text: str, *, out: Path) -> str | None:
    """Write a profile to `out`; what was done to the reports beside it, where something was.

    `dvc metrics diff` compares with the last commit. Where that holds the reports of another world (a fresh clone has
    those of the toy world), they are removed, so that the first commit of the user's own makes the comparison theirs.
    Reports that git does not hold as they stand are left alone.
    """
    other = _world(out.read_text(encoding="utf-8")) if out.is_file() else None
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    reports = out.resolve().parent / Artifacts().reports
    if other is None or other == _world(text) or not reports.is_dir() or not _committed(reports):
        return None
    shutil.rmtree(reports)
    return (
        f"removed {Artifacts().reports}/, the last commit's, which are of other datasets: commit now "
        '(`git commit -am "My images"`), and `dvc metrics diff` compares your runs'
    )


def _world(text: str) -> Any:
    """Where the images of a params.yaml come from; None where it does not say."""
    try:
        params = yaml.safe_load(text)
        return [params["source"], {name: section["root"] for name, section in params["datasets"].items()}]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None


def _committed(folder: Path) -> bool:
    """Whether git holds all that is in a folder, as it stands."""
    asked = ["git", "-C", str(folder), "status", "--porcelain", "--ignored", "--", "."]
    known = ["git", "-C", str(folder), "ls-files", "--", "."]
    try:
        status, files = (subprocess.run(c, capture_output=True, text=True, check=True).stdout for c in (asked, known))
    except (OSError, subprocess.CalledProcessError):
        return False
    return bool(files.strip()) and not status.strip()
