"""What `wsoup cache` lists: half-written outs of killed runs, then everything in .cache/wsoup.

It holds shards of stages, digests of images by dataset root, image features by content (so that added images cost only
themselves), what `wsoup check` learned of the model, what code was parsed to, the script of the page's figures, and
locks of running stages. None of it is a result; those DVC keeps.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout
from rich.filesize import decimal

from wsoup.base.errors import MissingError
from wsoup.disk import cache_folder
from wsoup.disk.atomic import half_written, remove
from wsoup.disk.shards import Owner
from wsoup.params.graph import DVC_YAML, read_graph
from wsoup.pipeline.code_file import check_own_wsoup


class Entry(NamedTuple):
    """A file or folder in the cache folder, or half-written beside an out.

    Attributes:
        path: where it lies.
        useless: why no stage can use it; "" for what is kept.
        stage: whose it is, if it is useless.
    """

    path: Path
    useless: str = ""
    stage: str = ""

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
    check_own_wsoup("cache")
    if not DVC_YAML.is_file():
        raise MissingError(f"{DVC_YAML} does not exist: run this in the folder of {DVC_YAML} and params.yaml")
    stages = read_graph().stages
    versions = {}
    for name in stages:
        if _script(name).is_file():
            versions[name] = Owner.of(_script(name), name=name).version
    entries = []
    # DVC may restore the out of a killed stage from its cache, and then the stage itself never runs to tidy up.
    for stage in stages.values():
        for path in sorted(half_written(*stage.outs)):
            entries.append(Entry(path, useless="half-written, perhaps by a killed run", stage=stage.name))
    cache = cache_folder.cache_dir()
    if not cache.is_dir():
        return entries
    for path in sorted(cache.iterdir()):
        if not path.is_dir() or not _script(path.name).is_file():
            entries.append(Entry(path))
            continue
        for shards in sorted(path.glob("[0-9a-f]*/")):
            is_used = shards.name == versions.get(path.name)
            why = "" if is_used else "no stage has this name, code and packages"
            entries.append(Entry(shards, useless=why, stage=path.name))
    return entries


def _script(stage: str) -> Path:
    return Path("stages").resolve() / f"{stage.partition('@')[0]}.py"


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove what no stage can use, unless that stage is running; yields a line for each.

    Raises:
        MismatchError: the cache folder was not made by wsoup.
    """
    cache = cache_folder.cache_dir()
    cache_folder.check_made_by_wsoup(cache)
    locks = cache / "locks"
    for entry in entries:
        if not entry.useless:
            continue
        size = decimal(entry.size())
        # A stage holds its lock as long as it may still write.
        try:
            locks.mkdir(parents=True, exist_ok=True)
            with FileLock(locks / f"{entry.stage}.lock", timeout=0):
                remove(entry.path)
            yield f"removed {entry.path} ({size})"
        except Timeout:
            yield f"kept {entry.path}: stage {entry.stage!r} is running"


def shown(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each entry, and the total."""
    total = 0
    for entry in entries:
        size = entry.size()
        total += size
        why = f": {entry.useless}" if entry.useless else ""
        yield f"{decimal(size):>10}  {os.path.relpath(entry.path)}{why}"
    yield f"{decimal(total):>10}  in all; `wsoup cache --prune` removes what no stage can use"
