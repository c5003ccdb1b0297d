"""Folders of images that DVC takes for projects of their own: it would not notice when what is in them changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.disk.files import shown


def hidden_from_dvc(root: str) -> Iterator[DataError]:
    """An error for each folder with a `.dvc` in it: the folder of images, a split, or a class.

    Args:
        root: the folder of a dataset's images; a URL or a missing folder has no such folders.
    """
    here = Path.cwd()
    for folder in _folders(root, depth=2):
        # The folder of images may hold the run itself.
        of_this_run = folder.resolve() in (here, *here.parents)
        if (folder / ".dvc").is_dir() and not of_this_run:
            mark = shown(str(folder / ".dvc"))
            yield DataError(
                f"{mark} makes its folder another project to DVC, which would not notice changed images there; remove "
                f"{mark}"
            )


def _folders(folder: str | Path, *, depth: int) -> Iterator[Path]:
    """A folder, and those below it down to `depth`, in the order of names."""
    yield Path(folder)
    if depth == 0:
        return
    try:
        with os.scandir(folder) as entries:
            below = sorted(entry.path for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return  # the listing says so
    for place in below:
        yield from _folders(place, depth=depth - 1)
