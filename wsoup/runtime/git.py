"""What git says of a folder."""

import subprocess
from pathlib import Path


def git(*arguments: str, folder: Path) -> str | None:
    """Output of a git command; None where it fails, or there is no repository or no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
