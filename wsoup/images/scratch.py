"""A temporary folder for the decoding processes of this one: gone when it ends, or when the next one starts.

Each decoding process keeps its sockets in a folder of its own, which stays where it is killed.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from wsoup.disk.store import alive

_OURS = re.compile(r"ws-(\d+)-\w{8}")
"""How it is called: short, as the path of a socket holds about 100 letters."""


def scratch() -> str:
    """The folder of this process, made when it is first asked for; those of killed processes are removed."""
    return _made(os.getpid())


@cache
def _made(process: int) -> str:
    _remove_left()
    folder = tempfile.mkdtemp(prefix=f"ws-{process}-")
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left() -> None:
    for path in Path(tempfile.gettempdir()).iterdir():
        match = _OURS.fullmatch(path.name)
        if match and not path.is_symlink() and path.is_dir() and not alive(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)
