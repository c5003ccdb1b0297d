"""Long work: shards computed in this process or on a Ray cluster, which changes no byte of a result."""

import os
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from wsoup.base.errors import ParamsError
from wsoup.disk.shards import Shard
from wsoup.runtime.environment import number_in
from wsoup.runtime.memory import give_back
from wsoup.runtime.progress import counting, showing, tick

Key = TypeVar("Key", bound=Hashable)
EXECUTORS = ("here", "ray")
SAVE_SECONDS = 30.0
"""How often a long shard saves its state, so that a kill costs no more than this."""


def finish_shards(shards: Sequence[Shard], *, label: str, unit: str, ticks: bool = False) -> Iterator[bytes]:
    """Compute and save all missing shards; all long work goes through here.

    In this process, one after the other; with ``WSOUP_EXECUTOR=ray`` on a Ray cluster (`wsoup.runtime.on_ray`). The
    bytes are the same whatever the number and order of workers.

    Args:
        shards: the work.
        label: for the progress bar.
        unit: what a step of the bar is.
        ticks: whether in this process a shard moves the bar itself (`wsoup.runtime.progress.tick`).

    Returns:
        The result of each shard, in order, read from its file when it is asked for.

    Raises:
        ParamsError: no such executor.
        WsoupError: what a shard raises; shards finished before are kept.
    """
    executor = os.environ.get("WSOUP_EXECUTOR", "here")
    if executor not in EXECUTORS:
        raise ParamsError(f"WSOUP_EXECUTOR={executor}: must be one of {', '.join(EXECUTORS)}")
    for shard in shards:
        shard.owner.used.add(shard.path)
    missing = [shard for shard in shards if not shard.done()]
    if missing:
        total = sum(shard.size for shard in shards)
        _compute(missing, label=label, unit=unit, total=total, ticks=ticks)
    # All are read from their files, also what was just computed, so that results are in memory one at a time.
    return (shard.load() for shard in shards)


def finish_by_key(shards: Mapping[Key, Shard], *, label: str, unit: str) -> Iterator[tuple[Key, bytes]]:
    """`finish_shards` of named shards, so that callers need not count positions.

    Returns:
        The name and the result of each shard, in order; a result is read from its file when it is asked for.
    """
    results = finish_shards(list(shards.values()), label=label, unit=unit)
    return zip(shards, results, strict=True)


def finish_by_group(groups: Mapping[Key, Sequence[Shard]], *, label: str, unit: str) -> dict[Key, list[bytes]]:
    """`finish_shards` of groups of shards, under one progress bar: a worker goes on from one group to the next.

    Returns:
        The results of each group, in order.
    """
    every: list[Shard] = []
    for shards in groups.values():
        every += shards
    results = finish_shards(every, label=label, unit=unit)
    return {key: list(islice(results, len(shards))) for key, shards in groups.items()}


def _compute(missing: Sequence[Shard], *, label: str, unit: str, total: int, ticks: bool) -> None:
    done = total - sum(shard.size for shard in missing)
    first = missing[0]
    # The folder tells a shard that its state can be saved.
    first.path.parent.mkdir(parents=True, exist_ok=True)
    if first.owner.outdated() and not first.owner.begun():
        print(f"{label}: code or packages have changed since its last run: starting again", file=sys.stderr)
    if done:
        print(f"{label}: {done} of {total} {unit}s were finished before; going on", file=sys.stderr)
    with counting(label=label, total=total, initial=done, unit=unit):
        if os.environ.get("WSOUP_EXECUTOR") == "ray":
            from wsoup.runtime import on_ray

            tasks = [partial(_silently, shard.compute) for shard in missing]
            for i, payload in on_ray.run(tasks, label=label):
                missing[i].save(payload)
                tick(missing[i].size)
            return
        for shard in missing:
            shard.save(shard.compute())
            if not ticks:
                tick(shard.size)
    # What follows, such as writing a table, needs little of what the shards took.
    give_back()


def _silently(compute: Callable[[], bytes]) -> bytes:
    """A shard's result, computed by a worker; the driver shows bars."""
    with showing(bars=False):
        return compute()


def save_seconds() -> float:
    """Seconds after which a long shard saves its state: ``$WSOUP_SAVE_SECONDS``, or `SAVE_SECONDS`."""
    return number_in("WSOUP_SAVE_SECONDS", SAVE_SECONDS)
