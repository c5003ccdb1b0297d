"""One pool of decoding processes for all lists of images that a stage encodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from wsoup.images.workers import Decode, Decoders, Images, decoding_workers

FEW_IMAGES = 512
"""Up to this many images, starting processes takes longer than decoding."""


class _Lasting:
    """What `lasting` keeps: the processes, once somebody has decoded."""

    def __init__(self, coming: Iterable[Images], *, n: int) -> None:
        self.coming = coming
        self.n = n
        self.decoders: Decoders | None = None


_lasting: ContextVar[_Lasting | None] = ContextVar("processes that decode for several lists", default=None)


@contextmanager
def lasting(coming: Iterable[Images], *, n: int) -> Iterator[None]:
    """Within the block, the same processes decode all lists of one preprocessing, and go on from one to the next.

    Args:
        coming: the lists, in the order in which they will be asked for.
        n: the number of images in all of them.
    """
    kept = _Lasting(coming, n=n)
    token = _lasting.set(kept)
    try:
        yield
    finally:
        _lasting.reset(token)
        if kept.decoders is not None:
            kept.decoders.close()


@contextmanager
def decoders(decode: Decode, *, n: int, batch_size: int, workers: int | None) -> Iterator[Decoders]:
    """The processes of `lasting`, or some for this block.

    Args:
        decode, batch_size: what they do; others are started where it is something else.
        n: the number of images that they are for, if not for those of `lasting`.
        workers: their number; None means `decoding_workers`.
    """
    kept = _lasting.get()
    if workers is None:
        workers = decoding_workers()
    if (kept.n if kept else n) <= FEW_IMAGES:
        workers = 0
    if kept is None:
        own = Decoders(decode, batch_size=batch_size, workers=workers)
        try:
            yield own
        finally:
            own.close()
        return
    last = kept.decoders
    if last is None or (last.decode, last.batch_size) != (decode, batch_size):
        if last is not None:
            last.close()
        kept.decoders = last = Decoders(decode, batch_size=batch_size, workers=workers, coming=kept.coming)
    yield last
