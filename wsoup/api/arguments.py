"""Validated arguments of the public functions: features, labels, class names, texts, files (`wsoup.base.arguments`)."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL.Image import Image
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SkipValidation, ValidationInfo
from torch import Tensor

from wsoup.base.arguments import Label, Words, at_the_door, name_of, ordered
from wsoup.base.errors import DataError, MismatchError, shown_value
from wsoup.core.arrays import rows, tensor, unit_rows
from wsoup.core.prompts import bare
from wsoup.search.rank.pools import unique


class TextModel(Protocol):
    """A model of texts, such as open_clip's."""

    def encode_text(self, tokens: Tensor, /) -> Tensor:
        """(P, context) -> (P, D)."""


def _each_once(names: list[str]) -> list[str]:
    duplicate, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"class_names holds {shown_value(duplicate)} {count} times; give each label a name of its own")
    return names


def _pool(texts: Sequence[str], info: ValidationInfo) -> list[str]:
    return unique([bare(text) for text in texts], origin=name_of(info))


def _no_arrays(paths: list[object]) -> list[object]:
    for i, path in enumerate(paths):
        if isinstance(path, (Tensor, np.ndarray)):
            raise DataError(f"paths[{i}] is an array; expected image files, or PIL.Image.fromarray(array)")
    return paths


def _photos(paths: Sequence[str | os.PathLike[str] | Image]) -> list[str | Image]:
    files = [path if isinstance(path, Image) else os.fspath(path) for path in paths]
    if not files:
        raise DataError("paths is empty; expected image files")
    if isinstance(files[0], str) and os.path.isdir(files[0]):
        step = f"sorted(pathlib.Path({files[0]!r}).rglob('*.jpg'))"
        raise DataError(f"paths[0] is a folder, {shown_value(files[0])}; expected its images, such as {step}")
    return files


Model = Annotated[TextModel, SkipValidation]
Classifier = Annotated[ArrayLike, SkipValidation]
Labels = Annotated[ArrayLike, SkipValidation]
Names = Annotated[Sequence[Label], BeforeValidator(ordered), Field(min_length=1), AfterValidator(_each_once)]
Features = Annotated[ArrayLike, PlainValidator(partial(unit_rows, name="features"))]
Pool = Annotated[Sequence[Words], BeforeValidator(ordered), AfterValidator(_pool)]
"""Bare candidates, in order, without duplicates."""
Photos = Annotated[
    Sequence[str | os.PathLike[str] | Image],
    BeforeValidator(_no_arrays),
    BeforeValidator(ordered),
    AfterValidator(_photos),
]
"""Image files, Pillow images, or both."""
Precision = Literal["fp32", "bf16", "fp16", "reference"]
EncoderNames = Mapping[str, Words | None]
"""As open_clip names them."""


@at_the_door
def checked_names(class_names: Names) -> list[str]:
    """Class names in label order: (C,) strings, each once, none blank; ParamsError or DataError otherwise."""
    return [*class_names]


def checked_labels(labels: ArrayLike, *, n_images: int, class_names: Sequence[str]) -> Tensor:
    """Labels, given as whole numbers or class names, as (N,) int64.

    Raises:
        DataError: not one label per image, not whole numbers, or outside of the class names.
    """
    values = labels.tolist() if hasattr(labels, "tolist") and not isinstance(labels, Tensor) else labels
    if isinstance(values, Sequence) and any(isinstance(value, str) for value in values):
        number_of = {name: number for number, name in enumerate(class_names)}
        unknown = [value for value in values if not isinstance(value, str) or value not in number_of]
        if unknown:
            not_given = [*class_names] == [str(label) for label in range(len(class_names))]
            step = "; give class_names= in label order" if not_given else ""
            among = f"which is not among the {len(class_names)} class_names{step}"
            raise DataError(f"labels holds {shown_value(unknown[0])}, {among}")
        labels = [number_of[name] for name in values]
    y = tensor(labels, name="labels")
    if y.dim() != 1 or len(y) != n_images:
        raise DataError(f"labels has shape {tuple(y.shape)}; expected ({n_images},), one label for each image")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise DataError(f"labels holds {y.dtype}; expected whole numbers from 0, or class names")
    y = y.long()
    outside = (y < 0) | (y >= len(class_names))
    if outside.any():
        first, from_one = int(outside.nonzero()[0]), int(y.min()) == 1 and int(y.max()) == len(class_names)
        step = "they seem to count from 1: subtract 1" if from_one else "correct the label or the list of names"
        raise DataError(
            f"labels[{first}] is {int(y[first])}, outside of the {len(class_names)} class_names "
            f"(0 to {len(class_names) - 1}); {step}"
        )
    return y


def checked_classifier(classifier: ArrayLike, *, n_features: int, name: str = "classifier") -> Tensor:
    """Class weights (D, C) as (C, D) float32, on their device and not normalised.

    Raises:
        MismatchError: another size than the images' features.
        DataError: NaN, infinity, or a class whose weights are all zeros.
    """
    if hasattr(classifier, "templates"):
        raise DataError(f"{name} is a soup; expected its class weights, soup.classifier(class_names=..., ...)")
    weights = tensor(classifier, name=name)
    if weights.dim() != 2 or weights.shape[0] != n_features or not weights.shape[1]:
        raise MismatchError(f"{name} has shape {tuple(weights.shape)}; expected ({n_features}, C), features by classes")
    return rows(weights.T, name=f"{name}.T", step="make it again", nonzero=True)
