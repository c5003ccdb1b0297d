"""The file ``wsoup`` of a pipeline folder: which installed wsoup it belongs to, and which files `wsoup init` wrote.

In a checkout ``wsoup`` is the library's folder, on which stage `code` depends. In a pipeline folder the library lies
elsewhere, and this file stands in its place: it holds a digest of what the installed library means, so that another one
makes stage `code` run, and then whatever the change decides.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import wsoup
from wsoup.base.errors import DataError, MismatchError
from wsoup.disk import code
from wsoup.disk.files import read_file

RECORD = "wsoup"
BEFORE = "code/wsoup.json"
"""Where `wsoup init` wrote its record until version 0.3."""


def record_of(files: Mapping[str, str]) -> dict[str, object]:
    """What the file holds: the version, the digest of the library, and the digest of each file that was written."""
    return {"wsoup": wsoup.__version__, "code": code.digest(code.library()), "files": dict(files)}


def recorded_files(folder: Path) -> dict[str, str] | None:
    """The files that `wsoup init` wrote, with their digests; None for a folder that it did not make.

    Raises:
        DataError: the record is damaged.
    """
    for place in (RECORD, BEFORE):
        file = folder / place
        if file.is_file():
            files = _read(file).get("files")
            if not isinstance(files, dict):
                raise _damaged(file)
            return files
    return None


def check_is_of_this_wsoup(folder: Path) -> None:
    """Raise MismatchError unless a pipeline folder, if it is one, belongs to the installed wsoup."""
    file = folder / RECORD
    if file.is_file() and _read(file).get("code") != code.digest(code.library()):
        raise MismatchError(
            f"{folder} belongs to another wsoup than the installed {wsoup.__version__}; run `wsoup init .` "
            "there to bring it up to date, then `dvc repro`"
        )


def _read(file: Path) -> dict[str, object]:
    try:
        record = json.loads(read_file(str(file)))
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise _damaged(file)
    return record


def _damaged(file: Path) -> DataError:
    return DataError(f"{file} is not what `wsoup init` wrote; restore it from git, or make a new folder")
