"""The folder of resume state and other things that save time: where it is, and whether wsoup made it."""

import os
from pathlib import Path

from wsoup.base.errors import MismatchError

CACHE_MARK = "CACHEDIR.TAG"
"""The file that marks it as wsoup's own."""


def cache_dir() -> Path:
    """Folder of resume state: ``.cache/wsoup`` in the working folder, or ``$WSOUP_CACHE/wsoup-cache``."""
    place = os.environ.get("WSOUP_CACHE")
    if not place:
        return Path(".cache/wsoup")
    # In a folder of its own: a user may name one that holds other things.
    return Path(place, "wsoup-cache")


def make_cache_dir() -> Path:
    """`cache_dir`, marked as wsoup's own if wsoup makes it; backup tools know the mark, too (bford.info/cachedir)."""
    folder = cache_dir()
    is_users = bool(os.environ.get("WSOUP_CACHE"))
    # A user's own folder that holds something is never marked: `wsoup cache --prune` would remove from it.
    if not is_users or not folder.is_dir() or not any(folder.iterdir()):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CACHE_MARK).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# Made by wsoup.\n")
    return folder


def check_made_by_wsoup(folder: Path) -> None:
    """Raise MismatchError unless `make_cache_dir` made a folder."""
    if folder.is_dir() and not (folder / CACHE_MARK).is_file():
        raise MismatchError(f"{folder} was not made by wsoup (it has no {CACHE_MARK}): nothing in it is removed")
