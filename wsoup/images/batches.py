"""Batches of preprocessed images: worker processes decode the next ones while the model works on this one."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from PIL import Image
from torch import Tensor

from wsoup.base.errors import ChangedError, DataError
from wsoup.images.decode import Picture, load_rgb
from wsoup.images.workers import Batch, ahead, decoding_workers

FEW_IMAGES = 512
"""Below this many images, starting worker processes takes longer than decoding."""


def _decode(
    paths: Sequence[str | Picture],
    digests: Sequence[str | None] | None,
    transform: Callable[[Image.Image], Tensor],
    batch_size: int,
    as_stored: bool,
    side: int | None,
    number: int,
) -> Batch:
    """Batch `number` of the images."""
    pixels: dict[int, Tensor] = {}
    bad: dict[int, DataError] = {}
    start = number * batch_size
    for i in range(start, min(start + batch_size, len(paths))):
        digest = digests[i] if digests else None
        try:
            image = load_rgb(paths[i], digest=digest, as_stored=as_stored, side=side)
            pixels[i] = transform(image)
        except DataError as error:
            bad[i] = error
    stacked = torch.empty(0, 3, 1, 1)
    # `stack` takes no empty list, which a batch of bad images alone would be.
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
    """Decode and preprocess images in order, ahead of their use.

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
    if workers is None:
        workers = decoding_workers()
    # A picture may still be read from a file that is open in this process.
    if len(paths) <= FEW_IMAGES or any(isinstance(path, Picture) for path in paths):
        workers = 0
    n_batches = math.ceil(len(paths) / batch_size)
    decode = partial(_decode, paths, digests, transform, batch_size, as_stored, side)
    for batch in ahead(decode, n=n_batches, workers=workers):
        for error in batch.bad.values():
            if on_bad_image == "stop" or isinstance(error, ChangedError):
                raise error
        yield batch
