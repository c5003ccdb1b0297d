"""What lies in the cache folder, whose it is, and what no present stage can use: `wsoup cache`.

Nothing there is a result; results are DVC's. It holds what was finished of interrupted stages, digests of images by the
root of their dataset, image features by content (so that added images cost what they are), locks of running stages, and
seconds that stages took.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from wsoup.check.whole import load_params
from wsoup.core.errors import MismatchError, MissingError, WsoupError
from wsoup.datasets import digests
from wsoup.disk import code, remote, store
from wsoup.disk.shards import ABOUT, Owner
from wsoup.images import known
from wsoup.params.base.section import read_yaml

PARTS = re.compile(r"[0-9a-f]{20}")
"""How the folder of one set of inputs is called."""
EARLIER = re.compile(r"[0-9a-f]{20}\.parquet")
"""How files of digests were called before they had a checksum."""


@dataclass(frozen=True)
class Entry:
    """One thing in the cache folder.

    Attributes:
        kind: resume state, digests, features, locks, timings, half-written or unknown.
        name: whose it is: a stage, the root of a dataset, a file.
        paths: where it lies.
        state: how far it is, and which datasets use it.
        useless: why no present stage can use it; None where one can, or is running.
        stage: whose lock is held while it is removed; "" for nobody's.
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
        return max(0.0, time.time() - max(_newest(path) for path in self.paths))


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
    cache, present = store.cache_dir(), present_stages()
    others = ("locks", digests.FOLDER, known.FOLDER)
    folders = [path for path in inside(cache) if path.is_dir() and path.name not in others]
    entries = [entry for folder in folders for entry in _resume(folder, present=present)]
    entries += _digests(cache / digests.FOLDER)
    entries += _features(cache / known.FOLDER, present=present)
    entries += _locks(cache / "locks", present=present)
    for path in inside(cache):
        if not path.is_dir():
            entries.append(Entry("timings" if path.name == "timings.jsonl" else "unknown", path.name, (path,)))
    inside_useless = {path for entry in entries if entry.useless for path in entry.paths}
    for path in store.abandoned(cache, "artifacts", "reports"):
        if not inside_useless & {path, *path.parents}:
            entries.append(Entry("half-written", str(path), (path,), useless="its process has ended"))
    return entries


def present_stages(dvc_yaml: str | Path = "dvc.yaml", params_yaml: str | Path = "params.yaml") -> dict[str, Path]:
    """Every stage that params.yaml and dvc.yaml make, with its item, and its script."""
    if not Path(dvc_yaml).is_file():
        raise MissingError(f"{dvc_yaml} does not exist: run this in the folder of dvc.yaml and params.yaml")
    load_params(params_yaml)
    params: Any = read_yaml(params_yaml)
    found: dict[str, Path] = {}
    try:
        stages = yaml.safe_load(Path(dvc_yaml).read_text(encoding="utf-8"))["stages"]
        for name, stage in stages.items():
            script = Path("stages").resolve() / f"{name}.py"
            items = _items(stage.get("foreach"), params=params)
            found |= {name: script} if items is None else {f"{name}@{item}": script for item in items}
    except (yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise MismatchError(f"{dvc_yaml} names no stages ({' '.join(str(error).split())[:200]})") from None
    return found


def _items(foreach: Any, *, params: Any) -> list[str] | None:
    """Of a stage in dvc.yaml: a list as it stands there, or the keys of ``${finetune.methods}``; None: it has none."""
    if not isinstance(foreach, str):
        return foreach
    for key in foreach.removeprefix("${").removesuffix("}").split("."):
        params = params[key]
    return list(params)


def _resume(folder: Path, *, present: Mapping[str, Path]) -> Iterator[Entry]:
    """What one interrupted stage left: a folder for each set of inputs."""
    name = folder.name
    for inner in inside(folder):
        if not (inner.is_dir() and PARTS.fullmatch(inner.name)):
            yield Entry("unknown", f"{name}/{inner.name}", (inner,))
            continue
        state, useless = _judged(inner, name=name, present=present)
        if held(name):
            state, useless = f"{state}, running", None
        yield Entry("resume state", name, (inner,), state, useless, stage=name)
        for part in () if useless else sorted(inner.glob("*.part")):
            if damage := _damage(part):
                yield Entry("resume state", name, (part,), f"part {int(part.stem)}", damage, stage=name)


def _judged(folder: Path, *, name: str, present: Mapping[str, Path]) -> tuple[str, str | None]:
    """How far it is, and why no present stage can use it."""
    done, half = len(list(folder.glob("*.part"))), len(list(folder.glob("*.running")))
    begun = f", {half} begun" if half else ""
    try:
        about = store.read_json(folder / ABOUT)
        state = f"{done} of {int(about['n'])} shards{begun}"
        if name not in present or not present[name].is_file():
            return state, f"dvc.yaml and params.yaml make no stage {name!r}"
        return state, Owner.of(present[name], name=name).changed_since(about)
    except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError):
        return f"{done} shards{begun}", f"its {ABOUT} cannot be read"


