"""Results of names that params.yaml no longer has, in folders that stages depend on as a whole.

A fresh clone lacks them, so with them DVC would call other stages out of date there. Only what dvc.lock records as the
result of a stage, and whose bytes DVC's cache still holds, is removed; everything else is left, and no stage reads it:
stages list the names of params.yaml.
"""

import os
import shutil
import sys
from collections.abc import Set
from pathlib import Path
from typing import Any

import yaml

from wsoup.base.errors import MismatchError

LOCK = Path("dvc.lock")


def remove_strays(current: Set[Path]) -> None:
    """Remove results that dvc.lock records and no stage makes now, with a line for each, also for what is left.

    Args:
        current: the outs of all stages, and their folders.

    Raises:
        MismatchError: dvc.lock is not as DVC writes it.
    """
    recorded = _recorded_outs()
    for out in sorted(recorded):
        path = Path(out)
        if not out.startswith("artifacts/") or path in current or not path.exists():
            continue
        what = f"{path}: params.yaml no longer names it"
        if not _is_held(path, digest=recorded[out]):
            print(f"left {what}, and DVC's cache does not hold it; move it out of artifacts/", file=sys.stderr)
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        print(f"removed {what} (DVC's cache still has it)", file=sys.stderr)


def _recorded_outs() -> dict[str, str]:
    """The outs of all stages by dvc.lock, with their digests; empty if there is no dvc.lock."""
    if not LOCK.is_file():
        return {}
    # The file has thousands of lines, for which Python's own parser takes a second.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    digests = {}
    try:
        for stage in yaml.load(LOCK.read_bytes(), Loader=loader)["stages"].values():
            for out in stage.get("outs", ()):
                digests[out["path"]] = str(out.get("md5"))
    except (yaml.YAMLError, LookupError, TypeError, AttributeError):
        raise MismatchError(f"{LOCK} is not as DVC writes it; restore it from git") from None
    return digests


def _is_held(path: Path, *, digest: str) -> bool:
    """Whether a file or folder is as dvc.lock records it, and DVC's cache holds every file of it."""
    from dvc.repo import Repo  # a second, and few runs need it
    from dvc_data.hashfile.build import build

    with Repo(".") as repo:
        cache = repo.cache.local
        place = os.path.abspath(path)
        present: Any = build(cache, place, repo.fs, "md5", dry_run=True, ignore=repo.dvcignore)[2]
        if present.oid != digest:
            return False
        needed = [digest]
        if path.is_dir():
            needed += [entry.value for _, _, entry in present]
        return all(cache.exists(each) for each in needed)
