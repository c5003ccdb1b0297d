"""Worker processes that decode pieces of lists of images ahead of their use.

Pixels come back through shared memory (`wsoup.images.places`), or through a pipe where there is none. Neither needs
space in /dev/shm. Where no process can be started, this one decodes, and a line says so.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsoup.base.errors import DataError, ParamsError, WsoupError
from wsoup.disk.files import reason_of
from wsoup.images.decode import Picture
from wsoup.images.places import Kept, Places
from wsoup.runtime.ending import end_with
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.threads import cores

PIECE = 32
"""Images that a process decodes at a time, so that the first batch of a device's hundreds is decoded by all of them."""
AHEAD = 2
"""Pieces of each process, and batches, that are under way or wait to be used."""
CANNOT_START = (OSError, pickle.PicklingError, AttributeError, TypeError)
"""No resources; or, where processes are not forked, a preprocessing that cannot be pickled."""


class Images(NamedTuple):
    """A list of images: N paths or pictures, and the N content digests that they must have, or None."""

    paths: Sequence[str | Picture]
    digests: Sequence[str | None] | None

    def pieces(self, *, batch_size: int) -> list[Images]:
        """The list in pieces, in order; none has images of two batches."""
        pieces = []
        for start in range(0, len(self.paths), batch_size):
            end = min(start + batch_size, len(self.paths))
            for first in range(start, end, PIECE):
                some = slice(first, min(first + PIECE, end))
                pieces.append(Images(self.paths[some], self.digests[some] if self.digests else None))
        return pieces


class Batch(NamedTuple):
    """One batch, or one piece, of a list of images.

    Attributes:
        pixels: (B, 3, H, W) of the images that could be decoded.
        positions: B positions of these images in the list.
        bad: error of each other image of the batch, by position.
    """

    pixels: Tensor
    positions: list[int]
    bad: dict[int, DataError]


class Begun(NamedTuple):
    """A piece that a process decodes, and the place where its pixels come to lie; None for a pipe."""

    images: Images
    future: Future[Sent]
    place: int | None


Decode = Callable[[Images], Batch]
"""A piece of a list -> its pixels, with positions in the piece."""


class Decoders:
    """Worker processes with one way of decoding.

    Args:
        decode: what they do.
        batch_size: images that are used at a time.
        workers: how many there are; with none, or where none can be started, this process decodes.
        coming: the lists that will be asked for, in this order; any other may be, too.
    """

    def __init__(self, decode: Decode, *, batch_size: int, workers: int, coming: Iterable[Images] = ()) -> None:
        self.decode = decode
        self.batch_size = batch_size
        # Memory holds a fixed number of pieces.
        self.most = AHEAD * max(workers, math.ceil(batch_size / PIECE))
        self.coming = iter(coming)
        self.queue: deque[tuple[Images, Images]] = deque()  # lists and their pieces, to be begun
        self.pending: deque[Begun] = deque()
        self.places: Places | None = None
        # As many more as there may be pieces under way that nobody waits for any more.
        self.free = list(range(self.most + workers))
        self.pool: ProcessPoolExecutor | None = None
        # A daemon may have no children.
        if workers > 0 and not multiprocessing.current_process().daemon:
            self.places = Places.new(len(self.free))
            self.pool, self.alive = _started(decode, self.places, workers=workers)

    def decoded(self, images: Images) -> Iterator[Batch]:
        """The pieces of a list, in order. Whatever comes after it is begun before all of it is used.

        Raises:
            WsoupError: a worker was killed.
            Exception: whatever `decode` raised in a worker, with that traceback as its cause.
        """
        pieces = images.pieces(batch_size=self.batch_size)
        if self.pool is None:
            yield from map(self.decode, pieces)
            return
        try:
            self._expect(images)
            for _ in pieces:
                self._begin()
                batch = self._taken(self.pending.popleft())
                # One more is begun for each that is taken.
                self._begin()
                yield batch
        except BrokenProcessPool:
            raise WsoupError(
                "a decoding process was killed; run it again, with fewer of them where memory is short "
                "(WSOUP_WORKERS=1)"
            ) from None

    def _taken(self, begun: Begun) -> Batch:
        """Wait for a piece, and free its place."""
        try:
            pixels, dtype, positions, bad = begun.future.result()
            if isinstance(pixels, Kept):
                assert self.places is not None
                assert begun.place is not None
                pixels = self.places.get(pixels, place=begun.place)
        finally:
            if begun.place is not None:
                self.free.append(begun.place)
        return Batch(torch.from_numpy(pixels).view(dtype), positions, bad)

    def _give_up(self, begun: Begun) -> None:
        """Leave a piece; a process that is at it already may write to its place until it is done."""
        begun.future.cancel()
        if begun.place is not None:
            place = begun.place
            begun.future.add_done_callback(lambda _: self.free.append(place))

    def _expect(self, images: Images) -> None:
        """Make the pieces of a list the next ones, which they are already if it is the one that was to come."""
        if not self.pending and not self.queue:
            self._load()
        following = self.pending[0] if self.pending else self.queue[0] if self.queue else None
        if following is not None and following[0] == images:
            return
        for begun in self.pending:
            self._give_up(begun)
        self.pending.clear()
        self.queue.clear()
        self._enqueue(images)

    def _enqueue(self, images: Images) -> None:
        self.queue.extend((images, piece) for piece in images.pieces(batch_size=self.batch_size))

    def _load(self) -> bool:
        """Queue the next list that is to come; False if there is none."""
        images = next(self.coming, None)
        if images is not None:
            self._enqueue(images)
        return images is not None

    def _begin(self) -> None:
        """Have as many pieces under way as may be."""
        assert self.pool is not None
        while len(self.pending) < self.most and (self.queue or self._load()):
            images, piece = self.queue.popleft()
            # The one freed last, whose memory is taken already.
            place = self.free.pop() if self.places is not None and self.free else None
            self.pending.append(Begun(images, self.pool.submit(_decoded, piece, place), place))

    def close(self) -> None:
        """End the processes."""
        if self.pool is not None and self.alive is not None:
            self.alive.close()
            self.pool.shutdown(cancel_futures=True)
        if self.places is not None:
            self.places.close()


