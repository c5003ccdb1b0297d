"""Which stages would run again now, and why.

DVC says so of params and data. After an edit of code it names stage `code` alone, whose result it does not know; here
the digests that this stage would write are compared with those that dvc.lock has. DVC skips what follows a stage that
ran again and made the same bytes; that cannot be known beforehand, so everything behind a change counts as running.
"""

import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx
from dvc.lock import LockNoop
from dvc.repo import Repo, lock_repo
from dvc.scm import NoSCM

from wsoup.base.errors import MismatchError, MissingError, one_line
from wsoup.disk import code
from wsoup.params.graph import CODE, DVC_YAML, PARAMS, read_graph, value_at
from wsoup.pipeline import code_file
from wsoup.pipeline.lock_file import damaged

NEVER_RUN = "never run"
BEHIND = "behind "
"""How the reason begins of a stage that only follows others: DVC skips it if what it reads comes out the same."""


def reasons(stages: Collection[str] | None = None) -> dict[str, str | None]:
    """Why each stage would run, or None if it is cached; dependencies come first.

    Args:
        stages: of these stages and of all that they depend on; None: of all.

    Raises:
        MissingError: there is no dvc.yaml.
        MismatchError: DVC cannot read it or dvc.lock, or it does not fit params.yaml.
    """
    why: dict[str, str | None] = {}
    stages_folder = Path("stages").resolve()
    with _repository() as repo:
        # Only now, since DVC says better what is wrong with dvc.yaml.
        digests = code_file.digests(stages_folder)
        of_code_alone = code.digests(stages_folder)
        optional = {}
        for name, stage in read_graph().stages.items():
            section, _, _ = stage.name.partition("@")
            optional[name] = [f"{section}.{key}" for key in code_file.optional_settings(stage)]
        graph = repo.index.graph  # edges lead from a stage to those it depends on
        needed = set()
        for of_dvc in graph:
            if stages is None or of_dvc.addressing in stages:
                needed |= {of_dvc, *networkx.descendants(graph, of_dvc)}
        graph = graph.subgraph(needed)
        position = {of_dvc: i for i, of_dvc in enumerate(repo.index.stages)}
        for of_dvc in networkx.lexicographical_topological_sort(graph.reverse(), key=position.__getitem__):
            status = of_dvc.status(check_updates=True).get(of_dvc.addressing, [])
            meant = _what_code_means(
                of_dvc, digests=digests, of_code_alone=of_code_alone, optional=optional.get(of_dvc.addressing, ())
            )
            own = _own_reason(of_dvc, status, meant=meant)
            # What stage `code` would write is known, so what follows it is not just behind it.
            before = [other.addressing for other in graph[of_dvc] if other.addressing != "code"]
            behind = [f"{BEHIND}{name}" for name in before if why[name]]
            why[of_dvc.addressing] = own or next(iter(behind), None)
    # Stages of the toy world's own dvc.yaml have its path before a colon.
    return {stage: reason for stage, reason in why.items() if ":" not in stage}


def _own_reason(stage: Any, status: Sequence[Any], *, meant: Sequence[str]) -> str | None:
    """Why a stage would run whatever the others do, given its part of `dvc status`, and what changed in its digest."""
    if not any(out.hash_info for out in stage.outs):
        return NEVER_RUN
    if stage.cmd_changed:
        return "its command changed"
    changed: dict[str, Any] = {}
    for entry in status:
        if isinstance(entry, dict):
            for paths in entry.values():  # changed deps, changed outs
                changed |= paths
    changed.pop(CODE, None)
    keys: list[str] = []  # of params.yaml
    for what in changed.values():
        if isinstance(what, dict):
            keys += what
    names = [*(keys or changed), *meant]
    if not names:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} changed"


def _what_code_means(
    stage: Any, *, digests: Mapping[str, object], of_code_alone: Mapping[str, object], optional: Sequence[str]
) -> list[str]:
    """What changed in the digest of a stage's code since dvc.lock: nothing, its code, or its optional keys.

    Args:
        stage: of DVC.
        digests: what stage `code` would write.
        of_code_alone: the same without optional keys.
        optional: those that do not have their default.
    """
    for dep in stage.deps:
        if dep.def_path == CODE and dep.hash_info:
            for key, digest in dep.hash_info.value.items():
                if value_at(digests, key) == digest:
                    continue
                if optional and value_at(of_code_alone, key) == digest:
                    return list(optional)
                return ["its code", *optional]
    return []


@contextmanager
def _repository() -> Iterator[Any]:
    """DVC's repository here. No lock of DVC's is taken, because a running `dvc repro` would fail to get it."""
    if not DVC_YAML.is_file():
        raise MissingError(f"{DVC_YAML} does not exist: run this in the folder of {DVC_YAML} and {PARAMS}")
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as locks:
            warnings.simplefilter("ignore", DeprecationWarning)  # DVC's own use of other packages
            with Repo(".", scm=NoSCM(".")) as repo:
                repo.lock = LockNoop()
                repo.tmp_dir = locks
                with lock_repo(repo):  # or each of DVC's commands would read all of its files again
                    if not repo.index.stages:
                        raise MismatchError("it has no stages")
                    yield repo
    except Exception as error:  # DVC's own errors, and any that a damaged dvc.yaml or dvc.lock causes in it
        lock = damaged()
        if lock is not None:
            raise MismatchError(lock) from None
        reason = one_line(error, limit=300) or type(error).__name__
        raise MismatchError(f"DVC cannot read {DVC_YAML} and {PARAMS}: {reason}") from None
