"""Run `wsoup` in this process, as a user would."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from wsoup.cli import app as cli


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `wsoup ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.argv", ["wsoup", *arguments])
        patch.setenv("COLUMNS", "200")
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()
