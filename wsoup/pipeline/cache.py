"""`wsoup cache`: what .cache/wsoup holds, who it belongs to, and what no current stage can use.

None of it is a result; results are in DVC's cache. It holds the resume state of interrupted stages, digests of images
by dataset root, image features by content (so that added images cost only themselves), locks of running stages, and
timings.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from wsoup.base import remote
from wsoup.base.errors import MismatchError, WsoupError
from wsoup.check.whole import load_params
from wsoup.datasets import digests
from wsoup.disk import code, store
from wsoup.disk.shards import ABOUT, Owner
from wsoup.images import reuse
from wsoup.pipeline.graph import stage_names

FINGERPRINT = re.compile(r"[0-9a-f]{20}")
"""Folder name of one set of inputs."""
UNREADABLE = (WsoupError, OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError)
"""Errors from reading a damaged file."""


@dataclass(frozen=True)
class Entry:
    """One thing in the cache folder.

    Attributes:
        kind: resume state, digests, features, locks, timings, half-written or unknown.
        name: its owner: a stage, a dataset's root, a file.
        paths: its files or folders.
        state: how much of it is done, or which datasets use it.
        useless: why no current stage can use it; None if one can, or is running.
        stage: whose locks are held while it is removed; "" for none.
    """

    kind: str
    name: str
    paths: tuple[Path, ...]
    state: str = ""
    useless: str | None = None
    stage: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(_size(path) for path in self.paths)

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        written = [status.st_mtime for path in self.paths for status in _files(path)]
        return max(0.0, time.time() - max(written, default=0.0))


def look() -> list[Entry]:
    """Everything in the cache folder, judged by the working folder's params.yaml, dvc.yaml and code.

    Raises:
        MissingError: no dvc.yaml or params.yaml here.
        ParamsError: params.yaml is not valid.
        MismatchError: the working folder has a wsoup of its own, and this is another one.
    """
    beside = Path("wsoup").resolve()
    if beside.is_dir() and beside != code.ROOT / "wsoup":
        raise MismatchError(
            f"this is the wsoup of {code.ROOT}, not the one of {beside.parent}; run `python -m wsoup cache` there"
        )
    cache, stages = store.cache_dir(), stage_names()
    roots = {name: remote.resolved(dataset.root) for name, dataset in load_params().datasets.items()}
    entries: list[Entry] = []
    for path in _children(cache):
        if path.name == digests.FOLDER:
            entries += _checked_files(path, judge=lambda file: _digests(file, roots=roots))
        elif path.name == reuse.FOLDER:
            entries += _checked_files(path, judge=lambda file: _features(file, stages=stages))
        elif path.name == "locks":
            entries += _locks(path, stages=stages)
        elif path.is_dir():
            entries += _resume_state(path, stages=stages)
        else:
            entries.append(Entry("timings" if path.name == "timings.jsonl" else "unknown", path.name, (path,)))
    useless = {path for entry in entries if entry.useless for path in entry.paths}
    for path in store.abandoned(cache, "artifacts", "reports"):
        if not useless & {path, *path.parents}:
            entries.append(Entry("half-written", str(path), (path,), useless="its process has ended"))
    return entries


def _outdated(name: str, about: Mapping[str, Any], *, stages: Collection[str]) -> str | None:
    """Why a stage cannot use what was kept for it, given the code and packages that made it; None if it can."""
    script = Path("stages").resolve() / f"{name.partition('@')[0]}.py"
    if name not in stages or not script.is_file():
        return f"dvc.yaml and params.yaml make no stage {name!r}"
    return Owner.of(script, name=name).changed_since(about)


def _resume_state(folder: Path, *, stages: Collection[str]) -> Iterator[Entry]:
    """The shards of one interrupted stage, in a folder for each set of inputs."""
    name = folder.name
    for inner in _children(folder):
        if not (inner.is_dir() and FINGERPRINT.fullmatch(inner.name)):
            yield Entry("unknown", f"{name}/{inner.name}", (inner,))
            continue
        parts, begun = sorted(inner.glob("*.part")), len(list(inner.glob("*.running")))
        state = f"{len(parts)} shards"
        try:
            about = store.read_json(inner / ABOUT)
            state, useless = f"{len(parts)} of {int(about['n'])} shards", _outdated(name, about, stages=stages)
        except UNREADABLE:
            useless = f"its {ABOUT} cannot be read"
        state += f", {begun} begun" if begun else ""
        if _running(name):
            state, useless = f"{state}, running", None
        yield Entry("resume state", name, (inner,), state, useless, stage=name)
        for part in parts if useless is None else ():
            try:
                store.read_checked(part)
            except WsoupError:
                yield Entry("resume state", name, (part,), f"part {int(part.stem)}", "damaged", stage=name)


def _checked_files(folder: Path, *, judge: Callable[[Path], Entry]) -> Iterator[Entry]:
    """The files of a folder of digests or features, each judged."""
    for path in _children(folder):
        if path.suffix == ".checked":
            yield judge(path)
        elif path.suffix != ".tmp":
            yield Entry("unknown", f"{folder.name}/{path.name}", (path,))


def _digests(path: Path, *, roots: Mapping[str, str]) -> Entry:
    """Digests of the images of one dataset root."""
    try:
        root, count = digests.root_and_count(path)
    except UNREADABLE:
        return Entry("digests", path.name, (path,), useless="damaged")
    # CoOp's folders are inside one data root.
    users = [name for name, place in roots.items() if _inside(root, place) or _inside(place, root)]
    state = f"{count:,} images" + (f" of {', '.join(users)}" if users else "")
    return Entry("digests", root or path.name, (path,), state, None if users else "no dataset of params.yaml is there")


def _inside(place: str, root: str) -> bool:
    return f"{place}/".startswith(f"{root}/")


def _features(path: Path, *, stages: Collection[str]) -> Entry:
    """Image features of earlier runs of one stage."""
    name, state = path.stem, ""
    try:
        about, hexes, _ = reuse.contents(path)
        state, useless = f"{len(hexes):,} images", _outdated(name, about, stages=stages)
    except UNREADABLE:
        useless = "damaged"
    return Entry("features", name, (path,), state, None if _running(name) else useless, stage=name)


def _locks(folder: Path, *, stages: Collection[str]) -> Iterator[Entry]:
    """Each running stage, and the lock files of stages that no longer exist; other free locks are left out."""
    stale = []
    for path in _children(folder):
        name = path.name.split(".")[0]
        if path.suffix == ".lock" and _is_held(path):
            holder = path.with_suffix(".pid")
            who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
            yield Entry("locks", name, (path,), f"running: {who}", stage=name)
        elif path.suffix in (".lock", ".pid", ".ran") and name not in stages and not _running(name):
            stale.append(path)
    if stale:
        yield Entry("locks", "not held", tuple(stale), useless="of stages that no longer exist")


def _running(name: str) -> bool:
    """Whether a stage, or a part of it, is running."""
    return any(map(_is_held, _lock_files(name)))


def _lock_files(name: str) -> list[Path]:
    """The locks of a stage and of its parts, held or not."""
    pattern = re.compile(rf"{re.escape(name)}(\..+)?\.lock")
    return [path for path in _children(store.cache_dir() / "locks") if pattern.fullmatch(path.name)]


def _is_held(path: Path) -> bool:
    """Whether a process holds a lock. Free ones are taken for a moment, for which a starting stage waits."""
    if not path.with_suffix(".pid").exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


def _children(folder: Path) -> list[Path]:
    """Files and folders in a folder, sorted; none if it does not exist."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(status.st_size for status in _files(path))


