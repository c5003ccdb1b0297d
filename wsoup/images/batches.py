"""Batches of preprocessed images: worker processes decode the next ones while the model works on this one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from PIL import Image
from torch import Tensor

from wsoup.base.errors import ChangedError, DataError
from wsoup.images.decode import Picture, load_rgb
from wsoup.images.one_pool import decoders
from wsoup.images.workers import Batch, Images


@dataclass(frozen=True)
class _Decode:
    """How images become pixels; see `batches`."""

    transform: Callable[[Image.Image], Tensor] = field(compare=False)
    as_stored: bool
    side: int | None
    steps: tuple[object, ...]
    """Of the transform: each encoder has its own list of them, with the same steps inside."""

    def __call__(self, images: Images) -> Batch:
        pixels: dict[int, Tensor] = {}
        bad: dict[int, DataError] = {}
        for i, path in enumerate(images.paths):
            digest = images.digests[i] if images.digests else None
            try:
                image = load_rgb(path, digest=digest, as_stored=self.as_stored, side=self.side)
                pixels[i] = self.transform(image)
            except DataError as error:
                bad[i] = error
        stacked = torch.empty(0, 3, 1, 1)
        # `stack` takes no empty list, which a piece of bad images alone would be.
        if pixels:
            stacked = torch.stack(list(pixels.values()))
        return Batch(stacked, list(pixels), bad)


def batches(
    paths: Sequence[str | Picture],
    *,
    transform: Callable[[Image.Image], Tensor],
    batch_size: int,
    digests: Sequence[str | None] | None = None,
    on_bad_image: str = "stop",
    workers: int | None = None,
    as_stored: bool = False,
    side: int | None = None,
) -> Iterator[Batch]:
    """Decode and preprocess images in order, ahead of their use; see also `wsoup.images.workers.lasting`.

    Args:
        paths: N image files or pictures; if there is a picture, this process decodes all.
        transform: RGB image -> (3, H, W).
        batch_size: images per batch; the last one may be smaller.
        digests: N content digests that the files had when they were listed, or None.
        on_bad_image: ``"stop"`` raises DataError at the first file that cannot be decoded; ``"skip"`` reports it in
            `Batch.bad` and goes on. A changed file is always an error.
        workers: decoding processes; None means `decoding_workers`.
        as_stored, side: see `load_rgb`.

    Raises:
        ChangedError, DataError: as above.
        WsoupError: a decoding process was killed.
    """
    # A picture may still be read from a file that is open in this process.
    if any(isinstance(path, Picture) for path in paths):
        workers = 0
    steps = tuple(getattr(transform, "transforms", [transform]))
    decode = _Decode(transform, as_stored, side, steps)
    with decoders(decode, n=len(paths), batch_size=batch_size, workers=workers) as pool:
        start = 0
        pieces: list[Batch] = []
        for piece in pool.decoded(Images(paths, digests)):
            for error in piece.bad.values():
                if on_bad_image == "stop" or isinstance(error, ChangedError):
                    raise error
            pieces.append(piece)
            n = sum(len(piece.positions) + len(piece.bad) for piece in pieces)
            if n == min(batch_size, len(paths) - start):
                yield _joined(pieces, start=start)
                start += n
                pieces = []


def _joined(pieces: Sequence[Batch], *, start: int) -> Batch:
    """The batch of some pieces, the first of which begins at `start`."""
    positions: list[int] = []
    bad: dict[int, DataError] = {}
    for piece in pieces:
        positions += [start + i for i in piece.positions]
        bad |= {start + i: error for i, error in piece.bad.items()}
        start += len(piece.positions) + len(piece.bad)
    pixels = [piece.pixels for piece in pieces if piece.positions] or [pieces[0].pixels]
    return Batch(pixels[0] if len(pixels) == 1 else torch.cat(pixels), positions, bad)
