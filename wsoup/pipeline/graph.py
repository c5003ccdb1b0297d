"""Which stages dvc.yaml makes of params.yaml, and which would run again, as they are or with changes: DVC is asked.

DVC stops where a stage that ran again made the same bytes; here everything behind a change is said to run, so what is
told is what may run at most. But stage evaluated makes of soups no more than their names and pools, which params tell.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx
from dvc.fs import LocalFileSystem
from dvc.lock import LockNoop
from dvc.repo import Repo, lock_repo
from dvc.scm import NoSCM
from dvc.utils.hydra import apply_overrides

from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.store import read_json
from wsoup.core.errors import MismatchError, MissingError, ParamsError, one_line
from wsoup.core.params.section import parse_yaml, read_yaml
from wsoup.pipeline.inputs import md5

DVC_YAML = "dvc.yaml"
PARAMS = "params.yaml"


def with_changes(params_file: str | Path, changes: Sequence[str]) -> str:
    """The text of a params file as `dvc exp run` would change it: ``soups.word.k0=50``, ``+soups.mine.kind=top``.

    Raises:
        MissingError: no such file.
        ParamsError: a change is not of the form ``key=value``, or its key is not there.
    """
    read_yaml(params_file)  # which refuses what is no file of YAML
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copyfile(params_file, Path(folder) / PARAMS))
        for change in changes:
            try:
                apply_overrides(copy, [change])
            except Exception:  # Hydra's own, and whatever a value that is none leads it into
                raise ParamsError(
                    f"-S {one_line(change, limit=200)}: expected a key of params.yaml and a value, such as "
                    "soups.word.k0=50; +key=value adds a key"
                ) from None
        return copy.read_text(encoding="utf-8")


def stage_names() -> list[str]:
    """Every stage that dvc.yaml makes of params.yaml, such as ``score@words``, in the order of dvc.yaml.

    Raises:
        MissingError: there is no dvc.yaml.
        MismatchError: DVC cannot read it, or it does not agree with params.yaml.
    """
    with _repository() as repo:
        return [stage.name for stage in repo.index.stages if stage.path_in_repo == DVC_YAML]


def reasons(params: str) -> dict[str, str | None]:
    """Why each stage would run with this text as params.yaml, each behind those it depends on; None: it is cached.

    Raises:
        MissingError, MismatchError: as `stage_names`, and of dvc.lock.
    """
    why: dict[str, str | None] = {}
    with _repository(params) as repo:
        status, graph = repo.status(), repo.index.graph  # from a stage to those it depends on
        position = {stage: i for i, stage in enumerate(repo.index.stages)}
        alike: set[str] = set()  # run, and make what is there already
        for stage in networkx.lexicographical_topological_sort(graph.reverse(), key=position.__getitem__):
            others = (other.addressing for other in graph[stage] if other.addressing not in alike)
            behind = [f"behind {other}" for other in others if why[other]]
            own = _own_reason(stage, status.get(stage.addressing, []))
            why[stage.addressing] = own or next(iter(behind), None)
            if (stage.addressing, own) == ("evaluated", "soups changed") and _evaluated_alike(params):
                alike.add(stage.addressing)
    return {stage: reason for stage, reason in why.items() if ":" not in stage}  # of this dvc.yaml


def damaged_in_cache() -> tuple[int, list[str]]:
    """How many files DVC's cache has of the results in dvc.lock, and which are not what their names say, a line each.

    `dvc checkout` puts such files back as they are. Every byte is read.

    Raises:
        MissingError, MismatchError: as `reasons`.
    """
    with _repository() as repo:
        outs = [out for stage in repo.index.stages for out in stage.outs if out.hash_info.name == "md5"]
        places = {out.cache.oid_to_path(out.hash_info.value): out.stage.addressing for out in outs}
        cache = repo.cache.local
    for place, stage in list(places.items()):
        if place.endswith(".dir") and md5(place) == _named(place):
            entries = json.loads(Path(place).read_bytes())
            places |= {cache.oid_to_path(entry["md5"]): stage for entry in entries}
    there = {place: stage for place, stage in places.items() if os.path.exists(place)}
    wrong = [(place, stage) for place, stage in there.items() if md5(place) != _named(place)]
    return len(there), [
        f"{os.path.relpath(place)} is damaged: its bytes are not what its name says; remove it, then `dvc fetch "
        f"{stage}` or `dvc repro --force --single-item {stage}`"
        for place, stage in wrong
    ]


def cached_runs(md5s: Collection[str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """What DVC's run cache holds of runs whose outs have these MD5s: where, and the entry as it stands in dvc.lock.

    Raises:
        MissingError, MismatchError: as `reasons`.
    """
    with _repository() as repo:
        folder = Path(repo.stage_cache.cache_dir)
    for path in folder.glob("*/*/*"):
        text = path.read_text(encoding="utf-8")
        if all(each in text for each in md5s):
            yield path, parse_yaml(text, origin=str(path))


def _named(place: str) -> str:
    """``.dvc/cache/files/md5/ab/cdef.dir`` -> ``abcdef``."""
    return "".join(Path(place).parts[-2:]).removesuffix(".dir")


def _evaluated_alike(params: str) -> bool:
    """Whether stage evaluated would write the same of these soups: their names and pools."""
    soups = parse_yaml(params, origin=PARAMS)["soups"]
    return read_json(Artifacts().evaluated)["soups"] == [{"name": n, "pool": s["pool"]} for n, s in soups.items()]


def _own_reason(stage: Any, status: Sequence[Any]) -> str | None:
    """Why a stage would run whatever the others do, of what `dvc status` says of it."""
    if not any(out.hash_info for out in stage.outs):
        return "never run"
    if stage.cmd_changed:
        return "its command changed"
    by_kind = [paths for entry in status if isinstance(entry, dict) for paths in entry.values()]  # deps, outs
    changed = {path: what for paths in by_kind for path, what in paths.items()}
    if keys := [key for what in changed.values() if isinstance(what, dict) for key in what]:  # of params.yaml
        return f"{', '.join(keys)} changed"
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return f"{next(iter(changed))}{more} changed" if changed else None


@contextmanager
def _repository(params: str | None = None) -> Iterator[Any]:
    """DVC's repository here, with this text as params.yaml; None: with its own.

    None of its locks is taken: a `dvc repro` that is going on would end for want of them.
    """
    if not Path(DVC_YAML).is_file():
        raise MissingError(f"{DVC_YAML} does not exist: run this in the folder of {DVC_YAML} and {PARAMS}")
    try:
        with _quiet(), Repo(".", scm=NoSCM(".")) as repo, tempfile.TemporaryDirectory() as locks:
            repo.lock, repo.tmp_dir = LockNoop(), locks
            if params is not None:
                repo.fs = _Changed(params)
            with lock_repo(repo):  # or each of DVC's commands would read all of its files again
                if not repo.index.stages:
                    raise MismatchError("no stage is there")
                yield repo
    except Exception as error:  # DVC's own, and whatever a damaged dvc.yaml or dvc.lock leads it into
        reason = one_line(error, limit=300) or type(error).__name__
        raise MismatchError(f"DVC cannot read {DVC_YAML} and {PARAMS}: {reason}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """DVC uses what other packages will drop; that is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class _Changed(LocalFileSystem):
    """The files here, as if params.yaml held something else."""

    def __init__(self, params: str) -> None:
        super().__init__()
        self._params, self._path = params, os.path.abspath(PARAMS)

    def open(self, path: str, mode: str = "r", **how: Any) -> Any:
        if os.path.abspath(path) == self._path:
            return io.StringIO(self._params) if "b" not in mode else io.BytesIO(self._params.encode())
        return super().open(path, mode, **how)
