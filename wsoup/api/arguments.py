"""What a caller hands in, checked at the door: features, labels, class names, texts. Errors are one line each."""

from __future__ import annotations

import os
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsoup.core.errors import DataError, ParamsError
from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.search.rank.pools import unique

NORM_TOLERANCE = 1e-3
"""A feature whose length is that near to 1 is left as it is; half precision is off by no more."""
SHOWN = 3


def checked_names(class_names: Iterable[str]) -> list[str]:
    """Class names in label order: (C,) strings, each once, none empty.

    Raises:
        DataError: a single string, no names, a name that is no text, an empty one, or one twice.
    """
    if isinstance(class_names, str):
        raise DataError(f"class_names is one string, {class_names!r}; expected a list of names in label order")
    names = list(class_names)
    if not names:
        raise DataError("class_names is empty; expected one name for each label")
    for label, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"class_names[{label}] is {name!r}; expected a name to put into a prompt")
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
            raise DataError(f"class_names[{label}], {name[:80]!r}, holds a control character; name it in plain text")
    twice = {name: count for name, count in Counter(names).items() if count > 1}
    if twice:
        first = next(iter(twice))
        raise DataError(f"class_names holds {first!r} {twice[first]} times; give each label a name of its own")
    return names


def checked_features(features: Any, *, name: str = "features") -> Tensor:
    """Image features as (N, D) float32 of length 1, on the CPU or where they were.

    Features of another length are normalised, with a warning.

    Raises:
        DataError: not two axes, no numbers, no rows; a row with NaN or infinity, or of zeros alone.
    """
    x = _tensor(features, name=name)
    if x.dim() != 2 or not len(x):
        raise DataError(
            f"{name} has shape {tuple(x.shape)}; expected (N, D), one row of image features for each of N images"
        )
    if not x.is_floating_point():
        raise DataError(f"{name} holds {x.dtype}; expected floats, as model.encode_image gives them")
    x = x.detach().float()
    broken = (~torch.isfinite(x)).any(dim=1)
    if broken.any():
        raise DataError(f"{name} has NaN or infinity in rows {_some(broken)}; leave these images out, labels as well")
    lengths = x.norm(dim=1)
    if (lengths == 0).any():
        raise DataError(f"{name} holds nothing but zeros in rows {_some(lengths == 0)}; leave these images out")
    off = (lengths - 1).abs().max().item()
    if off <= NORM_TOLERANCE:
        return x
    said = f"{name} are not of length 1 (off by up to {off:.2g}): they are normalised, as cosines need it"
    warnings.warn(said, stacklevel=_caller())
    return normalize(x)


def checked_labels(labels: Any, *, n_images: int, class_names: Sequence[str]) -> Tensor:
    """Labels as (N,) int64; given as whole numbers, or as class names.

    Raises:
        DataError: another number of them than images; not whole numbers; outside of the class names.
    """
    if isinstance(labels, (list, tuple, np.ndarray)) and len(labels) and isinstance(labels[0], str):
        position = {name: label for label, name in enumerate(class_names)}
        unknown = next((name for name in labels if name not in position), None)
        if unknown is not None:
            raise DataError(f"labels holds {unknown!r}, which is not among the {len(class_names)} class_names")
        labels = [position[name] for name in labels]
    y = _tensor(labels, name="labels")
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


def checked_source(features: Any, labels: Any, *, class_names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Features and labels that a search can work with: images of two classes at least.

    Raises:
        DataError: as the parts; or the images are all of one class.
    """
    x = checked_features(features)
    y = checked_labels(labels, n_images=len(x), class_names=class_names)
    if len(y.unique()) < 2:
        raise DataError(
            f"{len(y)} images of {len(y.unique())} class are too few: a search needs images of two classes or more, "
            "and a handful of each to find more than noise"
        )
    return x, y


def checked_texts(texts: Iterable[str], *, name: str) -> list[str]:
    """Candidates as a pool holds them: bare, in order, each once.

    Raises:
        PoolError: none, or one twice.
        ParamsError: a single string.
    """
    if isinstance(texts, str):
        raise ParamsError(f"{name} is one string, {texts[:40]!r}; expected a list of texts")
    return unique([bare(text) for text in texts], origin=name)


def checked_seed(seed: Any) -> int:
    """A seed as params.yaml takes it: a whole number from 0; else ParamsError."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise ParamsError(f"seed is {seed!r}; expected a whole number, 0 or more")
    return int(seed)


def checked_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Image files as strings.

    Raises:
        DataError: a single path, or none.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise DataError(f"paths is one path, {os.fspath(paths)!r}; expected a list of image files")
    files = [os.fspath(path) for path in paths]
    if not files:
        raise DataError("paths is empty; expected image files")
    return files


def _caller() -> int:
    """The stack level of the code that called wsoup, seen from the caller of this function."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("wsoup", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level


def _tensor(value: Any, *, name: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.from_numpy(np.ascontiguousarray(np.asarray(value)))
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{name} is not an array of numbers ({reason}); expected a NumPy array or a torch tensor"
        ) from None


def _some(rows: Tensor) -> str:
    """The first of the rows that are True, and how many more there are."""
    chosen = rows.nonzero()[:, 0].tolist()
    more = f" and {len(chosen) - SHOWN} more" if len(chosen) > SHOWN else ""
    return ", ".join(map(str, chosen[:SHOWN])) + more
