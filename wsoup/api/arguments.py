"""Validated arguments of the public functions: features, labels, class names, texts, files (`wsoup.base.arguments`)."""

import os
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from PIL.Image import Image
from pydantic import AfterValidator, BeforeValidator, PlainValidator, ValidationInfo
from torch import Tensor

from wsoup.base.arguments import Words, listed, name_of, ordered
from wsoup.base.errors import DataError, MismatchError, shown_value
from wsoup.core.arrays import array, nonzero_rows, tensor, unit_rows
from wsoup.core.prompts import bare
from wsoup.search.rank.pools import unique


def checked_names(class_names: Any) -> list[str]:
    """Class names in label order: (C,) strings, each once, none empty.

    Raises:
        DataError: a single string, no names, a name that is not text, empty or a duplicate.
    """
    names = listed(class_names, name="class_names")
    if not names:
        raise DataError("class_names is empty; expected one name for each label")
    for label, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"class_names[{label}] is {shown_value(name)}; expected a name to put into a prompt")
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
            raise DataError(f"class_names[{label}], {shown_value(name)}, holds a control character; use plain text")
    duplicate, count = max(Counter(names).items(), key=lambda item: item[1])
    if count > 1:
        raise DataError(f"class_names holds {shown_value(duplicate)} {count} times; give each label a name of its own")
    return names


def checked_labels(labels: Any, *, n_images: int, class_names: Sequence[str]) -> Tensor:
    """Labels, given as whole numbers or class names, as (N,) int64.

    Raises:
        DataError: not one label per image, not whole numbers, or outside of the class names.
    """
    if not isinstance(labels, Tensor):
        labels = array(labels, name="labels").copy()  # an array of pandas is read-only
        if labels.ndim == 1 and labels.dtype.kind in "UOT":
            values = labels.tolist()
            are_numbers = all(type(label) is int for label in values)  # pandas also has numbers as objects
            labels = values if are_numbers else [_label(name, class_names) for name in values]
    y = tensor(labels, name="labels")
    if y.dim() != 1 or len(y) != n_images:
        raise DataError(f"labels has shape {tuple(y.shape)}; expected ({n_images},), one label for each image")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise DataError(f"labels holds {y.dtype}; expected whole numbers from 0, or class names")
    y = y.long()
    outside = (y < 0) | (y >= len(class_names))
    if outside.any():
        first = int(outside.nonzero()[0])
        raise DataError(
            f"labels[{first}] is {int(y[first])}, outside of the {len(class_names)} class_names "
            f"(0 to {len(class_names) - 1}); correct the label or the list of names"
        )
    return y


def _label(name: Any, class_names: Sequence[str]) -> int:
    if not isinstance(name, str) or name not in class_names:
        not_given = class_names == [str(label) for label in range(len(class_names))]
        step = "; give class_names= in label order" if not_given else ""
        raise DataError(
            f"labels holds {shown_value(name)}, which is not among the {len(class_names)} class_names{step}"
        )
    return class_names.index(name)


def checked_classifier(classifier: Any, *, n_features: int, name: str = "classifier") -> Tensor:
    """Class weights (D, C) as (C, D) float32, on their device and not normalised.

    Raises:
        MismatchError: another size than the images' features.
        DataError: NaN, infinity, or a class whose weights are all zeros.
    """
    weights = tensor(classifier, name=name)
    if weights.dim() != 2 or weights.shape[0] != n_features or not weights.shape[1]:
        raise MismatchError(f"{name} has shape {tuple(weights.shape)}; expected ({n_features}, C), features by classes")
    return nonzero_rows(weights.T, name=f"{name}.T", step="make it again")


def _pool(texts: Sequence[str], info: ValidationInfo) -> list[str]:
    return unique([bare(text) for text in texts], origin=name_of(info))


def _photos(paths: Sequence[str | os.PathLike[str] | Image]) -> list[str | Image]:
    if not paths:
        raise DataError("paths is empty; expected image files")
    return [path if isinstance(path, Image) else os.fspath(path) for path in paths]


Names = Annotated[Sequence[str], PlainValidator(checked_names)]
Features = Annotated[Any, PlainValidator(partial(unit_rows, name="features"))]
Pool = Annotated[Sequence[Words], BeforeValidator(ordered), AfterValidator(_pool)]
"""Bare candidates, in order, without duplicates."""
Photos = Annotated[Sequence[str | os.PathLike[str] | Image], BeforeValidator(ordered), AfterValidator(_photos)]
"""Image files, Pillow images, or both."""
Precision = Literal["fp32", "bf16", "fp16", "reference"]
EncoderNames = Mapping[str, Words | None]
"""As open_clip names them."""
