"""`wsoup.encode_images`: image features of files with a model in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wsoup.api.arguments import Photos, Precision
from wsoup.api.model import at_work, device_of, in_memory
from wsoup.base.arguments import Flag, Whole, at_the_door
from wsoup.base.errors import DataError, ModelError, one_line
from wsoup.images.decode import BadImageError, Picture
from wsoup.images.features import encode_files
from wsoup.runtime.progress import counting
from wsoup.texts.models import check_has, matrix_from, output_of


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
        paths: N image files, Pillow images, or both; if there is a Pillow image, this process decodes all.
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
    images = [
        Picture(path, f"paths[{i}]") if isinstance(path, Image.Image) else str(path) for i, path in enumerate(paths)
    ]
    with at_work(model, bars=progress), _own_next_step():
        check_has(model, "encode_image")  # first, since model and preprocess may be swapped
        pixels = _probe(preprocess)
        matrix_from("model.encode_image", lambda: model.encode_image(pixels.to(device_of(model))), n=1)
        encoder = in_memory(model, preprocess=preprocess, precision=precision)
        with counting(label="encode images", total=len(paths), initial=0, unit="image"):
            embedded = encode_files(
                {"model": encoder},
                paths=images,
                digests=None,
                batch_size=batch_size,
                on_bad_image="stop" if on_bad_image == "stop" else "skip",
            )
    if not len(embedded.positions):
        raise DataError(one_line(f"none of the {len(paths)} images could be decoded; the first: {embedded.skipped[0]}"))
    features = np.full((len(paths), embedded.features["model"].shape[1]), np.nan, dtype=np.float32)
    features[embedded.positions] = embedded.features["model"]
    return torch.from_numpy(features)


@contextmanager
def _own_next_step() -> Iterator[None]:
    """Give errors of images the next step of a caller of `encode_images`, instead of the pipeline's."""
    try:
        yield
    except BadImageError as error:
        raise DataError(f'{error.args[0]}; replace or remove it, or pass on_bad_image="nan"') from None


def _probe(preprocess: Callable[[Image.Image], Tensor]) -> Tensor:
    """A grey image, preprocessed: (1, 3, H, W); ModelError if that gives anything else."""
    pixels = output_of("preprocess", partial(preprocess, Image.new("RGB", (60, 40), "grey")))
    if not isinstance(pixels, Tensor) or pixels.dim() != 3 or pixels.is_meta or pixels.is_complex():
        kind = tuple(pixels.shape) if isinstance(pixels, Tensor) else type(pixels).__name__
        raise ModelError(f"preprocess gives {kind} for an image; expected a tensor (3, H, W)")
    return pixels[None]
