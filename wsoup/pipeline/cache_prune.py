"""Removing what no present stage can use, while nobody can begin to use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from filelock import FileLock, Timeout

from wsoup.pipeline.cache import Entry, inside, lock_files
from wsoup.pipeline.cache_show import shown_size


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove what is useless and nobody's who is running; one line for each thing, and one for all."""
    freed = 0
    for entry in entries:
        if not entry.useless:
            continue
        with _all_locks(entry) as free:
            if not free:
                yield f"kept {entry.paths[0]}: stage {entry.stage!r} is running"
                continue
            size = entry.size
            for path in entry.paths:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            folder = entry.paths[0].parent
            if entry.stage and folder.is_dir() and not inside(folder):
                folder.rmdir()
        where = entry.paths[0] if len(entry.paths) == 1 else f"{len(entry.paths)} locks"
        yield f"removed {where} ({shown_size(size)}): {entry.useless}"
        freed += size
    yield f"freed {shown_size(freed)}"


@contextmanager
def _all_locks(entry: Entry) -> Iterator[bool]:
    """Holds all locks of an entry's stage, or those that it is made of; False where one is held by somebody else."""
    wanted = [path for path in entry.paths if path.suffix == ".lock"] or (
        lock_files(entry.stage) if entry.stage else []
    )
    with ExitStack() as stack:
        try:
            for path in wanted:
                stack.enter_context(FileLock(path, timeout=0))
        except Timeout:
            yield False
            return
        yield True
