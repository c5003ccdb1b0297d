"""A head on disk: one safetensors file with everything in it, and checked as what may come from anywhere."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.files import regular_file
from wsoup.core.errors import DataError, MismatchError, MissingError, one_line

LARGEST = 1 << 32
"""Bytes of a head file."""
MOST_CLASSES = 1_000_000
LONGEST_NAME = 10_000
ARRAYS = {
    "classifier": ("f", 2),
    "bias": ("f", 1),
    "support": ("f", 2),
    "weights": ("f", 2),
    "confidences": ("f", 1),
    "right": ("b", 1),
    "temperature": ("f", 1),
    "threshold": ("f", 1),
}
"""Name -> kind of numbers (of NumPy's) and number of axes."""
PLAIN = ("kind", "template", "logit_scale", "n_correct", "n_images", "note")
"""Texts and numbers that a head says of itself."""
ABOUT = (*PLAIN, "setting", "class_names", "encoder", "soup")
"""All that it says of itself."""


def packed(arrays: Mapping[str, np.ndarray], *, about: Mapping[str, Any]) -> bytes:
    """A head file's content: arrays and what they are, with a checksum over both."""
    text = json.dumps(about, sort_keys=True, ensure_ascii=False)
    whole = {**arrays, "about": np.frombuffer(text.encode(), dtype=np.uint8)}
    return store.pack_arrays({**whole, "checksum": _checksum(whole)})


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `packed` holds: arrays of their types and shapes, finite, and values within bounds (but for the soup's).

    Raises:
        MissingError: no such file.
        MismatchError: damaged, or no head; the first thing that is wrong is named.
    """
    arrays = store.unpack_arrays(_bytes(path), origin=path)
    checksum = arrays.pop("checksum", np.zeros(0, dtype=np.uint8))
    if {*arrays} != {*ARRAYS, "about"} or arrays["about"].dtype != np.uint8:
        raise MismatchError(f"{one_line(path)} is no head: it holds other arrays than a head has")
    if not np.array_equal(checksum, _checksum(arrays)):
        raise MismatchError(f"{one_line(path)} is damaged: its checksum is not that of its content")
    about = _parsed(arrays.pop("about").tobytes(), origin=path)
    wrong = _wrong_values(about) or _wrong_arrays(arrays, n_classes=len(about["class_names"]))
    if wrong:
        raise MismatchError(f"{one_line(path)} is no head: {wrong}")
    return arrays, about


def _bytes(path: str | Path) -> bytes:
    try:
        if regular_file(str(path)).st_size > LARGEST:
            raise MismatchError(f"{one_line(path)} is no head: it has more than {LARGEST:,} bytes")
        return Path(path).read_bytes()
    except MissingError:
        raise MissingError(f"{one_line(path)} does not exist; heads are made by wsoup.fit_head") from None
    except (DataError, OSError) as error:
        raise MismatchError(f"{one_line(path)} is no head ({one_line(error, limit=200)})") from None


def _parsed(payload: bytes, *, origin: str | Path) -> dict[str, Any]:
    try:
        value = json.loads(payload.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MismatchError(f"{one_line(origin)} is no head ({one_line(error, limit=200)})") from None
    if not isinstance(value, dict) or not {*ABOUT} <= {*value}:
        raise MismatchError(f"{one_line(origin)} is no head: it does not say what it is")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _wrong_values(about: Mapping[str, Any]) -> str:
    """What is wrong with what a head says of itself, "" where nothing is."""
    for key in ("kind", "template", "note"):
        if not _is_text(about[key]):
            return f"{key} is not as expected, a text"
    names = about["class_names"]
    if not isinstance(names, list) or not 2 <= len(names) <= MOST_CLASSES or not all(map(_is_text, names)):
        return "class_names is not as expected, two names or more"
    if len({*names}) < len(names):
        return "class_names holds a name twice"
    encoder = about["encoder"]
    if not isinstance(encoder, dict) or not all(_is_text(text) for text in encoder.values() if isinstance(text, str)):
        return "encoder is not as expected, what its features are of"
    setting = about["setting"]
    if not isinstance(setting, dict) or not all(_is_number(value) and value >= 0 for value in setting.values()):
        return "setting is not as expected, numbers by name"
    if not _is_number(about["logit_scale"]) or about["logit_scale"] <= 0:
        return "logit_scale is not as expected, a number above 0"
    counts = about["n_correct"], about["n_images"]
    if any(type(count) is not int or count < 0 for count in counts) or counts[0] > counts[1]:
        return "n_correct and n_images are not as expected, counts"
    return ""


def _wrong_arrays(arrays: Mapping[str, np.ndarray], *, n_classes: int) -> str:
    for name, (kind, axes) in ARRAYS.items():
        if arrays[name].dtype.kind != kind or arrays[name].ndim != axes:
            return f"{name} is not as expected"
        if name != "threshold" and not np.isfinite(arrays[name]).all():
            return f"{name} holds NaN or infinity"
    size, n_support, n_judged = len(arrays["classifier"]), len(arrays["support"]), len(arrays["confidences"])
    expected: dict[str, Sequence[int]] = {
        "classifier": (size, n_classes),
        "bias": (n_classes,),
        "support": (n_support, size),
        "weights": (n_support, n_classes),
        "right": (n_judged,),
        "temperature": (1,),
        "threshold": (1,),
    }
    for name, shape in expected.items():
        if arrays[name].shape != tuple(shape):
            return f"{name} has shape {arrays[name].shape}, expected {tuple(shape)}"
    if arrays["temperature"][0] <= 0:
        return "temperature is not above 0"
    return ""


def _is_text(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        return False
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _checksum(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)
