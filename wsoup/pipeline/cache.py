"""What lies in the cache folder, whose it is, and what no present stage can use: `wsoup cache`.

Nothing there is a result; results are DVC's. It holds what was finished of interrupted stages, digests of images by the
root of their dataset, image features by content (so that added images cost what they are), locks of running stages, and
seconds that stages took.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.filesize import decimal

from wsoup.check.whole import load_params
from wsoup.core.disk import code, remote, store
from wsoup.core.disk.shards import ABOUT, Owner
from wsoup.core.errors import MismatchError, WsoupError
from wsoup.datasets import digests
from wsoup.images import known
from wsoup.pipeline.graph import stage_names

PARTS = re.compile(r"[0-9a-f]{20}")
"""How the folder of one set of inputs is called."""
UNREADABLE = (WsoupError, OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError)
"""What a damaged file leads its readers into."""


@dataclass(frozen=True)
class Entry:
    """One thing in the cache folder.

    Attributes:
        kind: resume state, digests, features, locks, timings, half-written or unknown.
        name: whose it is: a stage, the root of a dataset, a file.
        paths: where it lies.
        state: how far it is, and which datasets use it.
        useless: why no present stage can use it; None where one can, or is running.
        stage: whose locks are held while it is removed; "" for nobody's.
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
        return sum(size_of(path) for path in self.paths)

    @property
    def age(self) -> float:
        """Seconds since it was last written to."""
        written = [status.st_mtime for path in self.paths for status in _files(path)]
        return max(0.0, time.time() - max(written, default=0.0))


def look() -> list[Entry]:
    """Everything in the cache folder, judged by params.yaml, dvc.yaml and the code of the working folder.

    Raises:
        MissingError: no dvc.yaml or params.yaml here.
        ParamsError: params.yaml is not good.
        MismatchError: this is another wsoup than the one of the working folder, whose code decides.
    """
    beside = Path("wsoup").resolve()
    if beside.is_dir() and beside != code.ROOT / "wsoup":
        raise MismatchError(
            f"this is the wsoup of {code.ROOT}, not the one of {beside.parent}; run `python -m wsoup cache` there"
        )
    cache, present = store.cache_dir(), stage_names()
    roots = {name: remote.resolved(dataset.root) for name, dataset in load_params().datasets.items()}
    entries: list[Entry] = []
    for path in inside(cache):
        if path.name == digests.FOLDER:
            entries += _digests(path, roots=roots)
        elif path.name == known.FOLDER:
            entries += _features(path, present=present)
        elif path.name == "locks":
            entries += _locks(path, present=present)
        elif path.is_dir():
            entries += _resume(path, present=present)
        else:
            entries.append(Entry("timings" if path.name == "timings.jsonl" else "unknown", path.name, (path,)))
    useless = {path for entry in entries if entry.useless for path in entry.paths}
    for path in store.abandoned(cache, "artifacts", "reports"):
        if not useless & {path, *path.parents}:
            entries.append(Entry("half-written", str(path), (path,), useless="its process has ended"))
    return entries


def _changed(name: str, about: Mapping[str, Any], *, present: Collection[str]) -> str | None:
    """Why a stage cannot use what was kept for it, which says this about itself; None where it can."""
    script = Path("stages").resolve() / f"{name.partition('@')[0]}.py"
    if name not in present or not script.is_file():
        return f"dvc.yaml and params.yaml make no stage {name!r}"
    return Owner.of(script, name=name).changed_since(about)


def _resume(folder: Path, *, present: Collection[str]) -> Iterator[Entry]:
    """What one interrupted stage left: a folder for each set of inputs."""
    name = folder.name
    for inner in inside(folder):
        if not (inner.is_dir() and PARTS.fullmatch(inner.name)):
            yield Entry("unknown", f"{name}/{inner.name}", (inner,))
            continue
        parts, half = sorted(inner.glob("*.part")), len(list(inner.glob("*.running")))
        state = f"{len(parts)} shards"
        try:
            about = store.read_json(inner / ABOUT)
            state, useless = f"{len(parts)} of {int(about['n'])} shards", _changed(name, about, present=present)
        except UNREADABLE:
            useless = f"its {ABOUT} cannot be read"
        state += f", {half} begun" if half else ""
        if held(name):
            state, useless = f"{state}, running", None
        yield Entry("resume state", name, (inner,), state, useless, stage=name)
        for part in parts if useless is None else ():
            try:
                store.read_checked(part)
            except WsoupError:
                yield Entry("resume state", name, (part,), f"part {int(part.stem)}", "damaged", stage=name)


