"""Pipeline folders (`wsoup init`), data/packages.yaml (`wsoup packages`), and .cache/wsoup (`wsoup cache`).

A pipeline folder holds what a checkout does except for the library: dvc.yaml, params.yaml, stages and data. Stages of a
checkout name the library's rooms as deps; here they name ``code/<room>.json`` instead, with a digest of the room. A
stage refuses to run with another wsoup than that; `wsoup init` again brings the folder up to date, and DVC then runs
what the changed code decides.

The cache holds shards of stages, digests of images by dataset root, image features by content (so that added images
cost only themselves), and locks of running stages. None of it is a result; those DVC keeps.

Which stages there are, and which would run again now, DVC is asked. It skips what follows a stage that ran again and
made the same bytes; that cannot be known beforehand, so everything behind a change counts as running.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import networkx
import yaml
from dvc.lock import LockNoop
from dvc.repo import Repo, lock_repo
from dvc.scm import NoSCM
from filelock import FileLock, Timeout
from rich.filesize import decimal

import wsoup
from wsoup.base import project
from wsoup.base.errors import DataError, MismatchError, MissingError, one_line
from wsoup.disk import code, store
from wsoup.disk.code import Owner
from wsoup.pipeline.inputs import DVC_YAML, PARAMS, VERSIONS, code_file
from wsoup.runtime.process import git

RECORD = "code/wsoup.json"
"""Which files `wsoup init` wrote, with their digests, to tell which of them the user has changed."""
USER_FILES = ("params.yaml", "data/toy/params.yaml", "data/toy/dvc.lock", ".gitignore", "data/toy/.gitignore")
"""Files that are written once and never updated."""
GITIGNORE = "/.cache/\n/artifacts/\n/reports/index.html\n__pycache__/\n*.py[cod]\n.*.tmp\n"
KIND = "wsoup/search/grow/${item.kind}.py"
"""How dvc.yaml names the module of a soup's own kind."""
ROOM = rf"{re.escape(KIND)}|\bwsoup/[a-z/]+\b(?:\.py)?"
"""A room, or a single module, in dvc.yaml."""
PLOT_TEMPLATES = "wsoup/report/templates"
VERSIONS_HEAD = (
    "# The packages that decide numbers, in the versions that the results here belong to (`wsoup packages`).\n"
)
GROUPS = {
    "numpy": ("numpy",),
    "models": ("numpy", "open_clip_torch", "pillow", "torch", "torchvision"),
    "words": ("wordfreq",),
}
"""Packages by the name that dvc.yaml has for them together. A group is one line in dvc.lock."""


def create(folder: Path) -> list[str]:
    """Make a pipeline folder or bring one up to date; returns one line on each thing done.

    A file that the user has changed stays, and so does one that this wsoup no longer has.

    Raises:
        DataError: the folder holds something else, or its record of files is damaged.
    """
    record = folder / RECORD
    if folder.exists() and any(folder.iterdir()) and not record.is_file():
        raise DataError(f"{folder} is not empty and was not made by `wsoup init`; name a new folder")
    recorded = store.read_object(record).get("files") if record.is_file() else {}
    if not isinstance(recorded, dict):
        raise DataError(f"{record} is not what `wsoup init` wrote; restore it from git, or make a new folder")
    digests, kept = {}, []
    for name, content in sorted(_contents().items()):
        path, digests[name] = folder / name, hashlib.sha256(content).hexdigest()
        current = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        if current is None or (name not in USER_FILES and current == recorded.get(name) != digests[name]):
            store.write_bytes(path, content)
        elif name not in USER_FILES and current != digests[name]:
            kept.append(f"kept as you changed it: {name}")
    store.write_json(record, {"wsoup": wsoup.__version__, "files": digests})
    done = f"{folder}: a pipeline folder of wsoup {wsoup.__version__}, {len(digests)} files"
    return [done, *kept, *_set_up_dvc(folder)]


def _contents() -> dict[str, bytes]:
    """Every file of a pipeline folder, by its path; its dvc.yaml names the file with its digest in place of a room."""
    files = {name: project.file(name).read_bytes() for name in project.listed()}
    files[".gitignore"] = GITIGNORE.encode()
    dvc_yaml = files["dvc.yaml"].decode().replace(PLOT_TEMPLATES, "templates")
    for room in {*re.findall(ROOM, dvc_yaml), *code.kinds()} - {KIND}:
        files[code_file(room)] = f"{json.dumps(code.digest(room))}\n".encode()
    files["dvc.yaml"] = re.sub(ROOM, lambda room: code_file(room[0]), dvc_yaml).encode()
    files[str(VERSIONS)] = versions_yaml(code.installed()).encode()
    templates = Path(wsoup.__file__).parent / "report" / "templates"
    return files | {f"templates/{path.name}": path.read_bytes() for path in templates.glob("*.json")}


def _set_up_dvc(folder: Path) -> list[str]:
    """Make DVC's own folder, and a git repository if there is none, unless DVC is set up already."""
    config = folder / ".dvc" / "config"
    if config.exists():
        return []
    lines, done = "[core]\n    analytics = false\n    check_update = false\n", []
    if not git("rev-parse", "--is-inside-work-tree", folder=folder):
        done = ["a git repository was begun there: `git add -A && git commit -m begin`"]
        if git("init", "--quiet", folder=folder) is None:
            lines += "    no_scm = true\n"
            done = ["git is not installed: `dvc repro` works, experiments and `wsoup compare` do not"]
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(lines, encoding="utf-8")
    (config.parent / ".gitignore").write_text("/config.local\n/tmp\n/cache\n", encoding="utf-8")
    return done


