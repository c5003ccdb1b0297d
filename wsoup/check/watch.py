"""Whether what DVC watches covers what a section reads: a file outside would change a result and go unnoticed."""

from __future__ import annotations

import os
from collections.abc import Mapping


def check(key: str, watch: str, *, files: Mapping[str, str]) -> None:
    """Raise ValueError for the first file that is neither `watch` itself nor below it; no file needs to exist.

    And where `watch` is the folder of the whole run, whose own results would change it.

    Args:
        key: where `watch` stands, for the message.
        watch: a file or a folder.
        files: paths by the keys that name them.
    """
    top, here = os.path.realpath(watch), os.path.realpath(".")
    if files and (top == here or _below(here, top)):
        raise ValueError(f"{key}: {watch!r} holds the whole run, results too; {_apart(key, list(files.values()))}")
    for where, path in files.items():
        if not covers(watch, path):
            raise ValueError(
                f"{key}: {watch!r} does not cover {path!r} ({where}), so DVC would not notice a change of it; "
                f"{_advice(key, list(files.values()))}"
            )


def covers(watch: str, path: str) -> bool:
    """Whether a path is `watch` or lies below it, relative paths and links resolved.

    A link to a file counts where it stands too, because DVC hashes what it leads to; folders that are links it leaves
    out, so those count only where they lead.
    """
    top = os.path.realpath(watch)
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return any(spelling == top or _below(spelling, top) for spelling in (place, os.path.realpath(path)))


def _below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def _advice(key: str, paths: list[str]) -> str:
    """What to set: the one file, or the folder of all; the folder of a whole run is no thing to watch."""
    if len(set(paths)) == 1:
        return f"set {key} to {paths[0]!r}"
    here = os.path.realpath(".")
    common = os.path.commonpath([os.path.realpath(os.path.dirname(path)) for path in paths])
    if here == common or _below(here, common):
        return _apart(key, paths)
    return f"set {key} to {os.path.relpath(common) if _below(common, here) else common!r}"


def _apart(key: str, paths: list[str]) -> str:
    return f"put these into a folder of their own and set {key} to it: {', '.join(dict.fromkeys(paths))}"
