"""Image files, images in memory and what torch loads to features."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from PIL import Image
from pydantic import BeforeValidator, Field, PlainValidator, ValidatorFunctionWrapHandler, WrapValidator
from torch import Tensor

from wsoup.api import loaders
from wsoup.api.arguments import Precision
from wsoup.api.loaders import Loaded
from wsoup.api.model import at_work, device_of, in_memory
from wsoup.base.arguments import Flag, Whole, as_list, at_the_door
from wsoup.base.errors import DataError, ParamsError, one_line
from wsoup.images.decode import BadImageError, Picture
from wsoup.images.features import encode_files
from wsoup.images.pixels import check_finite, dtype_of_pixels, encode_pixels
from wsoup.runtime.progress import counting, tick
from wsoup.texts.models import check_has, matrix_from, output_of
from wsoup.towers.encoder import Encoder, preprocessing_of
from wsoup.towers.kept import Kept, kept_with
from wsoup.towers.library import transforms


def _image(value: object) -> str | Image.Image:
    if isinstance(value, Image.Image):
        return value
    if isinstance(value, str | os.PathLike) and os.path.isdir(value):
        raise ValueError("it is a folder; list its files: sorted(Path(folder).rglob('*.jpg'))")
    if not isinstance(value, str | os.PathLike):
        raise ValueError("expected an image file, one of sorted(Path(folder).rglob('*.jpg')), or a Pillow image")
    return os.fspath(value)


def _listed(value: object) -> object:
    """One picture or file as a list of it, and what a generator yields."""
    if isinstance(value, Image.Image | str | os.PathLike):
        return [value]
    if isinstance(value, Iterator):
        return list(value)
    return as_list(value)


def _loaded_or(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """What torch loads as it is; all else is a list."""
    if isinstance(value, Loaded):
        return value
    return validate(value)


Photos = Annotated[
    Sequence[Annotated[str | Image.Image, PlainValidator(_image)]],
    BeforeValidator(_listed),
    Field(min_length=1),
    WrapValidator(_loaded_or),
]
"""Image files, Pillow images, or both; or what torch loads."""


@at_the_door
def encode_images(
    paths: Photos | Loaded,
    *,
    model: Any,
    preprocess: Callable[[Image.Image], Tensor] | None = None,
    batch_size: Whole = 64,
    precision: Precision = "fp32",
    on_bad_image: Literal["stop", "nan"] = "stop",
    progress: Flag = True,
) -> Tensor:
    """Features of images, as in the pipeline: upright RGB, decoded in other processes while the model works.

    Args:
        paths: N image files, Pillow images, or both, in a list or from a generator; or one of them. If there is
            a Pillow image, this process decodes all. Or a torch Dataset or DataLoader, or a tensor (N, 3, H, W), of
            images that are preprocessed already, alone or before their labels; a Dataset may also give Pillow images.
        model: with `encode_image`; it is used in eval mode, on its own device and in its own precision.
        preprocess: RGB image -> (3, H, W) float32, the last value of `open_clip.create_model_and_transforms`; None
            only for preprocessed images.
        batch_size: images in one forward pass (default 64); a DataLoader has its own.
        precision: fp32 (the default), bf16, fp16 (autocast) or reference.
        on_bad_image: ``"stop"`` (the default) raises at the first file that cannot be decoded, ``"nan"`` makes its row
            NaN. What torch loads always stops.
        progress: whether to show a progress bar (default True).

    Returns:
        (N, D) float32 on the CPU, L2-normalised, in the order of `paths`.

    Raises:
        DataError: no files, a file that cannot be decoded (with its name and the reason), or none that can; a
            DataLoader whose order is not known to be its dataset's, or that gives no images.
        ParamsError: files or Pillow images without `preprocess`.
        ModelError: the model has no `encode_image`.
    """
    with at_work(model, bars=progress):
        # First, since model and preprocess may be swapped.
        check_has(model, "encode_image")
        kept = kept_with(model)
        if preprocess is not None:
            _check_preprocess(preprocess, model=model, kept=kept)
        encoder = in_memory(model, preprocess=preprocess, precision=precision, kept=kept)
        if isinstance(paths, Loaded):
            with counting(label="encode images", total=loaders.known_length(paths), initial=0, unit="image"):
                return _encoded(loaders.pixels_of(paths, preprocess=preprocess, batch_size=batch_size), encoder=encoder)
        if preprocess is None:
            raise ParamsError("preprocess is None; pass the model's, as open_clip.create_model_and_transforms gives it")
        with counting(label="encode images", total=len(paths), initial=0, unit="image"):
            return _decoded(paths, encoder=encoder, batch_size=batch_size, on_bad_image=on_bad_image)


def _decoded(paths: Sequence[str | Image.Image], *, encoder: Encoder, batch_size: int, on_bad_image: str) -> Tensor:
    """Features (N, D) of files and Pillow images; NaN where one could not be decoded."""
    images: list[str | Picture] = []
    for i, path in enumerate(paths):
        if isinstance(path, Image.Image):
            images.append(Picture(path, f"paths[{i}]"))
        else:
            images.append(str(path))
    try:
        embedded = encode_files(
            {"model": encoder},
            paths=images,
            digests=None,
            batch_size=batch_size,
            on_bad_image="skip" if on_bad_image == "nan" else "stop",
        )
    except BadImageError as error:  # whose next step is a param
        raise DataError(f'{error.args[0]}; replace or remove it, or pass on_bad_image="nan"') from None
    if not len(embedded.positions):
        raise DataError(one_line(f"none of the {len(paths)} images could be decoded; the first: {embedded.skipped[0]}"))
    encoded = embedded.features["model"][:]
    features = np.full((len(paths), encoded.shape[1]), np.nan, dtype=np.float32)
    features[embedded.positions] = encoded
    return torch.from_numpy(features)


def _encoded(batches: Iterator[Tensor], *, encoder: Encoder) -> Tensor:
    """Features (N, D) of batches of pixels."""
    features: list[Tensor] = []
    n_before = 0
    for pixels in batches:
        encoded = output_of("model.encode_image", partial(encode_pixels, encoder, pixels)).cpu()
        check_finite(encoded, paths=[f"paths[{n_before + i}]" for i in range(len(encoded))])
        features.append(encoded)
        n_before += len(encoded)
        tick(len(encoded))
    if not features:
        raise DataError("paths holds no images")
    # A copy, since tensors of inference mode cannot be trained on.
    return torch.from_numpy(torch.cat(features).numpy().copy())


def _check_preprocess(preprocess: Callable[[Image.Image], Tensor], *, model: Any, kept: Kept) -> None:
    """Raise ModelError if preprocess and model do not fit together; warn if images are normalised otherwise."""
    grey = Image.new("RGB", (60, 40), "grey")
    device = device_of(model)
    pixels = output_of("preprocess", lambda: preprocess(grey)[None].to(device, dtype_of_pixels(model)))
    # What else the model depends on is its own; pixels of this shape were good before.
    kept.once(
        ("takes pixels", pixels.shape, pixels.dtype, pixels.device),
        lambda: matrix_from("model.encode_image", lambda: model.encode_image(pixels), n=1).shape,
    )
    own = preprocessing_of(model)
    for step in getattr(preprocess, "transforms", ()):
        if isinstance(step, transforms.Normalize) and own:
            same_mean = np.allclose(step.mean, own["mean"], atol=1e-4)
            same_std = np.allclose(step.std, own["std"], atol=1e-4)
            if not (same_mean and same_std):
                warnings.warn(
                    f"preprocess normalises with mean {list(step.mean)} and std {list(step.std)}, the model's config "
                    f"has {own['mean']} and {own['std']}; pass the preprocess that came with the model, unless its "
                    "weights need another",
                    stacklevel=2,
                )
