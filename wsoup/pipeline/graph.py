"""Which stages dvc.yaml makes of params.yaml, which of them would run again now, and a run for each number of shots.

DVC is asked. It skips what follows a stage that ran again and made the same bytes; that cannot be known beforehand, so
everything behind a change counts as running.
"""

import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx
from dvc.lock import LockNoop
from dvc.repo import Repo, lock_repo
from dvc.scm import NoSCM

from wsoup.base.errors import MismatchError, MissingError, one_line
from wsoup.disk.store import fingerprint
from wsoup.params.section import read_yaml
from wsoup.pipeline.inputs import DVC_YAML, PARAMS
from wsoup.report.compare import Revision
from wsoup.report.results import ROLES

SHOTS = (1, 2, 4, 8, 16)
"""The numbers of few-shot images in the paper's figure; those above ``fewshot.shots`` of params.yaml are left out."""


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


def over_shots(root: Path = Path()) -> str:
    """Run what params.yaml says with each of `SHOTS` that no experiment has yet; every row of all, as CSV.

    The runs are `dvc exp run --temp`: they leave the working folder alone and share DVC's cache. Their names end in a
    digest of params.yaml, so that those that ended are found again and none replaces another.

    Raises:
        MismatchError: a run failed.
    """
    params = dict(read_yaml(root / PARAMS))
    lines = [f"shots,variant,row,{','.join(ROLES)}"]
    for n in (n for n in SHOTS if n <= params["fewshot"]["shots"]):
        name = f"shots-{n}-{fingerprint(params)[:8]}"
        try:
            record = Revision(name, root=root).record
        except MissingError:
            command = ["dvc", "exp", "run", "--temp", "--name", name, "-S", f"fewshot.shots={n}"]
            if subprocess.run(command, cwd=root, check=False).returncode:
                raise MismatchError(f"the run with {n} shots failed; the next call goes on from there") from None
            record = Revision(name, root=root).record
        for variant, rows in record.rows.items():
            for row, places in rows.items():
                lines.append(f"{n},{variant},{row},{','.join(str(places.get(role, '')) for role in ROLES)}")
    return "\n".join(lines)
