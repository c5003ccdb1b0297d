"""What lies in .cache/wsoup (`wsoup cache`).

It holds shards of stages, digests of images by dataset root, image features by content (so that added images cost only
themselves), what `wsoup check` learned of the model, and locks of running stages. None of it is a result; those DVC
keeps.
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
from wsoup.disk.shards import Owner
from wsoup.pipeline.status import stage_names


class Entry(NamedTuple):
    """A file or folder in the cache folder; `useless` if it is of a stage, and no stage has this code and packages."""

    path: Path
    useless: bool = False

    def size(self) -> int:
        """Bytes."""
        total = 0
        for file in [self.path, *self.path.rglob("*")]:
            with suppress(FileNotFoundError):  # a running stage removed it meanwhile
                if not file.is_dir():
                    total += file.lstat().st_size
        return total


def look() -> list[Entry]:
    """Everything in the cache folder, judged by the working folder's params.yaml, dvc.yaml and code.

    Raises:
        MissingError: no dvc.yaml or params.yaml here.
        MismatchError: the working folder has a wsoup of its own, and this is another one.
    """
    beside = Path("wsoup").resolve()
    if beside.is_dir() and beside != code.ROOT / "wsoup":
        raise MismatchError(
            f"this is the wsoup of {code.ROOT}, not the one of {beside.parent}; run `python -m wsoup cache` there"
        )
    versions = {}
    for name in stage_names():
        if _script(name).is_file():
            versions[name] = Owner.of(_script(name), name=name).version
    cache = store.cache_dir()
    if not cache.is_dir():
        return []
    entries = []
    for path in sorted(cache.iterdir()):
        if not path.is_dir() or not _script(path.name).is_file():
            entries.append(Entry(path))
            continue
        for shards in sorted(path.glob("[0-9a-f]*/")):
            entries.append(Entry(shards, useless=shards.name != versions.get(path.name)))
    return entries


def _script(stage: str) -> Path:
    return Path("stages").resolve() / f"{stage.partition('@')[0]}.py"


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove what no stage can use, unless that stage is running; yields a line for each.

    Raises:
        MismatchError: the cache folder was not made by wsoup.
    """
    cache = store.cache_dir()
    store.check_made_by_wsoup(cache)
    for entry in entries:
        if not entry.useless:
            continue
        stage = entry.path.parent.name
        size = decimal(entry.size())
        # A stage holds its lock as long as it may still write shards.
        try:
            with FileLock(cache / "locks" / f"{stage}.lock", timeout=0):
                shutil.rmtree(entry.path)
            yield f"removed {entry.path} ({size})"
        except Timeout:
            yield f"kept {entry.path}: stage {stage!r} is running"


def shown(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each entry, and the total."""
    total = 0
    for entry in entries:
        size = entry.size()
        total += size
        why = ": no stage has this name, code and packages" if entry.useless else ""
        yield f"{decimal(size):>10}  {os.path.relpath(entry.path)}{why}"
    yield f"{decimal(total):>10}  in all; `wsoup cache --prune` removes what no stage can use"
