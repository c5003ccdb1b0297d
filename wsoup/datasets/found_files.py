"""Where the files of a list lie, which it may name without an ending or a folder, or as a server calls them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.datasets.cells import Cells
from wsoup.datasets.label_studio import before_upload
from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import is_photo
from wsoup.datasets.walk import files_in, subfolders
from wsoup.disk.files import shown


def root_of(file: Path, *, cells: Cells) -> Path:
    """The folder that a list's paths are relative to: its own, or one beside that, as PACS and COCO have it."""
    first = cells.paths[0] if cells.paths and cells.roles.path is not None else ""
    if not first or os.path.isabs(first) or ".." in Path(first).parts:
        return file.parent
    # As Path's own functions do not, those of os.path take names that are too long for a file.
    is_there = os.path.exists(file.parent / first)
    if is_there or found_below(str(file.parent), [first], origin=cells.origin)[1]:
        return file.parent
    beside = [file.parent.parent, *(file.parent.parent / name for name in subfolders(file.parent.parent))]
    for folder in beside:
        # A file of that name may be another dataset's, so all must be there.
        if all(os.path.isfile(folder / path) for path in cells.paths):
            return folder
    return file.parent


def found_below(root: str, paths: Sequence[str], *, origin: str) -> tuple[list[str], str]:
    """The paths of listed files below a folder, and a line on how they were found.

    Where the first path is there, all stay as they are. An upload to Label Studio that is not there as its server calls
    it is looked for under its own name. A path that no file fits stays, too, for whoever reads it to say that it is
    missing.

    Args:
        root: the folder.
        paths: of N files, with forward slashes.
        origin: what lists them, for the message.

    Raises:
        DataError: two files fit a path.
    """
    if not paths or os.path.lexists(os.path.join(root, paths[0])):
        return list(paths), ""
    spellings = {*paths, *map(before_upload, paths)}
    by_name = _by_name(root, names={path.rpartition("/")[2] for path in spellings})
    found = []
    for path in paths:
        candidates = _fitting(by_name, path) or _fitting(by_name, before_upload(path))
        if len(candidates) > 1:
            raise DataError(
                f"{origin}: {shown(path)!r} may be {some(candidates[:2])}; give paths that only one file has"
            )
        found.append(candidates[0] if candidates else path)
    if found == list(paths):
        return found, ""
    i = next(i for i, path in enumerate(paths) if found[i] != path)
    return found, f"files are found by their names: {shown(paths[i])!r} is {shown(found[i])!r}"


def _by_name(root: str, *, names: set[str]) -> dict[str, list[str]]:
    """Files below a folder, relative to it, by their whole name and by that without ending, if it is asked for."""
    by_name: dict[str, list[str]] = {}
    for file in files_in(root):
        name = os.path.basename(file)
        for spelling in {name, os.path.splitext(name)[0]} & names:
            if spelling == name or is_photo(file):
                by_name.setdefault(spelling, []).append(Path(file).relative_to(root).as_posix())
    return by_name


def _fitting(by_name: Mapping[str, Sequence[str]], path: str) -> list[str]:
    return [file for file in by_name.get(path.rpartition("/")[2], ()) if _fits(file, path)]


def _fits(file: str, path: str) -> bool:
    """Whether a file's path ends as a listed one does, its ending left aside if that has none."""
    bare = os.path.splitext(file)[0]
    return any(f"/{each}".endswith(f"/{path}") for each in (file, bare))
