"""Image files and images in memory to features."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from PIL import Image
from pydantic import BeforeValidator, Field, PlainValidator
from torch import Tensor

from wsoup.api.arguments import Precision
from wsoup.api.model import at_work, device_of, in_memory
from wsoup.base.arguments import Flag, Whole, at_the_door, listed
from wsoup.base.errors import DataError, one_line
from wsoup.images.decode import BadImageError, Picture
from wsoup.images.features import encode_files
from wsoup.runtime.progress import counting
from wsoup.texts.models import check_has, matrix_from, output_of


def _image(value: object) -> str | Image.Image:
    if isinstance(value, Image.Image):
        return value
    if not isinstance(value, str | os.PathLike) or os.path.isdir(value):
        raise ValueError("expected an image file, one of sorted(Path(folder).rglob('*.jpg')), or a Pillow image")
    return os.fspath(value)


def _listed(value: object) -> object:
    """One picture as a list of it, and what a generator yields."""
    if isinstance(value, Image.Image):
        return [value]
    if isinstance(value, Iterator):
        return list(value)
    return listed(value)


Photos = Annotated[
    Sequence[Annotated[str | os.PathLike[str] | Image.Image, PlainValidator(_image)]],
    BeforeValidator(_listed),
    Field(min_length=1),
]
"""Image files, Pillow images, or both."""


@at_the_door
def encode_images(
    paths: Photos,
    *,
    model: Any,
    preprocess: Callable[[Image.Image], Tensor],
    batch_size: Whole = 64,
    precision: Precision = "fp32",
    on_bad_image: Literal["stop", "nan"] = "stop",
    progress: Flag = True,
) -> Tensor:
    """Features of image files, as in the pipeline: upright RGB, decoded in other processes while the model works.

    Args:
        paths: N image files, Pillow images, or both, in a list or from a generator; or one Pillow image. If there is
            a Pillow image, this process decodes all.
        model: with `encode_image`; it is used in eval mode, on its own device.
        preprocess: RGB image -> (3, H, W) float32, the last value of `open_clip.create_model_and_transforms`.
        batch_size: images in one forward pass.
        precision: fp32, bf16, fp16 (autocast) or reference.
        on_bad_image: ``"stop"`` raises at the first file that cannot be decoded, ``"nan"`` makes its row NaN.
        progress: whether to show a progress bar.

    Returns:
        (N, D) float32 on the CPU, L2-normalised, in the order of `paths`.

    Raises:
        DataError: no files, a file that cannot be decoded (with its name and the reason), or none that can.
        ModelError: the model has no `encode_image`.
    """
    images: list[str | Picture] = []
    for i, path in enumerate(paths):
        if isinstance(path, Image.Image):
            images.append(Picture(path, f"paths[{i}]"))
        else:
            images.append(str(path))
    with at_work(model, bars=progress):
        check_has(model, "encode_image")  # first, since model and preprocess may be swapped
        grey = Image.new("RGB", (60, 40), "grey")
        device = device_of(model)
        pixels = output_of("preprocess", lambda: preprocess(grey)[None].to(device))
        matrix_from("model.encode_image", lambda: model.encode_image(pixels), n=1)
        encoder = in_memory(model, preprocess=preprocess, precision=precision)
        with counting(label="encode images", total=len(paths), initial=0, unit="image"):
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
