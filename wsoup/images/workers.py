"""Worker processes for decoding: each of n makes every n-th batch ahead of its use and sends it through its own pipe.

A pipe needs no space in /dev/shm (Docker gives 64 MiB), no socket in the temporary folder and no file descriptor per
image. Where processes or descriptors are scarce, fewer processes decode, or only this one, and a line says so.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, parent_process
from threading import Thread
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wsoup.base.errors import DataError, WsoupError
from wsoup.disk.files import reason_of
from wsoup.runtime.process import keep_memory

POLL_SECONDS = 1.0
"""Between a worker's checks whether the main process is alive."""
SPARE_DESCRIPTORS = 16
"""Files that this process can still open once a worker was started."""
CANNOT_START = (OSError, pickle.PicklingError, AttributeError, TypeError)
"""No resources; or, where processes are not forked, a preprocessing that cannot be pickled."""
CHUNK_BYTES = 1 << 20
"""Sent through a pipe at once."""


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
        Exception: whatever `decode` raised in a worker, with the traceback as a note.
    """
    processes = _start_possible(decode, n=n, workers=min(workers, n))
    if not processes:
        yield from map(decode, range(n))
        return
    with ThreadPoolExecutor(len(processes)) as pool:
        try:
            pending = deque(pool.submit(process.receive) for process in processes)
            for number in range(n):
                yield pending.popleft().result()
                if number + len(processes) < n:
                    pending.append(pool.submit(processes[number % len(processes)].receive))
        finally:
            _kill(processes)  # which ends the threads that wait for them


class _Worker(NamedTuple):
    """A worker process, and the reading end of its pipe."""

    process: BaseProcess
    pipe: Connection

    def receive(self) -> Batch:
        """Wait for the next batch."""
        try:
            if self.pipe not in wait([self.pipe, self.process.sentinel]):
                raise EOFError
            message = self.pipe.recv()
            if isinstance(message, tuple):
                return self._batch(*message)
        except (EOFError, OSError):
            self.process.join(timeout=1.0)
            raise WsoupError(
                f"a decoding process was killed (exit code {self.process.exitcode}); run it again, with fewer of them "
                "where memory is short (WSOUP_WORKERS=1)"
            ) from None
        raise message

    def _batch(self, shape: torch.Size, dtype: torch.dtype, *positions_and_bad: Any) -> Batch:
        pixels = torch.empty(shape, dtype=dtype)
        view, at = _bytes(pixels), 0
        while at < len(view):
            at += self.pipe.recv_bytes_into(view, at)
        return Batch(pixels, *positions_and_bad)


_max_workers = 1 << 20
"""Lowered once fewer workers could be started than wanted."""


def _start_possible(decode: Decode, *, n: int, workers: int) -> list[_Worker]:
    """As many workers as can be started; says so once where these are fewer than wanted."""
    global _max_workers
    processes: list[_Worker] = []
    reason, count = "", 0 if multiprocessing.current_process().daemon else min(workers, _max_workers)
    while count and not processes:
        try:
            processes = _start(decode, n=n, workers=count)
        except CANNOT_START as error:
            reason = reason_of(error)
            count = _max_workers = count // 2
    if reason:
        print(
            f"decoding with {count} of {workers} processes, which takes longer: no more can be started ({reason})",
            file=sys.stderr,
        )
    return processes


def _start(decode: Decode, *, n: int, workers: int) -> list[_Worker]:
    """All workers, or an error and none."""
    processes: list[_Worker] = []
    try:
        for first in range(workers):
            with ExitStack() as spare:
                for _ in range(SPARE_DESCRIPTORS):
                    spare.enter_context(open(os.devnull, "rb"))
            receiver, sender = multiprocessing.Pipe(duplex=False)
            numbers = range(first, n, workers)
            process = multiprocessing.Process(target=_work, args=(decode, numbers, sender), daemon=True)
            process.start()
            sender.close()  # so that the pipe ends with the process
            processes.append(_Worker(process, receiver))
    except CANNOT_START:
        _kill(processes)
        raise
    return processes


def _kill(processes: list[_Worker]) -> None:
    """End the workers at once; they hold nothing that is still needed."""
    for process, _ in processes:
        process.kill()
    for process, _ in processes:
        process.join()


def _work(decode: Decode, numbers: range, pipe: Connection) -> None:
    """Run in a worker; the main process answers the terminal's interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_memory()
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):
        try:
            Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
            for number in numbers:
                pixels, *positions_and_bad = decode(number)
                pipe.send((pixels.shape, pixels.dtype, *positions_and_bad))
                view = _bytes(pixels)
                for start in range(0, len(view), CHUNK_BYTES):
                    pipe.send_bytes(view[start : start + CHUNK_BYTES])
        except BrokenPipeError:
            raise
        except Exception as error:
            pipe.send(_portable(error))


def _exit_with(parent: int) -> None:
    """Exit once the main process is gone: this one may be blocked on a pipe that nobody reads."""
    main = parent_process()
    while main is not None and main.is_alive() and os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note, or a RuntimeError with the traceback where it cannot be pickled."""
    where = f"in a decoding process:\n{traceback.format_exc()}"
    error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a user's exception may fail in any way
        return RuntimeError(where)
    return error


def _bytes(pixels: Tensor) -> memoryview:
    """The memory of a tensor, or of a contiguous copy."""
    return pixels.reshape(-1).view(torch.uint8).numpy().data
