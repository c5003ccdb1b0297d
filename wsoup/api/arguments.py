"""Annotations and checks of what users pass: features, labels, texts, classifiers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, PlainValidator, SkipValidation
from torch import Tensor

from wsoup.base.arguments import Words, as_list
from wsoup.base.arrays import rows, tensor, unit_rows
from wsoup.base.class_names import checked_names, positions_by_name
from wsoup.base.errors import DataError, MismatchError, ParamsError, shown_value
from wsoup.core.soup import Soup

Labels = Annotated[ArrayLike, SkipValidation]
Features = Annotated[ArrayLike, PlainValidator(partial(unit_rows, name="features"))]
Pool = Annotated[Sequence[Words], BeforeValidator(as_list)]
Precision = Literal["fp32", "bf16", "fp16", "reference"]


def _texts_of_templates(value: Any) -> Any:
    """Templates as a list; ParamsError for what people take for one: the name of a list, or open_clip's functions."""
    if isinstance(value, str):
        raise ParamsError(
            f"templates is {shown_value(value)}; expected a list of templates, each with one {{}}: those of a file are "
            "Path(file).read_text().splitlines()"
        )
    values = as_list(value)
    if isinstance(values, Sequence) and values and callable(values[0]):
        raise ParamsError(
            "templates[0] is a function; expected text with one {}: [function('{}') for function in templates]"
        )
    return values


Templates = Annotated[Sequence[Words], BeforeValidator(_texts_of_templates)]
EncoderNames = Mapping[str, Words | None]
"""As open_clip names them."""
Tokenizer = Callable[[Sequence[str]], Tensor]


def names_of(labels: Labels, class_names: Sequence[str] | None) -> list[str]:
    """Class names in label order: those given, or the names among the labels, sorted.

    Raises:
        DataError: none are given, and labels are numbers.
    """
    if class_names is not None:
        return list(class_names)
    values = as_list(labels)
    if isinstance(values, Sequence) and values and all(isinstance(value, str) for value in values):
        return checked_names(sorted({*values}))
    raise DataError("class_names is missing, and labels are not names; give class_names= in label order")


def are_names(labels: Labels) -> bool:
    """Whether any label is a text."""
    values = as_list(labels)
    return isinstance(values, Sequence) and any(isinstance(value, str) for value in values)


def checked_labels(
    labels: Labels, *, n_images: int, class_names: Sequence[str], whose: str = "class_names", step: str | None = None
) -> Tensor:
    """Labels, given as whole numbers or class names, as (N,) int64.

    Args:
        labels: of the images.
        n_images: N.
        class_names: C names in label order.
        whose: what these names are, for messages.
        step: what to do about a label that is not among them, if not to give `class_names`.

    Raises:
        DataError: not one label per image, not whole numbers, or outside of the class names.
    """
    if labels is None:
        raise DataError("labels is None; expected one for each image: whole numbers from 0, or class names")
    values = as_list(labels)
    if are_names(values):
        numbers_of = positions_by_name(class_names)
        # A list such as ["cat", 3] is neither of names nor of numbers.
        unknown = [value for value in values if not isinstance(value, str) or value not in numbers_of]
        if unknown:
            raise DataError(
                f"labels holds {shown_value(unknown[0])}, which is not among the {len(class_names)} {whose}; "
                f"{step or 'give class_names= in label order'}"
            )
        for name in dict.fromkeys(values):
            if len(numbers_of[name]) > 1:
                first, second, *_ = numbers_of[name]
                raise DataError(
                    f"labels holds {shown_value(name)}, which classes {first} and {second} of class_names are both "
                    "called; give labels as numbers, or the classes different names"
                )
        labels = [numbers_of[name][0] for name in values]
    y = tensor(labels, name="labels")
    # Whole numbers from a table with missing cells elsewhere, or from NumPy's default.
    if y.is_floating_point() and bool(((y == y.round()) & (y.abs() < 2**53)).all()):
        y = y.long()
    is_whole = not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
    if y.shape != (n_images,) or not is_whole:
        raise DataError(
            f"labels has shape {tuple(y.shape)} and holds {y.dtype}; expected ({n_images},), for each image a whole "
            "number from 0 or a class name"
        )
    y = y.long()
    outside = (y < 0) | (y >= len(class_names))
    if outside.any():
        first = int(outside.nonzero()[0])
        raise DataError(
            f"labels[{first}] is {int(y[first])}, outside of the {len(class_names)} {whose}, which count from 0 to "
            f"{len(class_names) - 1}; correct the labels or the list of names"
        )
    return y


def checked_classifier(classifier: object, *, n_features: int, name: str = "classifier") -> Tensor:
    """Class weights (D, C) as (C, D) float32, on their device and not normalised.

    Raises:
        MismatchError: another size than the images' features.
        DataError: no array, NaN, infinity, or a class whose weights are all zeros.
    """
    if isinstance(classifier, Soup):
        raise DataError(f"{name} is a soup; expected its class weights (D, C): soup.classifier(class_names=, ...)")
    if classifier is None or isinstance(classifier, str):
        raise DataError(f"{name} is {shown_value(classifier)}; expected class weights (D, C), as of soup.classifier()")
    if callable(getattr(classifier, "predict", None)):
        raise DataError(
            f"{name} is {type(classifier).__name__}; expected class weights (D, C), as of soup.classifier()"
        )
    weights = tensor(classifier, name=name)
    has_features = weights.dim() == 2 and weights.shape[0] == n_features
    if not has_features or not weights.shape[1]:
        raise MismatchError(f"{name} has shape {tuple(weights.shape)}; expected ({n_features}, C), features by classes")
    return rows(weights.T, name=f"{name}.T", step="make it again", nonzero=True)
