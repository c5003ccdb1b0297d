"""Commands that run params.yaml several times, `wsoup shots` and `wsoup base-to-new`: whole, and up to an interrupt."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

from processes import run_module, warm_python


def completed(command: str, folder: Path, *arguments: str, out: Path) -> str:
    """Run a command with its stdout in a file; what it printed to stderr."""
    variables = {**os.environ, **warm_python()}
    code, printed = run_module("wsoup", command, *arguments, folder=folder, variables=variables, out=str(out))
    assert code == 0, printed
    return printed


def half_way(command: str, folder: Path) -> subprocess.Popen[str]:
    """A command that has come to the middle of its first run, to be interrupted."""
    # Stages are the command's own, which hear its interrupt.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.Popen(
        [sys.executable, "-m", "wsoup", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "Running stage 'score@words'" in line:
            break
    return process


def rows_of(file: Path, *, header: str) -> list[dict[str, str]]:
    """The rows of a CSV file, which begins with its header: it holds the data alone."""
    text = file.read_bytes().decode()
    assert text.startswith(f"{header}\n")
    return list(csv.DictReader(text.splitlines()))
