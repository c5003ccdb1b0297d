"""Decoding and preprocessing of image files, robust to bad ones.

Every file becomes an upright RGB image: EXIF rotation is applied, palettes and CMYK are converted, 16-bit grey is
scaled to 8, transparency is laid over white. A file that cannot be decoded is named, with the reason. Decoding runs in
worker processes so that the next batch is ready while the model works on this one.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from wsoup.errors import DataError
from wsoup.files import read_bytes

FEW_IMAGES = 1024
"""Below this many images, starting worker processes takes longer than decoding."""


def load_rgb(path: str | Path) -> Image.Image:
    """Decode one image file, or one member of a tar file, as upright 8-bit RGB.

    Raises:
        DataError: missing, empty, truncated, not an image, or so large that it looks like a decompression bomb.
    """
    try:
        data = read_bytes(str(path))
        if not data:
            raise DataError(f"{path} is empty (0 bytes); replace or remove it")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large or odd files that decode all the same
            with Image.open(io.BytesIO(data)) as image:
                return _to_rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        kind = "an HTML page" if data.lstrip()[:1] == b"<" else "not an image that Pillow knows"
        raise DataError(f"{path} is {kind}; replace or remove it, or set embed.on_bad_image: skip") from None
    except Image.DecompressionBombError as error:
        raise DataError(f"{path} is too large to decode safely ({error}); shrink or remove it") from None
    except (OSError, SyntaxError, ValueError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path} cannot be decoded ({reason}); replace or remove it, or set embed.on_bad_image: skip"
        ) from None


def _to_rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB; 16-bit and float greys are scaled, transparency is laid over white."""
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        values = np.asarray(image, dtype=np.float64)
        top = 65535.0 if values.max(initial=0) > 255 else 255.0
        image = Image.fromarray((values * (255.0 / top)).clip(0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


class _Pixels(Dataset):
    """Preprocessed images by index; a bad file becomes its error, so that a worker process never dies of it."""

    def __init__(self, paths: Sequence[str], transform: Callable[[Image.Image], Tensor]) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor | None, str | None]:
        try:
            return self.transform(load_rgb(self.paths[index])), None
        except DataError as error:
            return None, str(error)


@dataclass(frozen=True)
class Batch:
    """One batch: the pixels of its good images, which of the asked-for images they are, and the bad ones.

    Attributes:
        pixels: (B, 3, H, W) float32.
        positions: (B,) int64, positions in the list of paths.
        bad: error text by position.
    """

    pixels: Tensor
    positions: Tensor
    bad: dict[int, str]


def batches(
    paths: Sequence[str],
    *,
    transform: Callable[[Image.Image], Tensor],
    batch_size: int,
    on_bad_image: str = "stop",
    workers: int | None = None,
) -> Iterator[Batch]:
    """Decode and preprocess images in order, ahead of their use.

    Args:
        paths: N image files.
        transform: RGB image -> (3, H, W) float32.
        batch_size: images in a batch, the last one may be smaller.
        on_bad_image: ``"stop"`` raises DataError at the first file that cannot be decoded; ``"skip"`` reports it in
            `Batch.bad` and goes on.
        workers: decoding processes; None reads ``$WSOUP_WORKERS``, else one per core but at most eight, and none for
            a handful of images.
    """
    if workers is None:
        workers = int(os.environ.get("WSOUP_WORKERS", min(8, os.cpu_count() or 1)))
    loader: DataLoader[Any] = DataLoader(
        _Pixels(paths, transform),
        batch_size=batch_size,
        num_workers=workers if len(paths) > FEW_IMAGES else 0,
        collate_fn=list,
        prefetch_factor=None if len(paths) <= FEW_IMAGES or not workers else 2,
    )
    start = 0
    for items in loader:
        bad = {start + i: error for i, (_, error) in enumerate(items) if error is not None}
        if bad and on_bad_image == "stop":
            raise DataError(next(iter(bad.values())))
        good = [(start + i, pixels) for i, (pixels, _) in enumerate(items) if pixels is not None]
        yield Batch(
            pixels=torch.stack([pixels for _, pixels in good]) if good else torch.empty(0, 3, 1, 1),
            positions=torch.tensor([i for i, _ in good], dtype=torch.int64),
            bad=bad,
        )
        start += len(items)
