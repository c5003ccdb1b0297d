"""Which stages dvc.yaml makes of params.yaml, and which of them would run again, now or after changes. DVC is asked.

DVC skips what follows a stage that ran again and made the same bytes; that cannot be known beforehand, so everything
behind a change counts as running. The exception is stage evaluated, which takes only names and pools of the soups.
"""

import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx
from dvc.fs import LocalFileSystem
from dvc.lock import LockNoop
from dvc.repo import Repo, lock_repo
from dvc.scm import NoSCM
from dvc.utils.hydra import apply_overrides

from wsoup.base.errors import MismatchError, MissingError, ParamsError, one_line
from wsoup.disk.files import Artifacts, evaluated_soups
from wsoup.disk.store import read_json
from wsoup.params.section import parse_yaml, read_yaml
from wsoup.pipeline.inputs import DVC_YAML, PARAMS


def with_changes(params_file: str | Path, changes: Sequence[str]) -> str:
    """The text of a params file as `dvc exp run -S` would change it: ``soups.word.k0=50``, ``+soups.mine.kind=top``.

    Raises:
        MissingError: no such file.
        ParamsError: a change is not of the form ``key=value``, or its key does not exist.
    """
    read_yaml(params_file)  # refuses anything but valid YAML
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copyfile(params_file, Path(folder) / PARAMS))
        for change in changes:
            try:
                apply_overrides(copy, [change])
            except Exception:  # Hydra's own errors, and any that a bad value causes in it
                raise ParamsError(
                    f"-S {one_line(change, limit=200)}: expected a key of params.yaml and a value, such as "
                    "soups.word.k0=50; +key=value adds a key"
                ) from None
        return copy.read_text(encoding="utf-8")


def stage_names() -> list[str]:
    """Every stage, such as ``score@words``, in the order of dvc.yaml.

    Raises:
        MissingError: there is no dvc.yaml.
        MismatchError: DVC cannot read it, or it does not fit params.yaml.
    """
    with _repository() as repo:
        return [stage.name for stage in repo.index.stages if Path(stage.path) == DVC_YAML.resolve()]


def reasons(params: str) -> dict[str, str | None]:
    """Why each stage would run if this text were params.yaml, or None if it is cached; dependencies come first.

    Raises:
        MissingError, MismatchError: as `stage_names`; also for dvc.lock.
    """
    why: dict[str, str | None] = {}
    with _repository(params) as repo:
        status, graph = repo.status(), repo.index.graph  # edges lead from a stage to those it depends on
        position = {stage: i for i, stage in enumerate(repo.index.stages)}
        same_result: set[str] = set()  # stages that run and write what is already there
        for stage in networkx.lexicographical_topological_sort(graph.reverse(), key=position.__getitem__):
            name = stage.addressing
            others = (other.addressing for other in graph[stage] if other.addressing not in same_result)
            behind = [f"behind {other}" for other in others if why[other]]
            own = _own_reason(stage, status.get(name, []))
            why[name] = own or next(iter(behind), None)
            if (name, own) == ("evaluated", "soups changed"):
                soups = evaluated_soups(parse_yaml(params, origin=PARAMS)["soups"])
                if read_json(Artifacts().evaluated)["soups"] == soups:
                    same_result.add(name)
    return {stage: reason for stage, reason in why.items() if ":" not in stage}  # those of this dvc.yaml


def _own_reason(stage: Any, status: Sequence[Any]) -> str | None:
    """Why a stage would run whatever the others do, given its part of `dvc status`."""
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
    """DVC's repository here, with this text as params.yaml, or its own if None.

    No lock of DVC's is taken, because a running `dvc repro` would fail to get it.
    """
    if not DVC_YAML.is_file():
        raise MissingError(f"{DVC_YAML} does not exist: run this in the folder of {DVC_YAML} and {PARAMS}")
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as locks:
            warnings.simplefilter("ignore", DeprecationWarning)  # DVC's own use of other packages
            with Repo(".", scm=NoSCM(".")) as repo:
                repo.lock, repo.tmp_dir = LockNoop(), locks
                if params is not None:
                    repo.fs = _ChangedParams(params)
                with lock_repo(repo):  # or each of DVC's commands would read all of its files again
                    if not repo.index.stages:
                        raise MismatchError("it has no stages")
                    yield repo
    except Exception as error:  # DVC's own errors, and any that a damaged dvc.yaml or dvc.lock causes in it
        reason = one_line(error, limit=300) or type(error).__name__
        raise MismatchError(f"DVC cannot read {DVC_YAML} and {PARAMS}: {reason}") from None


class _ChangedParams(LocalFileSystem):
    """The local files, with another text as params.yaml."""

    def __init__(self, params: str) -> None:
        super().__init__()
        self._params, self._path = params, os.path.abspath(PARAMS)

    def open(self, path: str, mode: str = "r", **options: object) -> object:
        if os.path.abspath(path) == self._path:
            return io.StringIO(self._params) if "b" not in mode else io.BytesIO(self._params.encode())
        return super().open(path, mode, **options)
