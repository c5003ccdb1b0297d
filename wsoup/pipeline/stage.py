"""Running a stage: its item and command line, checks before and after, its lock, and one-line errors.

Run ``python stages score words`` in the folder of params.yaml, or ``dvc repro score@words``. DVC passes the item in
``DVC_STAGE``, so that no name from params.yaml ever reaches a shell. Where a stage runs may not change a result, so it
is never in params.yaml but in the environment: ``WSOUP_DEVICE``, ``WSOUP_WORKERS`` (processes that decode images) and
``WSOUP_EXECUTOR`` (here, ray).
"""

import argparse
import contextlib
import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from wsoup.base.errors import WsoupError
from wsoup.disk import code
from wsoup.disk.atomic import check_no_link, remove_half_written
from wsoup.disk.cache_folder import make_cache_dir
from wsoup.disk.shards import Owner
from wsoup.params.graph import Graph, read_graph
from wsoup.pipeline.code_file import check_code, check_code_unchanged, check_tree, code_files
from wsoup.pipeline.packages import check_packages
from wsoup.pipeline.params import load_params
from wsoup.pipeline.strays import remove_strays
from wsoup.pipeline.unchanged import check_unchanged, read_inputs
from wsoup.runtime.ending import INTERRUPTED, errors_in_one_line, finished, interruptible
from wsoup.runtime.terminal import print_anything


def run(main: Callable[..., None]) -> None:
    """Run a stage from the command line: a WsoupError is one line on stderr and exit code 1; an interrupt is 130.

    Args:
        main: the stage's work. Called with its `Owner` and, if it takes a second argument, with its item (a dataset, a
            pool, ...).
    """
    script = Path(sys.argv[0]).resolve()
    takes_item = main.__code__.co_argcount > 1
    if not gc.isenabled():  # see stages/__main__.py
        # The collector need not look at imported modules again.
        gc.freeze()
        gc.enable()
    print_anything()
    try:
        with errors_in_one_line(), interruptible():
            item = _read_command_line(script, doc=main.__doc__ or "", takes_item=takes_item)
            _run(main, script, item=item)
    except KeyboardInterrupt:
        print(f"{script.stem}: interrupted; finished work is kept, run it again to continue", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    finished()


def _run(main: Callable[..., None], script: Path, *, item: str | None) -> None:
    """Do the work of a stage between its checks."""
    name = script.stem if item is None else f"{script.stem}@{item}"
    check_tree(script)
    # All of it: a mistyped key of a later stage must not be found after this one's hours.
    load_params()
    check_packages(code.packages(script))
    graph = read_graph()
    stage = graph.stages.get(name)  # None where there is no dvc.yaml, or the item is none of params.yaml's
    places = _places(graph)
    for place in places:
        # DVC would refuse such a link only after the work. Links to files are its own and lead into its cache.
        check_no_link(place)
    check_code(stage, stages=script.parent)
    # Before the inputs are read: a folder that loses a stray is not an input that changed meanwhile.
    remove_strays(places)
    before = read_inputs(stage)
    sources = code_files(stage, stages=script.parent)
    owner = Owner.of(script, name=name)
    outs = stage.outs if stage else ()
    with locked(name):
        remove_half_written(*outs, owner.folder)
        if item is None:
            main(owner)
        else:
            main(owner, item)
        # Read again, because params.yaml may name other inputs now.
        now = read_inputs(read_graph().stages.get(name))
        check_unchanged(name, before=before, now=now)
        check_code_unchanged(stage, stages=script.parent, since=sources)
        owner.finished()


def _places(graph: Graph) -> set[Path]:
    """All outs, and the folders that hold them."""
    places = set()
    for stage in graph.stages.values():
        for out in stage.outs:
            path = Path(out)
            places.add(path)
            places.update(path.parents)
    return places


def _read_command_line(script: Path, *, doc: str, takes_item: bool) -> str | None:
    """The item, from the command line or from DVC."""
    parser = argparse.ArgumentParser(prog=f"python stages {script.stem}", description=doc, allow_abbrev=False)
    if takes_item:
        # Where a stage is in a folder below, DVC writes dvc.yaml's path before a colon.
        _, _, address = os.environ.get("DVC_STAGE", "").rpartition(":")
        stage, _, item = address.partition("@")
        given = item if stage == script.stem else None
        about = "a name in params.yaml; DVC gives it in DVC_STAGE"
        parser.add_argument("item", nargs="?" if given else None, default=given, help=about)
    arguments = parser.parse_args()
    return str(arguments.item) if takes_item else None


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of one stage, so that two runs never mix their files."""
    path = make_cache_dir() / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    holder = path.with_suffix(".pid")
    try:
        # A second, because `wsoup cache` takes free locks for a moment.
        lock.acquire(timeout=1)
    except Timeout:
        who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise WsoupError(f"stage {name!r} is running here already ({who}); wait for it, or stop it") from None
    # From here on an interrupt removes the file, too.
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        holder.write_text(f"process {os.getpid()} of {platform.node()} since {since}", encoding="utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()
