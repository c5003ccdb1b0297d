"""DVC's own files among images: a `.dvc` folder hides images from it, and an import replaces them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wsoup.base.errors import DataError, WsoupError
from wsoup.datasets.walk import files_in
from wsoup.disk.files import shown
from wsoup.params.reading import read_yaml


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


def replaced_by_dvc(root: str) -> Iterator[str]:
    """A sentence for each .dvc file below a folder of images that `dvc repro` would take for an import to make again.

    Args:
        root: the folder; a URL or a missing folder holds none.
    """
    for path in files_in(root):
        if not path.endswith(".dvc"):
            continue
        try:
            file = read_yaml(path)
        except WsoupError:
            continue  # `dvc repro` says so, and does nothing
        # What `dvc add` writes has no deps, and what `dvc import` writes is frozen.
        if file.get("deps") and not file.get("frozen"):
            yield (
                f"{shown(path)} is an import of DVC: `dvc repro` replaces files here with what it names; remove it, or "
                "`dvc freeze` it if it is yours"
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