def _damage(part: Path) -> str | None:
    try:
        store.read_checked(part)
    except WsoupError:
        return "damaged"
    return None


def _digests(folder: Path) -> Iterator[Entry]:
    roots = {name: remote.resolved(dataset.root) for name, dataset in load_params().datasets.items()}
    for path in inside(folder):
        if path.suffix != ".checked":
            if EARLIER.fullmatch(path.name):
                yield Entry("digests", path.name, (path,), useless="an earlier wsoup wrote it so")
            elif not path.name.endswith(".tmp"):
                yield Entry("unknown", f"{folder.name}/{path.name}", (path,))
            continue
        try:
            root, count = digests.whose(path)
        except WsoupError:
            yield Entry("digests", path.name, (path,), useless="damaged")
            continue
        users = [name for name, place in roots.items() if _together(root, place, path=path)]
        state = f"{count:,} images" + (f" of {', '.join(users)}" if users else "")
        yield Entry(
            "digests", root or path.name, (path,), state, None if users else "no dataset of params.yaml is there"
        )


def _features(folder: Path, *, present: Mapping[str, Path]) -> Iterator[Entry]:
    """Image features of earlier runs, one file for each stage."""
    for path in inside(folder):
        name, state = path.stem, ""
        if path.suffix != ".checked":
            if not path.name.endswith(".tmp"):
                yield Entry("unknown", f"{folder.name}/{path.name}", (path,))
            continue
        try:
            about, found, _ = known.contents(path)
            state = f"{len(found):,} images"
            gone = f"dvc.yaml and params.yaml make no stage {name!r}"
            useless = Owner.of(present[name], name=name).changed_since(about) if name in present else gone
        except (WsoupError, OSError, KeyError, TypeError, AttributeError):
            useless = "damaged"
        yield Entry("features", name, (path,), state, None if held(name) else useless, stage=name)


def _together(root: str, place: str, *, path: Path) -> bool:
    """Whether digests under `root` are of a dataset at `place`: CoOp's folders lie below one data root."""
    if not root:  # written before files said whose they are
        return path.stem == store.fingerprint(place)
    return f"{root}/".startswith(f"{place}/") or f"{place}/".startswith(f"{root}/")


def _locks(folder: Path, *, present: Mapping[str, Path]) -> Iterator[Entry]:
    """Running stages one by one, and the files of the others together."""
    idle: list[Path] = []
    lost: list[Path] = []
    for path in inside(folder):
        name = path.name.split(".")[0]
        if path.suffix == ".lock" and _is_held(path):
            holder = path.with_suffix(".pid")
            who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
            yield Entry("locks", name, (path,), f"running: {who}", stage=name)
        elif path.suffix in (".lock", ".pid") and not held(name):
            (idle if name in present else lost).append(path)
    if idle:
        yield Entry("locks", "not held", tuple(idle))
    if lost:
        yield Entry("locks", "not held", tuple(lost), useless="of stages that are no more")


def held(name: str) -> bool:
    """Whether a stage is running, or a part of it."""
    return any(_is_held(path) for path in lock_files(name))


def lock_files(name: str) -> list[Path]:
    """The locks of a stage, whole or in parts, held or not."""
    return [
        path
        for path in inside(store.cache_dir() / "locks")
        if re.fullmatch(rf"{re.escape(name)}(\..+)?\.lock", path.name)
    ]


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


def _newest(path: Path) -> float:
    return max((status.st_mtime for status in _files(path)), default=0.0)


def _files(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of all files in a folder; what a running stage takes away meanwhile is left out."""
    inner = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    for file in inner if path.is_dir() else [path]:
        with suppress(FileNotFoundError):
            yield os.lstat(file)
