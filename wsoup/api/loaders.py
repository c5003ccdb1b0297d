"""Images that a torch Dataset or DataLoader gives, or a tensor of them, as batches of pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
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


def known_length(images: Loaded) -> int | None:
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
        DataError: a DataLoader whose order is not that of its dataset, or something that holds no images.
        ParamsError: Pillow images without `preprocess`.
    """
    if isinstance(images, DataLoader):
        _check_order(images)
        n_given = 0
        for batch in images:
            pixels = _checked(_first(batch), n_axes=4)
            n_given += len(pixels)
            yield pixels
        # Its collate_fn may leave out images that cannot be read. A stream may not know its length, and an item of a
        # dataset without batches is a batch itself.
        is_counted = images.batch_sampler is not None and not isinstance(images.dataset, IterableDataset)
        n_images = known_length(images)
        if is_counted and n_images not in (None, n_given):
            raise DataError(
                f"paths is a DataLoader that gives {n_given:,} images of a dataset of {n_images:,}, so nobody can tell "
                "which row is of which image: pass its dataset instead, encode_images(loader.dataset, ...)"
            )
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
    """Raise DataError for a DataLoader whose order is not known to be its dataset's: which row would be of which image?

    Only what torch itself makes without ``shuffle`` is known: a sampler of one's own, of batches or of several
    processes may go in any order.
    """
    why = _unknown_order(loader)
    if why:
        raise DataError(
            f"paths is a DataLoader {why}, so nobody can tell which row is of which image: pass its dataset instead, "
            "encode_images(loader.dataset, ...)"
        )


def _unknown_order(loader: DataLoader[Any]) -> str:
    """Why a loader's order is not known; "" if it is."""
    if type(loader).__iter__ is not DataLoader.__iter__:
        return f"of a class of its own ({type(loader).__name__})"
    if isinstance(loader.dataset, IterableDataset):
        if loader.num_workers > 1:
            return f"of a stream in {loader.num_workers} workers, which mix it"
        return ""
    if isinstance(loader.sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler):
        return "that shuffles"
    if type(loader.sampler) is not SequentialSampler:
        return f"with a sampler of its own ({type(loader.sampler).__name__})"
    batches: Any = loader.batch_sampler
    # Without batches of its own (batch_size=None) there is no sampler of batches.
    if batches is not None:
        if type(batches) is not BatchSampler or type(batches.sampler) is not SequentialSampler:
            return f"with a sampler of batches of its own ({type(batches).__name__})"
        if batches.drop_last and len(batches.sampler) % batches.batch_size:
            return "that drops the last images (drop_last)"
    if not getattr(loader, "in_order", True):
        return "with in_order=False"
    return ""


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