def _started(
    decode: Decode, places: Places | None, *, workers: int
) -> tuple[ProcessPoolExecutor | None, Connection | None]:
    """Worker processes, and the end of a pipe whose closing ends them; none where they cannot be started."""
    try:
        ending, alive = multiprocessing.Pipe(duplex=False)
        pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(decode, places, ending, alive))
        # The first task starts the processes: here, where a failure is expected.
        pool.submit(os.getpid)
        return pool, alive
    except CANNOT_START as error:
        text = f"decoding in this process, which takes longer: no others can be started ({reason_of(error)})"
        print(text, file=sys.stderr)
        return None, None


_decode: Decode
_places: Places | None
"""What this process decodes and where it puts pixels, if it is a worker."""


def _begin(decode: Decode, places: Places | None, ending: Connection, alive: Connection) -> None:
    """Begin a worker. The main process answers the terminal's interrupts."""
    global _decode, _places
    _decode, _places = decode, places
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_memory()
    # One thread each: there are as many workers as cores.
    torch.set_num_threads(1)
    # A worker's own copy of this end would keep the pipe open when the main process was killed.
    alive.close()
    end_with(ending.recv_bytes)


Sent = tuple[Kept | np.ndarray, torch.dtype, list[int], dict[int, DataError]]
"""A batch as bytes; a tensor would be sent through /dev/shm."""


def _decoded(piece: Images, place: int | None) -> Sent:
    pixels, positions, bad = _decode(piece)
    raw = pixels.contiguous().view(torch.uint8).numpy()
    sent: Kept | np.ndarray = raw
    if _places is not None and place is not None:
        sent = _places.put(raw, place=place)
    return sent, pixels.dtype, positions, bad


def decoding_workers() -> int:
    """Number of decoding processes: ``$WSOUP_WORKERS``, else one per core, up to 16. No result depends on it."""
    text = os.environ.get("WSOUP_WORKERS", "")
    if not text:
        return min(16, cores())
    if not text.isdecimal() or int(text) > 1024:
        raise ParamsError(f"WSOUP_WORKERS is {text[:40]!r}, expected a number of processes, 0 to 1024")
    return int(text)
