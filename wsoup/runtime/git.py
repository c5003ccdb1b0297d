"""What git says of a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(*arguments: str, folder: Path) -> str | None:
    """What a git command prints; None where it fails, there is no repository, or no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