def _files(path: Path) -> Iterator[os.stat_result]:
    """Status of a file, or of all files in a folder; those that a running stage removes meanwhile are skipped."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):
            if not file.is_dir():
                yield file.lstat()


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove useless entries unless their stage is running; yields a line for each, and the total."""
    freed = 0
    for entry in entries:
        if not entry.useless:
            continue
        with ExitStack() as locks:  # nobody can start using it meanwhile
            try:
                for path in _lock_files(entry.stage) if entry.stage else entry.paths:
                    if path.suffix == ".lock":
                        locks.enter_context(FileLock(path, timeout=0))
            except Timeout:
                yield f"kept {entry.paths[0]}: stage {entry.stage!r} is running"
                continue
            size = entry.size
            for path in entry.paths:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            folder = entry.paths[0].parent
            if entry.stage and folder.is_dir() and not _children(folder):
                folder.rmdir()
        what = entry.paths[0] if len(entry.paths) == 1 else f"{len(entry.paths)} locks"
        yield f"removed {what} ({decimal(size)}): {entry.useless}"
        freed += size
    yield f"freed {decimal(freed)}"


def show(entries: Sequence[Entry], console: Console) -> None:
    """Print a table of all entries, useless ones last, and the total."""
    table = Table(box=None, pad_edge=False)
    for column in ("kind", "owner", "state"):
        table.add_column(column, overflow="fold")
    for column in ("size", "age"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("usable", overflow="fold")
    for entry in sorted(entries, key=lambda entry: entry.useless is not None):
        usable = "?" if entry.kind == "unknown" else f"no: {entry.useless}" if entry.useless else "yes"
        cells = (entry.kind, entry.name, entry.state, decimal(entry.size), _age(entry.age), usable)
        table.add_row(*map(escape, cells))
    if entries:
        console.print(table, highlight=False)
    useless = sum(entry.size for entry in entries if entry.useless)
    note = f"; {decimal(useless)} of no use, which `wsoup cache --prune` removes" if useless else ""
    console.print(f"{store.cache_dir()}: {decimal(_size(store.cache_dir()))}{note}", highlight=False, markup=False)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
