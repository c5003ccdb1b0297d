"""What users pass: arrays, names, texts and files, validated, and models in memory, with the features that they give.

A model is any object with `encode_text` or `encode_image`. open_clip's models take the fast text path; for all others
`encode_text` is called.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL import Image
from pydantic import BeforeValidator, Field, PlainValidator, SkipValidation
from torch import Tensor, nn

from wsoup.base.arguments import Flag, Whole, Words, at_the_door, listed
from wsoup.base.errors import DataError, MismatchError, ParamsError, one_line, shown_value
from wsoup.core.arrays import rows, tensor, unit_rows
from wsoup.images.decode import BadImageError, Picture
from wsoup.images.features import encode_files
from wsoup.runtime.process import kept_memory
from wsoup.runtime.work import counting, showing
from wsoup.texts.models import check_has, check_texts, matrix_from, output_of
from wsoup.towers.encoder import AUTOCAST, Encoder, encoder_id, preprocessing_of


def _image(value: object) -> str | Image.Image:
    if isinstance(value, Image.Image):
        return value
    if not isinstance(value, str | os.PathLike) or os.path.isdir(value):
        raise ValueError("expected an image file, one of sorted(Path(folder).rglob('*.jpg')), or a Pillow image")
    return os.fspath(value)


Labels = Annotated[ArrayLike, SkipValidation]
Features = Annotated[ArrayLike, PlainValidator(partial(unit_rows, name="features"))]
Pool = Annotated[Sequence[Words], BeforeValidator(listed)]
Photos = Annotated[
    Sequence[Annotated[str | os.PathLike[str] | Image.Image, PlainValidator(_image)]],
    BeforeValidator(listed),
    Field(min_length=1),
]
"""Image files, Pillow images, or both."""
Precision = Literal["fp32", "bf16", "fp16", "reference"]
EncoderNames = Mapping[str, Words | None]
"""As open_clip names them."""
Tokenizer = Callable[[Sequence[str]], Tensor]


def checked_labels(labels: Labels, *, n_images: int, class_names: Sequence[str]) -> Tensor:
    """Labels, given as whole numbers or class names, as (N,) int64.

    Raises:
        DataError: not one label per image, not whole numbers, or outside of the class names.
    """
    values = listed(labels)
    if isinstance(values, Sequence) and any(isinstance(value, str) for value in values):
        number_of = {name: number for number, name in enumerate(class_names)}
        unknown = [value for value in values if not isinstance(value, str) or value not in number_of]
        if unknown:
            raise DataError(
                f"labels holds {shown_value(unknown[0])}, which is not among the {len(class_names)} class_names; give "
                "class_names= in label order"
            )
        labels = [number_of[name] for name in values]
    y = tensor(labels, name="labels")
    if y.shape != (n_images,) or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise DataError(
            f"labels has shape {tuple(y.shape)} and holds {y.dtype}; expected ({n_images},), for each image a whole "
            "number from 0 or a class name"
        )
    y = y.long()
    outside = (y < 0) | (y >= len(class_names))
    if outside.any():
        first = int(outside.nonzero()[0])
        raise DataError(
            f"labels[{first}] is {int(y[first])}, outside of the {len(class_names)} class_names, which count from 0 to "
            f"{len(class_names) - 1}; correct the labels or the list of names"
        )
    return y


def checked_classifier(classifier: object, *, n_features: int, name: str = "classifier") -> Tensor:
    """Class weights (D, C) as (C, D) float32, on their device and not normalised.

    Raises:
        MismatchError: another size than the images' features.
        DataError: no array, NaN, infinity, or a class whose weights are all zeros.
    """
    weights = tensor(classifier, name=name)
    if weights.dim() != 2 or weights.shape[0] != n_features or not weights.shape[1]:
        raise MismatchError(f"{name} has shape {tuple(weights.shape)}; expected ({n_features}, C), features by classes")
    return rows(weights.T, name=f"{name}.T", step="make it again", nonzero=True)


@contextmanager
def at_work(model: object, *, bars: bool) -> Iterator[None]:
    """Put the model in eval mode within, and show progress bars if `bars`; restored afterwards."""
    module = as_module(model)
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with showing(bars=bars), kept_memory():
            yield
    finally:
        for part in training:
            part.training = True


def as_module(model: object) -> nn.Module:
    """The model, or the modules that an object of another type wraps."""
    if isinstance(model, nn.Module):
        return model
    attributes = getattr(model, "__dict__", {})
    return nn.ModuleDict({name: part for name, part in attributes.items() if isinstance(part, nn.Module)})


def device_of(model: object) -> torch.device:
    """Device of the model's weights; the CPU for a model without weights."""
    return next((weight.device for weight in as_module(model).parameters()), torch.device("cpu"))


def in_memory(
    model: Any,
    *,
    tokenizer: Tokenizer | None = None,
    preprocess: Callable[[Image.Image], Tensor] | None = None,
    names: Mapping[str, str | None] | None = None,
    precision: str,
) -> Encoder:
    """The encoder of a model in memory.

    Args:
        model: the model, on its device.
        tokenizer, preprocess: None if only images, or only texts, are encoded.
        names: `model` and `pretrained` as open_clip names them, so that others can load the encoder by its id
            (default: the model's `name`, or that of its class).
        precision: of the matrix products.

    Raises:
        ModelError: it does not encode texts.
        ParamsError: another key in `names`.
    """
    names, module, device = names or {}, as_module(model), device_of(model)
    if unknown := sorted({*names} - {"model", "pretrained"}):
        raise ParamsError(f"encoder has {unknown[0]!r}; expected model and pretrained, as open_clip names them")
    if tokenizer is not None:
        check_texts(model, tokenizer, device=device)
    identity = encoder_id(
        module,
        tokenizer=tokenizer or _not_given,
        model_name=names.get("model") or getattr(model, "name", None) or type(model).__name__,
        pretrained=names.get("pretrained"),
        precision=precision,
    )
    return Encoder(
        model=model,
        tokenizer=tokenizer or _not_given,
        preprocess=preprocess or _not_given,
        id=identity if any(True for _ in module.parameters()) else {**identity, "weights": None},
        preprocessing=preprocessing_of(model),
        device=device,
        dtype=AUTOCAST[precision],
    )


def _not_given(_: object) -> Tensor:
    return torch.empty(0)


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
    with at_work(model, bars=progress):
        check_has(model, "encode_image")  # first, since model and preprocess may be swapped
        grey, device = Image.new("RGB", (60, 40), "grey"), device_of(model)
        pixels = output_of("preprocess", lambda: preprocess(grey)[None].to(device))
        matrix_from("model.encode_image", lambda: model.encode_image(pixels), n=1)
        encoder = in_memory(model, preprocess=preprocess, precision=precision)
        with counting(label="encode images", total=len(paths), initial=0, unit="image"):
            try:
                bad = "skip" if on_bad_image == "nan" else "stop"
                embedded = encode_files(
                    {"model": encoder}, paths=images, digests=None, batch_size=batch_size, on_bad_image=bad
                )
            except BadImageError as error:  # whose next step is a param
                raise DataError(f'{error.args[0]}; replace or remove it, or pass on_bad_image="nan"') from None
    if not len(embedded.positions):
        raise DataError(one_line(f"none of the {len(paths)} images could be decoded; the first: {embedded.skipped[0]}"))
    encoded = embedded.features["model"][:]
    features = np.full((len(paths), encoded.shape[1]), np.nan, dtype=np.float32)
    features[embedded.positions] = encoded
    return torch.from_numpy(features)
