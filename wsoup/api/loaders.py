"""Images that a torch Dataset or DataLoader gives, or a tensor of them, as batches of pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from wsoup.base.errors import DataError, ParamsError, shown_value
from wsoup.images.decode import Picture, load_rgb

Loaded = DataLoader | Dataset | Tensor
"""Images that are preprocessed already, with or without labels; a Dataset may also hold Pillow images."""
KEYS = ("image", "pixel_values", "images")
"""Names of the images in an item or a batch that is a dict."""


def count(images: Loaded) -> int | None:
    """How many images there are; None if nobody knows."""
    if isinstance(images, DataLoader):
        images = images.dataset
    try:
        return len(images)  # type: ignore[arg-type]
    except TypeError:  # of an IterableDataset
        return None


def pixels_of(
    images: Loaded, *, preprocess: Callable[[Image.Image], Tensor] | None, batch_size: int
) -> Iterator[Tensor]:
    """Batches (B, 3, H, W) in order; a DataLoader decides their size itself.

    Raises:
        DataError: a DataLoader that shuffles, or something that holds no images.
        ParamsError: Pillow images without `preprocess`.
    """
    if isinstance(images, DataLoader):
        _check_order(images)
        for batch in images:
            yield _checked(_first(batch), n_axes=4)
        return
    dataset = TensorDataset(_checked(images, n_axes=4)) if isinstance(images, Tensor) else images
    n_before = 0
    for items in DataLoader(dataset, batch_size=batch_size, collate_fn=list):
        batch = []
        for i, item in enumerate(items):
            batch.append(_pixels(_first(item), preprocess=preprocess, name=f"paths[{n_before + i}]"))
        n_before += len(items)
        yield torch.stack(batch)


def _check_order(loader: DataLoader[Any]) -> None:
    """Raise DataError for a DataLoader that shuffles: nobody could tell which row is of which image."""
    if isinstance(loader.sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler):
        raise DataError("paths is a DataLoader that shuffles, so its rows would fit no labels; set shuffle=False")


def _first(item: object) -> object:
    """The images of an item or a batch: itself, the first of a tuple such as (images, labels), or a dict's."""
    if isinstance(item, Mapping):
        for key in KEYS:
            if key in item:
                return item[key]
        raise DataError(f"paths gives a dict of {', '.join(map(str, item))}; expected one of {', '.join(KEYS)}")
    if isinstance(item, Sequence) and not isinstance(item, str) and item:
        return item[0]
    return item


def _pixels(image: object, *, preprocess: Callable[[Image.Image], Tensor] | None, name: str) -> Tensor:
    """One image as (3, H, W)."""
    if not isinstance(image, Image.Image):
        return _checked(image, n_axes=3)
    if preprocess is None:
        raise ParamsError("preprocess is None, and paths gives Pillow images; pass the model's preprocess=")
    return preprocess(load_rgb(Picture(image, name)))


def _checked(images: object, *, n_axes: int) -> Tensor:
    """Images or one image as a tensor of floats; DataError for anything else."""
    if isinstance(images, Tensor) and images.dim() == n_axes and images.is_floating_point():
        return images
    what = shown_value(images)
    if isinstance(images, Tensor):
        what = f"a tensor {tuple(images.shape)} of {images.dtype}"
    shape = {3: "(3, H, W)", 4: "(B, 3, H, W)"}[n_axes]
    raise DataError(f"paths gives {what}; expected preprocessed images {shape}, floats, alone or before their labels")
