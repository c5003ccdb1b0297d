"""One rule for what a command writes: no file is replaced, unless with `--force`, and no input ever."""

import os
from collections.abc import Iterable
from pathlib import Path

from wsoup.base.errors import ParamsError


def claim(
    outputs: Iterable[tuple[str, str | Path | None]], *, inputs: Iterable[str | Path | None] = (), force: bool
) -> None:
    """Check all outputs of a command before any work.

    Args:
        outputs: (option, file); a file that is None is not written.
        inputs: files that are read.
        force: whether existing files may be replaced.

    Raises:
        ParamsError: an output exists and `force` is False, or is also an input; names the option.
    """
    read = {os.path.realpath(file) for file in inputs if file is not None and os.path.exists(file)}
    for option, file in outputs:
        if file is None:
            continue
        if os.path.realpath(file) in read:
            raise ParamsError(f"{option} {file} is also an input; give another name")
        if os.path.lexists(file) and (not force or os.path.isdir(file)):
            raise ParamsError(f"{option} {file} exists already; give another name, or --force to replace a file")


def check_ending(file: Path, *endings: str, option: str) -> None:
    """Raise ParamsError if an option names a file of another kind, which would be overwritten."""
    if file.suffix.lower() not in endings:
        raise ParamsError(f"{option} {file} must end in {' or '.join(endings)}: a file of that name is overwritten")
