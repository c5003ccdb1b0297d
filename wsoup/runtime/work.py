"""Long work: shards computed in this process or on a Ray cluster, which changes no byte of a result; progress bars.

Bars are on stderr, or drawn by the notebook that the code runs in.
"""

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from tqdm.auto import tqdm

from wsoup.base.errors import ParamsError
from wsoup.disk.code import Shard
from wsoup.runtime.process import give_back, number_in

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
        ticks: whether in this process a shard moves the bar itself (`wsoup.runtime.work.tick`).

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
        _compute(missing, label=label, unit=unit, total=sum(shard.size for shard in shards), ticks=ticks)
    return (shard.load() for shard in shards)


def finish_by_key(shards: Mapping[Key, Shard], *, label: str, unit: str) -> Iterator[tuple[Key, bytes]]:
    """`finish_shards` of named shards, so that callers need not count positions.

    Returns:
        The name and the result of each shard, in order; a result is read from its file when it is asked for.
    """
    results = finish_shards(list(shards.values()), label=label, unit=unit)
    return zip(shards, results, strict=True)


def _compute(missing: Sequence[Shard], *, label: str, unit: str, total: int, ticks: bool) -> None:
    done = total - sum(shard.size for shard in missing)
    missing[0].path.parent.mkdir(parents=True, exist_ok=True)  # tells a shard that its state can be saved
    if missing[0].owner.outdated() and not missing[0].owner.begun():
        print(f"{label}: code or packages have changed since its last run: starting again", file=sys.stderr)
    if done:
        print(f"{label}: {done} of {total} {unit}s were finished before; going on", file=sys.stderr)
    with counting(label=label, total=total, initial=done, unit=unit):
        if os.environ.get("WSOUP_EXECUTOR") == "ray":
            from wsoup.runtime import on_ray

            for i, payload in on_ray.run([partial(_silently, shard.compute) for shard in missing], label=label):
                missing[i].save(payload)
                tick(missing[i].size)
            return
        for shard in missing:
            shard.save(shard.compute())
            if not ticks:
                tick(shard.size)
    give_back()


def _silently(compute: Callable[[], bytes]) -> bytes:
    """A shard's result, computed by a worker; the driver shows bars."""
    with showing(bars=False):
        return compute()


def save_seconds() -> float:
    """Seconds after which a long shard saves its state: ``$WSOUP_SAVE_SECONDS``, or `SAVE_SECONDS`."""
    return number_in("WSOUP_SAVE_SECONDS", SAVE_SECONDS)


# --------------------------------------------------------------------------------------------------------- progress

_IN_NOTEBOOK = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)
_shown = ContextVar("bars are drawn", default=True)
_current: list[tqdm] = []


def progress(
    items: Iterable[object] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> tqdm:
    """A progress bar; where stderr is neither a terminal nor a notebook, one line every ten seconds."""
    closed = sys.stderr is None  # as a caller's process may have it: `2>&-`
    return tqdm(
        items,
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        mininterval=0.2 if _IN_NOTEBOOK or closed or sys.stderr.isatty() else 10.0,
        file=sys.stderr,
        ncols=None if _IN_NOTEBOOK else 100,
        disable=closed or not _shown.get(),
    )


@contextmanager
def counting(*, label: str, total: int, initial: int, unit: str) -> Iterator[tqdm]:
    """A bar that tasks move by `tick`."""
    with progress(label=label, total=total, initial=initial, unit=unit) as bar:
        _current.append(bar)
        try:
            yield bar
        finally:
            _current.pop()


def tick(n: int) -> None:
    """Move the innermost bar of `counting`, if any, by n."""
    if _current:
        _current[-1].update(n)


@contextmanager
def showing(*, bars: bool) -> Iterator[None]:
    """Draw bars within the block, or do not."""
    token = _shown.set(bars)
    try:
        yield
    finally:
        _shown.reset(token)
