"""Running a stage: its item and command line, checks before and after, its lock, and one-line errors.

Run ``python -m stages.score words`` in the folder of params.yaml, or ``dvc repro score@words``. DVC passes the item in
``DVC_STAGE``, so that no name from params.yaml ever reaches a shell. Where a stage runs may not change a result, so it
is never in params.yaml but in the environment: ``WSOUP_DEVICE``, ``WSOUP_WORKERS`` (processes that decode images) and
``WSOUP_EXECUTOR`` (here, ray).

A stage also removes results of names that params.yaml no longer has, in folders that stages depend on as a whole. A
fresh clone lacks them, so with them DVC would call other stages out of date there. Only what dvc.lock records as the
result of a stage, and whose bytes DVC's cache still holds, is removed; everything else is left, and no stage reads it:
stages list the names of params.yaml.
"""

import argparse
import contextlib
import gc
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from wsoup.base.errors import MismatchError, WsoupError
from wsoup.disk import code
from wsoup.disk.atomic import check_no_link, remove_half_written
from wsoup.disk.shards import Owner
from wsoup.disk.store import make_cache_dir
from wsoup.pipeline.folder import is_of_this_wsoup
from wsoup.pipeline.inputs import check_unchanged, outs_by_stage, read_inputs
from wsoup.pipeline.packages import check_packages
from wsoup.runtime.ending import INTERRUPTED, errors_in_one_line, finished, interruptible
from wsoup.runtime.terminal import print_anything

LOCK = Path("dvc.lock")


def run(main: Callable[..., None]) -> None:
    """Run a stage from the command line: a WsoupError is one line on stderr and exit code 1; an interrupt is 130.

    Args:
        main: the stage's work. Called with its `Owner` and, if it takes a second argument, with its item (a dataset, a
            pool, ...).
    """
    script = Path(sys.argv[0]).resolve()
    name, takes_item = script.stem, main.__code__.co_argcount > 1
    if not gc.isenabled():  # see `stages`
        gc.freeze()  # the collector need not look at imported modules again
        gc.enable()
    print_anything()
    try:
        with errors_in_one_line(), interruptible():
            item = _read_command_line(script, doc=main.__doc__ or "", takes_item=takes_item)
            name = name if item is None else f"{name}@{item}"
            _check_tree(script)
            check_packages(code.packages(script))
            outs = outs_by_stage()
            every = [Path(out) for of_stage in outs.values() for out in of_stage]
            places = {place for out in every for place in (out, *out.parents)}
            for place in places:
                check_no_link(place)  # before any work; links to files are DVC's own and lead into its cache
            remove_strays(places)
            inputs, owner = read_inputs(name), Owner.of(script, name=name)
            with _locked(name):
                remove_half_written(*outs.get(name, ()), owner.folder)
                main(owner, *([] if item is None else [item]))
                check_unchanged(name, since=inputs)
                owner.finished()
    except KeyboardInterrupt:
        print(f"{script.stem}: interrupted; finished work is kept, run it again to continue", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    finished()


def _read_command_line(script: Path, *, doc: str, takes_item: bool) -> str | None:
    """The item, from the command line or from DVC."""
    parser = argparse.ArgumentParser(prog=f"python -m stages.{script.stem}", description=doc, allow_abbrev=False)
    stage, _, item = os.environ.get("DVC_STAGE", "").rpartition(":")[2].partition("@")
    given = item if stage == script.stem else None
    if takes_item:
        about = "a name in params.yaml; DVC gives it in DVC_STAGE"
        parser.add_argument("item", nargs="?" if given else None, default=given, help=about)
    arguments = parser.parse_args()
    return str(arguments.item) if takes_item else None


def _check_tree(script: Path) -> None:
    """Raise MismatchError if another wsoup would run than that of the script's tree, which DVC has hashed."""
    import wsoup

    beside, used = script.parents[1] / "wsoup", Path(wsoup.__file__).resolve().parent
    if beside.is_dir() and beside != used:
        raise MismatchError(
            f"{script} would run {used}, not {beside} beside it; run it from {script.parents[1]} as "
            f"`python -m stages.{script.stem}` and clear PYTHONPATH"
        )
    if not beside.is_dir() and not is_of_this_wsoup(script.parents[1], rooms=code.rooms(script)):
        raise MismatchError(
            f"{script.parents[1]} belongs to another wsoup than the installed {wsoup.__version__}; run `wsoup init .` "
            "there to bring it up to date, then `dvc repro`"
        )


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """Hold the lock of one stage, so that two runs never mix their files."""
    path = make_cache_dir() / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(path), path.with_suffix(".pid")
    try:
        lock.acquire(timeout=1)  # `wsoup cache` takes free locks for a moment
    except Timeout:
        who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise WsoupError(f"stage {name!r} is running here already ({who}); wait for it, or stop it") from None
    try:  # from here on an interrupt removes the file too
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        holder.write_text(f"process {os.getpid()} of {platform.node()} since {since}", encoding="utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def remove_strays(current: set[Path]) -> None:
    """Remove results that dvc.lock records and no stage makes now, with a line for each, also for what is left.

    Args:
        current: the outs of all stages, and their folders.
    """
    if not LOCK.is_file():
        return
    try:
        locked = yaml.load(LOCK.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["stages"].values()
    except (yaml.YAMLError, LookupError, TypeError):
        raise MismatchError(f"{LOCK} is not as DVC writes it; restore it from git") from None
    recorded = {out["path"]: str(out.get("md5")) for stage in locked for out in stage.get("outs", ())}
    strays = sorted({Path(out) for out in recorded if out.startswith("artifacts/")} - current)
    for path in filter(Path.exists, strays):
        what = f"{path}: params.yaml no longer names it"
        if _is_held(path, digest=recorded[str(path)]):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            print(f"removed {what} (DVC's cache still has it)", file=sys.stderr)
        else:
            print(f"left {what}, and DVC's cache does not hold it; move it out of artifacts/", file=sys.stderr)


def _is_held(path: Path, *, digest: str) -> bool:
    """Whether a file or folder is as dvc.lock records it, and DVC's cache holds every file of it."""
    from dvc.repo import Repo  # a second, and few runs need it
    from dvc_data.hashfile.build import build

    with Repo(".") as repo:
        cache, place = repo.cache.local, os.path.abspath(path)
        present: Any = build(cache, place, repo.fs, "md5", dry_run=True, ignore=repo.dvcignore)[2]
        inside = [entry.value for _, _, entry in present] if path.is_dir() else []
        return present.oid == digest and all(map(cache.exists, (digest, *inside)))
