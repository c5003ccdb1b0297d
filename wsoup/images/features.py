"""Image features of a list of files, by one encoder or several."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsoup.images.batches import batches
from wsoup.images.copies import Copies
from wsoup.images.decode import Picture
from wsoup.images.fast import fast_images
from wsoup.images.pixels import check_finite, encode_pixels, in_two_steps, side_that_is_enough
from wsoup.images.sharing import sharing_blocks
from wsoup.images.workers import Batch
from wsoup.runtime.progress import tick
from wsoup.towers.encoder import Encoder
from wsoup.towers.features import Rows

BATCHES_AHEAD = {"cuda": 1}
"""Batches that a kind of device computes while the features of the one before are fetched; a CPU has no use for any."""


@dataclass(frozen=True)
class Encoded:
    """Features of the images of a list that could be decoded.

    Attributes:
        features: (N, D) float32 of each encoder, L2-normalised; empty where no image could be decoded.
        positions: (N,) int64, positions of these images in the list.
        skipped: error text of each skipped image, by position.
        n_known: number of images that an earlier run encoded.
    """

    features: Mapping[str, Rows]
    positions: np.ndarray
    skipped: Mapping[int, str]
    n_known: int = 0


def encode_files(
    encoders: Mapping[str, Encoder],
    *,
    paths: Sequence[str | Picture],
    digests: Sequence[str | None] | None,
    batch_size: int,
    on_bad_image: str,
    fill: bool = False,
) -> Encoded:
    """Encode image files in order, each decoded once for all encoders; moves the current progress bar.

    Args:
        encoders: image towers by name, with the same preprocessing.
        paths: N files or pictures.
        digests: N content digests, which the files must still have, or None.
        batch_size: images in one forward pass, at most.
        on_bad_image: ``"stop"`` or ``"skip"``, see `wsoup.images.batches.batches`.
        fill: fill up the last batch.

    Raises:
        ChangedError: a file has changed since it was listed.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``.
        ModelError: the features of an image are not finite.
    """
    encoder = next(iter(encoders.values()))
    at_once = encoder.images_at_once(batch_size)
    to_pixels, to_floats = in_two_steps(encoder.preprocess)
    decoded = batches(
        paths,
        transform=to_pixels,
        batch_size=at_once,
        digests=digests,
        on_bad_image=on_bad_image,
        as_stored=encoder.as_stored,
        side=side_that_is_enough(encoder),
    )
    done = _Done(paths, features={name: [] for name in encoders})
    least = at_once if fill else 0
    # The features of a batch are fetched when the next one is under way, so that a device never waits for files.
    under_way: deque[tuple[Batch, dict[str, Tensor]]] = deque()
    ahead = BATCHES_AHEAD.get(encoder.device.type, 0)
    copies = Copies(encoder.device)
    with sharing_blocks([fast_images(encoder) for encoder in encoders.values()]):
        for batch in decoded:
            computed: dict[str, Tensor] = {}
            if batch.positions:
                # Bytes go to the device and become floats there: a quarter of the transfer.
                pixels = to_floats(copies.of(_filled(batch, least=least)))
                computed = {name: encode_pixels(each, pixels) for name, each in encoders.items()}
            under_way.append((batch, computed))
            if len(under_way) > ahead:
                done.add(*under_way.popleft())
        for each in under_way:
            done.add(*each)
    return done.encoded()


class _Done:
    """What is known of the first images of a list."""

    def __init__(self, paths: Sequence[str | Picture], *, features: dict[str, list[np.ndarray]]) -> None:
        self.paths = paths
        self.features = features
        self.positions: list[int] = []
        self.skipped: dict[int, str] = {}

    def add(self, batch: Batch, computed: Mapping[str, Tensor]) -> None:
        """Fetch the features of a batch, of which images beyond its own only fill it up."""
        files = [str(self.paths[i]) for i in batch.positions]
        for name, on_device in computed.items():
            features = on_device[: len(files)].cpu()
            check_finite(features, paths=files)
            self.features[name].append(features.numpy())
        self.positions += batch.positions
        self.skipped |= {i: error.args[0] for i, error in batch.bad.items()}
        tick(len(batch.positions) + len(batch.bad))

    def encoded(self) -> Encoded:
        joined = {name: np.concatenate(parts) for name, parts in self.features.items() if parts}
        # The type is said, because an empty list would become floats, which are no positions.
        return Encoded(joined, np.array(self.positions, dtype=np.int64), self.skipped)


def _filled(batch: Batch, *, least: int) -> Tensor:
    """The pixels of a batch with black images in place of bad ones, and up to `least` images."""
    n, *size = batch.pixels.shape
    missing = max(len(batch.bad), least - n)
    if missing <= 0:
        return batch.pixels
    black = batch.pixels.new_zeros(missing, *size)
    return torch.cat([batch.pixels, black])
