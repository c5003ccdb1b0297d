"""Worker processes that decode batches ahead of their use.

Pixels come back through a pipe, which needs no space in /dev/shm (Docker gives 64 MiB). Where no process can be
started, this one decodes, and a line says so.
"""

import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsoup.base.errors import DataError, ParamsError, WsoupError
from wsoup.disk.files import reason_of
from wsoup.runtime.ending import end_with
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.threads import cores

AHEAD = 2
"""Batches of each process that are under way or wait to be used."""
CANNOT_START = (OSError, pickle.PicklingError, AttributeError, TypeError)
"""No resources; or, where processes are not forked, a preprocessing that cannot be pickled."""


class Batch(NamedTuple):
    """One batch of a list of images.

    Attributes:
        pixels: (B, 3, H, W) of the images that could be decoded.
        positions: B positions of these images in the list.
        bad: error of each other image of the batch, by position.
    """

    pixels: Tensor
    positions: list[int]
    bad: dict[int, DataError]


Decode = Callable[[int], Batch]
"""Batch number -> batch."""


def ahead(decode: Decode, *, n: int, workers: int) -> Iterator[Batch]:
    """``decode(0), ..., decode(n - 1)``, computed by worker processes up to two batches ahead of their use.

    Raises:
        WsoupError: a worker was killed.
        Exception: whatever `decode` raised in a worker, with that traceback as its cause.
    """
    workers = min(workers, n)
    # A daemon may have no children.
    if multiprocessing.current_process().daemon:
        workers = 0
    pool = None
    alive = None
    if workers:
        pool, alive = _started(decode, workers=workers)
    if pool is None or alive is None:
        yield from map(decode, range(n))
        return
    try:
        at_first = min(n, AHEAD * workers)
        pending = deque(pool.submit(_decoded, number) for number in range(at_first))
        for number in range(n):
            pixels, dtype, positions, bad = pending.popleft().result()
            # One more is begun for each that is taken, so that memory holds a fixed number of batches.
            coming = number + AHEAD * workers
            if coming < n:
                pending.append(pool.submit(_decoded, coming))
            yield Batch(torch.from_numpy(pixels).view(dtype), positions, bad)
    except BrokenProcessPool:
        raise WsoupError(
            "a decoding process was killed; run it again, with fewer of them where memory is short (WSOUP_WORKERS=1)"
        ) from None
    finally:
        alive.close()
        pool.shutdown()


def _started(decode: Decode, *, workers: int) -> tuple[ProcessPoolExecutor | None, Connection | None]:
    """Worker processes, and the end of a pipe whose closing ends them; none where they cannot be started."""
    try:
        ending, alive = multiprocessing.Pipe(duplex=False)
        pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(decode, ending, alive))
        # The first task starts the processes: here, where a failure is expected.
        pool.submit(os.getpid)
        return pool, alive
    except CANNOT_START as error:
        text = f"decoding in this process, which takes longer: no others can be started ({reason_of(error)})"
        print(text, file=sys.stderr)
        return None, None


_decode: Decode
"""What this process decodes, if it is a worker."""


def _begin(decode: Decode, ending: Connection, alive: Connection) -> None:
    """Begin a worker. The main process answers the terminal's interrupts."""
    global _decode
    _decode = decode
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_memory()
    # One thread each: there are as many workers as cores.
    torch.set_num_threads(1)
    # A worker's own copy of this end would keep the pipe open when the main process was killed.
    alive.close()
    end_with(ending.recv_bytes)


def _decoded(number: int) -> tuple[np.ndarray, torch.dtype, list[int], dict[int, DataError]]:
    """A batch as bytes; a tensor would be sent through /dev/shm."""
    pixels, positions, bad = _decode(number)
    return pixels.contiguous().view(torch.uint8).numpy(), pixels.dtype, positions, bad


def decoding_workers() -> int:
    """Number of decoding processes: ``$WSOUP_WORKERS``, else one per core, up to 16. No result depends on it."""
    text = os.environ.get("WSOUP_WORKERS", "")
    if not text:
        return min(16, cores())
    if not text.isdecimal() or int(text) > 1024:
        raise ParamsError(f"WSOUP_WORKERS is {text[:40]!r}, expected a number of processes, 0 to 1024")
    return int(text)
