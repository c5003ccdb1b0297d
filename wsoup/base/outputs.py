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
        ParamsError: an output exists and `force` is False, is also an input, or is named twice; names the option.
    """
    read = {os.path.realpath(file) for file in inputs if file is not None and os.path.exists(file)}
    written: dict[str, str] = {}
    for option, file in outputs:
        if file is None:
            continue
        place = os.path.realpath(file)
        if place in read:
            raise ParamsError(f"{option} {file} is also an input; give another name")
        if place in written:
            raise ParamsError(f"{option} {file} is also the file of {written[place]}; give each a name of its own")
        if os.path.lexists(file) and (not force or os.path.isdir(file)):
            raise ParamsError(f"{option} {file} exists already; give another name, or --force to replace a file")
        written[place] = option
