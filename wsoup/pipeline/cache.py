"""`wsoup cache`: what .cache/wsoup holds and what no stage here can use. None of it is a result; those DVC keeps.

It holds shards of stages, digests of images by dataset root, image features by content (so that added images cost only
themselves), locks of running stages, and timings.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout
from rich.filesize import decimal

from wsoup.base.errors import MismatchError
from wsoup.disk import code, store
from wsoup.disk.atomic import abandoned
from wsoup.disk.shards import Owner
from wsoup.pipeline.graph import stage_names


class Entry(NamedTuple):
    """One thing in the cache folder.

    Attributes:
        path: a file or folder.
        stage: whose it is; "" for what no stage owns.
        useless: why no stage can use it; None if one can, or if it is not a stage's.
    """

    path: Path
    stage: str = ""
    useless: str | None = None

    def size(self) -> int:
        """Bytes."""
        total = 0
        for file in [self.path, *self.path.rglob("*")]:
            with suppress(FileNotFoundError):  # a running stage removed it meanwhile
                total += file.lstat().st_size if not file.is_dir() else 0
        return total


def look() -> list[Entry]:
    """Everything in the cache folder, judged by the working folder's params.yaml, dvc.yaml and code.

    Raises:
        MissingError: no dvc.yaml or params.yaml here.
        MismatchError: the working folder has a wsoup of its own, and this is another one.
    """
    beside, cache = Path("wsoup").resolve(), store.cache_dir()
    if beside.is_dir() and beside != code.ROOT / "wsoup":
        raise MismatchError(
            f"this is the wsoup of {code.ROOT}, not the one of {beside.parent}; run `python -m wsoup cache` there"
        )
    stages = {name: Owner.of(_script(name), name=name) for name in stage_names() if _script(name).is_file()}
    entries = []
    for path in sorted(cache.iterdir()) if cache.is_dir() else ():
        if path.is_dir() and _script(path.name).is_file():
            why = "its code or packages have changed" if path.name in stages else "no stage of this name"
            for version in sorted(path.glob("[0-9a-f]*/")):
                current = path.name in stages and version.name == stages[path.name].version
                entries.append(Entry(version, path.name, None if current else why))
        else:
            entries.append(Entry(path))
    return [*entries, *(Entry(path, useless="half-written") for path in abandoned("artifacts", "reports"))]


def _script(stage: str) -> Path:
    return Path("stages").resolve() / f"{stage.partition('@')[0]}.py"


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove what no stage can use, unless that stage is running; yields a line for each.

    Raises:
        MismatchError: the cache folder was not made by wsoup.
    """
    store.check_made_by_wsoup(store.cache_dir())
    for entry in (entry for entry in entries if entry.useless):
        size = entry.size()
        try:
            with FileLock(store.cache_dir() / "locks" / f"{entry.stage}.lock", timeout=0):
                shutil.rmtree(entry.path) if entry.path.is_dir() else entry.path.unlink(missing_ok=True)
        except Timeout:
            yield f"kept {entry.path}: stage {entry.stage!r} is running"
        else:
            yield f"removed {entry.path} ({decimal(size)}): {entry.useless}"


def shown(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each entry, and the total."""
    total = 0
    for entry in entries:
        total += (size := entry.size())
        yield f"{decimal(size):>10}  {os.path.relpath(entry.path)}{f': {entry.useless}' if entry.useless else ''}"
    yield f"{decimal(total):>10}  in all; `wsoup cache --prune` removes what no stage can use"
