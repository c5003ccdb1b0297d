"""Tasks on worker processes of this machine, one for each of its devices or for some of its cores.

Tasks are asked for one at a time, so that they may follow from the results of others; a worker that is free never waits
for the next, because one is always ready. A worker that dies is replaced, and its task is given to another.
"""

import multiprocessing
import pickle
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeAlias

from wsoup.base.errors import WsoupError, one_line
from wsoup.runtime.ending import end_with
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.progress import showing

Task: TypeAlias = Callable[[], Any]
"""Pure, and without anything that cannot be pickled."""
TRIES = 3
"""Workers that a task may crash before it is an error."""


class _Worker(NamedTuple):
    """A process, the end of a pipe to it, and what it did first."""

    process: BaseProcess
    pipe: Connection
    begin: Callable[[], None]


def run(
    take: Callable[[], Task | None], *, workers: Sequence[Callable[[], None]], label: str
) -> Iterator[tuple[int, Any]]:
    """Compute tasks as they are taken; yields the number of each, from 0 in the order of taking, and its result.

    Args:
        take: gives the next task, or None if there is none before another one is finished.
        workers: what each worker does first, while this process takes the first tasks: choose its device, import.
        label: for messages.

    Raises:
        WsoupError: what a task raises, or a task crashed `TRIES` workers.
    """
    pool = _Pool(take, label=label)
    try:
        for begin in workers:
            pool.start(begin)
        yield from pool.work()
    finally:
        pool.stop()


class _Pool:
    def __init__(self, take: Callable[[], Task | None], *, label: str) -> None:
        self.take = take
        self.label = label
        self.taken = 0
        self.ready: deque[tuple[int, bytes]] = deque()
        self.idle: list[_Worker] = []
        self.busy: dict[Connection, tuple[_Worker, tuple[int, bytes]]] = {}
        self.crashes: Counter[int] = Counter()
        # Workers end once this process has, whatever ended it.
        self.ending, self.alive = multiprocessing.Pipe(duplex=False)

    def start(self, begin: Callable[[], None]) -> None:
        """Start a worker, which waits for its first task once it has begun."""
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=_serve, args=(theirs, self.ending, begin))
        process.start()
        theirs.close()
        self.idle.append(_Worker(process, ours, begin))

    def work(self) -> Iterator[tuple[int, Any]]:
        while True:
            self._assign()
            if not self.busy:
                return
            for pipe in wait([*self.busy]):
                worker, task = self.busy.pop(pipe)  # type: ignore[call-overload]
                try:
                    result = worker.pipe.recv()
                except (EOFError, OSError):
                    self._replace(worker, task)
                    continue
                self.idle.append(worker)
                if isinstance(result, BaseException):
                    raise result
                yield task[0], result

    def _assign(self) -> None:
        """Give every idle worker a task, and have another one ready for whichever is the first to ask for it."""
        while len(self.ready) <= len(self.idle):
            task = self.take()
            if task is None:
                break
            self.ready.append((self.taken, pickle.dumps(task)))
            self.taken += 1
            self._give()
        self._give()

    def _give(self) -> None:
        while self.ready and self.idle:
            worker = self.idle.pop(0)
            task = self.ready.popleft()
            self.busy[worker.pipe] = worker, task
            # One that died while it waited is noticed when its answer is read.
            with suppress(OSError):
                worker.pipe.send_bytes(task[1])

    def _replace(self, worker: _Worker, task: tuple[int, bytes]) -> None:
        worker.process.join()
        why = f"exit code {worker.process.exitcode}"
        number, _ = task
        self.crashes[number] += 1
        if self.crashes[number] >= TRIES:
            raise WsoupError(
                f"{self.label}: a shard crashed its worker {TRIES} times, last with {why}. Finished shards are kept: "
                "if memory is short, run again with fewer workers"
            )
        print(f"{self.label}: a worker is gone ({why}); its shard is given to another", file=sys.stderr)
        self.ready.appendleft(task)
        self.start(worker.begin)

    def stop(self) -> None:
        """End all workers."""
        self.alive.close()
        for worker in [*self.idle, *(worker for worker, _ in self.busy.values())]:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        self.ending.close()


# ---------------------------------------------------------------------------------------------------------- a worker


def _serve(pipe: Connection, ending: Connection, begin: Callable[[], None]) -> None:
    """Compute what comes through a pipe, until it is closed. The main process answers the terminal's interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_memory()
    end_with(ending.recv_bytes)
    begin()
    with showing(bars=False), suppress(EOFError, OSError):
        while True:
            pipe.send(_result(pipe.recv_bytes()))


def _result(task: bytes) -> Any:
    """What a task gives, or the error that it raises."""
    try:
        return pickle.loads(task)()
    except WsoupError as error:
        return error
    except Exception as error:
        return WsoupError(one_line(f"{type(error).__name__}: {error}", limit=300))
