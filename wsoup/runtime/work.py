"""Long work: shards computed in this process or on a Ray cluster, which changes no byte of a result."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wsoup.base.errors import ParamsError
from wsoup.disk.shards import Shards
from wsoup.runtime.process import give_back, number_in
from wsoup.runtime.progress import progress, tick

EXECUTORS = ("here", "ray")
SAVE_SECONDS = 30.0
"""How often a long shard saves its state, so that a kill costs no more than this."""
Task = Callable[[int, int], Mapping[str, np.ndarray]]
"""(number of the set of shards, shard number) -> arrays."""


def finish_shards(
    work: Sequence[Shards],
    *,
    task: Task,
    label: str,
    unit: str,
    bar: bool = True,
    size: Callable[[int, int], int] | None = None,
) -> None:
    """Compute and save all missing shards; all long work goes through here.

    In this process, one after the other; with ``WSOUP_EXECUTOR=ray`` on a Ray cluster (`wsoup.runtime.on_ray`). The
    bytes are the same whatever the number and order of workers.

    Args:
        work: sets of shards, for example one per seed.
        task: a pure function; on a cluster one that can be pickled.
        label: for the progress bar.
        unit: what a shard is.
        bar: False where the task shows its own, finer progress.
        size: (number of the set, shard number) -> steps of the bar of `counting` per shard; in this process the task
            moves that bar itself.

    Raises:
        ParamsError: no such executor.
        WsoupError: what the task raises; shards finished before are kept.
    """
    for shards in work:
        shards.begin()
    missing = [(s, i) for s, shards in enumerate(work) for i in shards.missing()]
    done = sum(shards.n for shards in work) - len(missing)
    if done and missing:
        print(f"{label}: {done} of {done + len(missing)} {unit}s were finished before; going on", file=sys.stderr)
    if not missing:
        return
    executor = os.environ.get("WSOUP_EXECUTOR", "here")
    if executor not in EXECUTORS:
        raise ParamsError(f"WSOUP_EXECUTOR={executor}: must be one of {', '.join(EXECUTORS)}")
    if executor == "here":
        for s, i in progress(missing, label=label, unit=unit) if bar else missing:
            work[s].save(i, task(s, i))
        give_back()
        return
    from wsoup.runtime import on_ray

    finished = on_ray.run(task, missing, label=label)
    for (s, i), arrays in finished if size else progress(finished, label=label, total=len(missing), unit=unit):
        work[s].save(i, arrays)
        if size:
            tick(size(s, i))


def save_seconds() -> float:
    """Seconds after which a long shard saves its state: ``$WSOUP_SAVE_SECONDS``, or `SAVE_SECONDS`."""
    return number_in("WSOUP_SAVE_SECONDS", SAVE_SECONDS)