def _checked(folder: Path) -> Iterator[Path]:
    return (path for path in inside(folder) if path.suffix == ".checked")


def _unknown(folder: Path) -> Iterator[Entry]:
    for path in inside(folder):
        if path.suffix not in (".checked", ".tmp"):
            yield Entry("unknown", f"{folder.name}/{path.name}", (path,))


def _digests(folder: Path, *, roots: Mapping[str, str]) -> Iterator[Entry]:
    """Digests of images, one file for each root."""
    yield from _unknown(folder)
    for path in _checked(folder):
        try:
            root, count = digests.whose(path)
        except UNREADABLE:
            yield Entry("digests", path.name, (path,), useless="damaged")
            continue
        # CoOp's folders lie below one data root.
        users = [name for name, place in roots.items() if _within(root, place) or _within(place, root)]
        state = f"{count:,} images" + (f" of {', '.join(users)}" if users else "")
        useless = None if users else "no dataset of params.yaml is there"
        yield Entry("digests", root or path.name, (path,), state, useless)


def _within(place: str, root: str) -> bool:
    return f"{place}/".startswith(f"{root}/")


def _features(folder: Path, *, present: Collection[str]) -> Iterator[Entry]:
    """Image features of earlier runs, one file for each stage."""
    yield from _unknown(folder)
    for path in _checked(folder):
        name, state = path.stem, ""
        try:
            about, hexes, _ = known.contents(path)
            state, useless = f"{len(hexes):,} images", _changed(name, about, present=present)
        except UNREADABLE:
            useless = "damaged"
        yield Entry("features", name, (path,), state, None if held(name) else useless, stage=name)


def _locks(folder: Path, *, present: Collection[str]) -> Iterator[Entry]:
    """Running stages one by one, and the files of stages that are no more; a free lock of another says nothing."""
    lost = []
    for path in inside(folder):
        name = path.name.split(".")[0]
        if path.suffix == ".lock" and _is_held(path):
            holder = path.with_suffix(".pid")
            who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
            yield Entry("locks", name, (path,), f"running: {who}", stage=name)
        elif path.suffix in (".lock", ".pid", ".ran") and name not in present and not held(name):
            lost.append(path)
    if lost:
        yield Entry("locks", "not held", tuple(lost), useless="of stages that are no more")


def held(name: str) -> bool:
    """Whether a stage is running, or a part of it."""
    return any(map(_is_held, lock_files(name)))


def lock_files(name: str) -> list[Path]:
    """The locks of a stage, whole or in parts, held or not."""
    own = re.compile(rf"{re.escape(name)}(\..+)?\.lock")
    return [path for path in inside(store.cache_dir() / "locks") if own.fullmatch(path.name)]


def _is_held(path: Path) -> bool:
    """Looked at for a moment only, and only where a process said that it began: a starting stage waits for longer."""
    if not path.with_suffix(".pid").exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


def inside(folder: Path) -> list[Path]:
    """What lies in a folder, sorted; nothing where there is none."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(status.st_size for status in _files(path))


def _files(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of all files in a folder; what a running stage takes away meanwhile is left out."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):
            if not file.is_dir():
                yield file.lstat()


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove what is useless and nobody's who is running; one line for each thing, and one for all."""
    freed = 0
    for entry in entries:
        if not entry.useless:
            continue
        with ExitStack() as locks:  # so that nobody can begin to use it meanwhile
            try:
                for path in lock_files(entry.stage) if entry.stage else entry.paths:
                    if path.suffix == ".lock":
                        locks.enter_context(FileLock(path, timeout=0))
            except Timeout:
                yield f"kept {entry.paths[0]}: stage {entry.stage!r} is running"
                continue
            size = entry.size
            for path in entry.paths:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            folder = entry.paths[0].parent
            if entry.stage and folder.is_dir() and not inside(folder):
                folder.rmdir()
        what = entry.paths[0] if len(entry.paths) == 1 else f"{len(entry.paths)} locks"
        yield f"removed {what} ({decimal(size)}): {entry.useless}"
        freed += size
    yield f"freed {decimal(freed)}"