def versions_yaml(installed: Mapping[str, str]) -> str:
    """Text of data/packages.yaml, without a version's build (2.9.1+cpu is 2.9.1)."""
    public = {name: number.partition("+")[0] for name, number in installed.items()}
    grouped = {group: ", ".join(f"{name} {public[name]}" for name in names) for group, names in GROUPS.items()}
    return VERSIONS_HEAD + yaml.safe_dump(grouped, sort_keys=False, width=120)


def stage_names() -> list[str]:
    """Every stage, such as ``score@words``, in the order of dvc.yaml.

    Raises:
        MissingError: there is no dvc.yaml.
        MismatchError: DVC cannot read it, or it does not fit params.yaml.
    """
    with _repository() as repo:
        return [stage.name for stage in repo.index.stages if Path(stage.path) == DVC_YAML.resolve()]


def reasons() -> dict[str, str | None]:
    """Why each stage would run, or None if it is cached; dependencies come first.

    Raises:
        MissingError, MismatchError: as `stage_names`; also for dvc.lock.
    """
    why: dict[str, str | None] = {}
    with _repository() as repo:
        status, graph = repo.status(), repo.index.graph  # edges lead from a stage to those it depends on
        position = {stage: i for i, stage in enumerate(repo.index.stages)}
        for stage in networkx.lexicographical_topological_sort(graph.reverse(), key=position.__getitem__):
            behind = [f"behind {other.addressing}" for other in graph[stage] if why[other.addressing]]
            own = _own_reason(stage, status.get(stage.addressing, []))
            why[stage.addressing] = own or next(iter(behind), None)
    return {stage: reason for stage, reason in why.items() if ":" not in stage}  # those of this dvc.yaml


def _own_reason(stage: Any, status: Sequence[Any]) -> str | None:
    """Why a stage would run whatever the others do, given its part of `dvc status`."""
    if not any(out.hash_info for out in stage.outs):
        return "never run"
    if stage.cmd_changed:
        return "its command changed"
    by_kind = [paths for entry in status if isinstance(entry, dict) for paths in entry.values()]  # deps, outs
    changed = {path: what for paths in by_kind for path, what in paths.items()}
    keys = [key for what in changed.values() if isinstance(what, dict) for key in what]  # of params.yaml
    names = keys or [*changed]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} changed" if names else None


@contextmanager
def _repository() -> Iterator[Any]:
    """DVC's repository here. No lock of DVC's is taken, because a running `dvc repro` would fail to get it."""
    if not DVC_YAML.is_file():
        raise MissingError(f"{DVC_YAML} does not exist: run this in the folder of {DVC_YAML} and {PARAMS}")
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as locks:
            warnings.simplefilter("ignore", DeprecationWarning)  # DVC's own use of other packages
            with Repo(".", scm=NoSCM(".")) as repo:
                repo.lock, repo.tmp_dir = LockNoop(), locks
                with lock_repo(repo):  # or each of DVC's commands would read all of its files again
                    if not repo.index.stages:
                        raise MismatchError("it has no stages")
                    yield repo
    except Exception as error:  # DVC's own errors, and any that a damaged dvc.yaml or dvc.lock causes in it
        reason = one_line(error, limit=300) or type(error).__name__
        raise MismatchError(f"DVC cannot read {DVC_YAML} and {PARAMS}: {reason}") from None


class Entry(NamedTuple):
    """A file or folder in the cache folder; `useless` if it is of a stage, and no stage has this code and packages."""

    path: Path
    useless: bool = False

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
    versions = {name: Owner.of(_script(name), name=name).version for name in stage_names() if _script(name).is_file()}
    entries = []
    for path in sorted(cache.iterdir()) if cache.is_dir() else ():
        if path.is_dir() and _script(path.name).is_file():
            shards = sorted(path.glob("[0-9a-f]*/"))
            entries += [Entry(version, useless=version.name != versions.get(path.name)) for version in shards]
        else:
            entries.append(Entry(path))
    return entries


def _script(stage: str) -> Path:
    return Path("stages").resolve() / f"{stage.partition('@')[0]}.py"


def prune(entries: Iterable[Entry]) -> Iterator[str]:
    """Remove what no stage can use, unless that stage is running; yields a line for each.

    Raises:
        MismatchError: the cache folder was not made by wsoup.
    """
    store.check_made_by_wsoup(store.cache_dir())
    for entry in (entry for entry in entries if entry.useless):
        stage, size = entry.path.parent.name, decimal(entry.size())
        try:
            with FileLock(store.cache_dir() / "locks" / f"{stage}.lock", timeout=0):
                shutil.rmtree(entry.path)
            yield f"removed {entry.path} ({size})"
        except Timeout:
            yield f"kept {entry.path}: stage {stage!r} is running"


def shown(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each entry, and the total."""
    total = 0
    for entry in entries:
        total += (size := entry.size())
        why = ": no stage has this name, code and packages" if entry.useless else ""
        yield f"{decimal(size):>10}  {os.path.relpath(entry.path)}{why}"
    yield f"{decimal(total):>10}  in all; `wsoup cache --prune` removes what no stage can use"
