"""Decoding processes: each makes every n-th batch ahead of its use and sends it through a pipe of its own.

A pipe needs no room in /dev/shm (Docker gives 64 MiB), no socket in the temporary folder and no file descriptor an
image. Where processes or descriptors are short, fewer processes decode, or this one does; a line says so.
"""

from __future__ import annotations

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
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess, parent_process
from threading import Thread
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.core.disk.files import reason_of
from wsoup.core.errors import DataError, WsoupError
from wsoup.runtime.process import keep_memory

LOOK_SECONDS = 1.0
"""How often one that waits looks whether the other side lives."""
SPARE_DESCRIPTORS = 16
"""Files that can still be opened here once a process was started."""
CANNOT_START = (OSError, pickle.PicklingError, AttributeError, TypeError)
"""No room; or, where processes are not forked, a preprocessing that cannot be sent."""
PIECE = 1 << 20
"""Bytes that go through a pipe at once."""


class Decoded(NamedTuple):
    """One batch: the pixels of its good images (B, 3, H, W), and the error of each bad one by its position."""

    pixels: Tensor
    errors: dict[int, DataError]


Decode = Callable[[int], Decoded]
"""Number of a batch -> the batch."""


def ahead(decode: Decode, *, n: int, workers: int) -> Iterator[Decoded]:
    """``decode(0), ..., decode(n - 1)``, made by processes that are two batches each ahead of their use.

    Raises:
        WsoupError: a process was killed.
        Exception: whatever `decode` raised there, its traceback as a note.
    """
    processes = _started(decode, n=n, workers=min(workers, n))
    if not processes:
        yield from map(decode, range(n))
        return
    with ThreadPoolExecutor(len(processes)) as pool:
        try:
            waiting = deque(pool.submit(process.receive) for process in processes)
            for number in range(n):
                yield waiting.popleft().result()
                if number + len(processes) < n:
                    waiting.append(pool.submit(processes[number % len(processes)].receive))
        finally:
            _end(processes)  # which ends the threads that wait for them


class _Process(NamedTuple):
    """A decoding process, and the end of its pipe that is read."""

    process: BaseProcess
    pipe: Connection

    def receive(self) -> Decoded:
        """Its next batch, as soon as it is there."""
        try:
            alive = True
            while not self.pipe.poll(LOOK_SECONDS):
                if not alive:
                    raise EOFError
                alive = self.process.is_alive()
            message = self.pipe.recv()
            if isinstance(message, tuple):
                return self._pixels(*message)
        except (EOFError, OSError):
            self.process.join(LOOK_SECONDS)
            raise WsoupError(
                f"a decoding process was killed (exit code {self.process.exitcode}); finished shards are kept: run "
                "again, with fewer processes where memory is short (WSOUP_WORKERS=1)"
            ) from None
        raise message

    def _pixels(self, shape: torch.Size, dtype: torch.dtype, errors: dict[int, DataError]) -> Decoded:
        pixels = torch.empty(shape, dtype=dtype)
        view, at = _bytes(pixels), 0
        while at < len(view):
            at += self.pipe.recv_bytes_into(view, at)
        return Decoded(pixels, errors)


_most = 1 << 20
"""How many processes can be had, known once there were fewer than wanted."""


def _started(decode: Decode, *, n: int, workers: int) -> list[_Process]:
    """As many processes as can be had; where these are fewer than wanted, a line says so, once."""
    global _most
    processes: list[_Process] = []
    reason, count = "", 0 if multiprocessing.current_process().daemon else min(workers, _most)
    while count and not processes:
        try:
            processes = _start(decode, n=n, workers=count)
        except CANNOT_START as error:
            reason = reason_of(error)
            count = _most = count // 2
    if reason:
        said = f"decoding with {count} of {workers} processes, which takes longer: no more can be started ({reason})"
        print(said, file=sys.stderr)
    return processes


def _start(decode: Decode, *, n: int, workers: int) -> list[_Process]:
    """All of them, or an error and none."""
    processes: list[_Process] = []
    try:
        for first in range(workers):
            with ExitStack() as spare:
                for _ in range(SPARE_DESCRIPTORS):
                    spare.enter_context(open(os.devnull, "rb"))
            receiver, sender = multiprocessing.Pipe(duplex=False)
            arguments = (decode, range(first, n, workers), sender)
            process = multiprocessing.Process(target=_work, args=arguments, daemon=True)
            process.start()
            sender.close()  # so that the pipe ends with the process
            processes.append(_Process(process, receiver))
    except CANNOT_START:
        _end(processes)
        raise
    return processes


def _end(processes: list[_Process]) -> None:
    """Nothing is lost with a decoding process."""
    for process, _ in processes:
        process.kill()
    for process, _ in processes:
        process.join()


def _work(decode: Decode, numbers: range, pipe: Connection) -> None:
    """A decoding process; an interrupt of the terminal is the other side's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_memory()
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):
        try:
            Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
            for number in numbers:
                pixels, errors = decode(number)
                pipe.send((pixels.shape, pixels.dtype, errors))
                view = _bytes(pixels)
                for start in range(0, len(view), PIECE):
                    pipe.send_bytes(view[start : start + PIECE])
        except BrokenPipeError:
            raise
        except Exception as error:
            pipe.send(_portable(error))


def _end_with(parent: int) -> None:
    """End this process once the one is gone that it works for; it may be writing to a pipe that nobody reads."""
    above = parent_process()
    while above is not None and above.is_alive() and os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """The error itself where it can be sent, its traceback as a note; else one that says the same."""
    where = f"in a decoding process:\n{traceback.format_exc()}"
    error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever somebody's own exception does there
        return RuntimeError(where)
    return error


def _bytes(pixels: Tensor) -> memoryview:
    """The memory of a tensor; of a copy where it lies in pieces."""
    return pixels.reshape(-1).view(torch.uint8).numpy().data
