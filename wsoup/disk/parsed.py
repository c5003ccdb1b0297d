"""What source files were parsed to, kept by their bytes: parsing all of wsoup takes longer than most stages start.

In one JSON file of the cache folder, which is written only there where wsoup has made that folder. It belongs to one
version of what makes it.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from wsoup.base.errors import MismatchError, MissingError, StorageError
from wsoup.disk.cache_folder import cache_dir
from wsoup.disk.checked import read_checked, write_checked

FILE = "parsed.json"


class Parsed(NamedTuple):
    """What one file says: names that it imports from wsoup, names of other packages, a digest of its meaning."""

    names: list[str]
    packages: list[str]
    meaning: str


@cache
def kept(maker: str) -> dict[str, Parsed]:
    """What is known, by SHA-256 of a file's bytes; `maker` says which version of the parsing code made it."""
    try:
        stored = json.loads(read_checked(cache_dir() / FILE))
        if stored["maker"] != maker:
            return {}
        return {key: Parsed(*values) for key, values in stored["parsed"].items()}
    except (MissingError, MismatchError, ValueError, KeyError, TypeError):  # none, or damaged
        return {}


def keep(maker: str, *, used: Iterable[str]) -> None:
    """Write what is known of the files that are in use, by their keys."""
    if not cache_dir().is_dir():
        return
    known = kept(maker)
    content = json.dumps({"maker": maker, "parsed": {key: known[key] for key in sorted(used)}})
    # A folder that cannot be written to costs time, and is no fault.
    with suppress(OSError, StorageError):
        write_checked(cache_dir() / FILE, content.encode())
