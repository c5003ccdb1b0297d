"""Git repositories and DVC folders for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; everything it printed. Skips the test where git is not installed."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def new_repository(folder: Path) -> None:
    """Make a folder a repository that can commit without a git configuration."""
    git(folder, "init", "-q")
    git(folder, "config", "user.email", "nobody@example.org")
    git(folder, "config", "user.name", "nobody")


def commit(folder: Path, message: str) -> None:
    """Commit everything."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def make_dvc_folder(folder: Path) -> None:
    """Make a folder a DVC project without git."""
    (folder / ".dvc").mkdir()
    (folder / ".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n    check_update = false\n")
