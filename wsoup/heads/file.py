"""Head files: one safetensors file, validated on reading because it may come from anywhere."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wsoup.base.errors import DataError, MismatchError, MissingError, ParamsError, one_line
from wsoup.disk import store
from wsoup.disk.files import regular_file
from wsoup.params.section import parse

LARGEST = 1 << 32
"""Largest head file, in bytes."""
MOST_CLASSES = 1_000_000
ARRAYS = {
    "classifier": ("f", "DC"),
    "confidences": ("f", "M"),
    "right": ("b", "M"),
    "temperature": ("f", "1"),
    "threshold": ("f", "1"),
}
"""Name -> NumPy's kind of dtype, and axes: D features, C classes, M left-out images."""
PLAIN = ("kind", "template", "logit_scale", "note")
"""Texts and numbers among the metadata."""


def _one_line(text: str) -> str:
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise ValueError(f"{text[:40]!r} holds control characters or unpaired surrogates")
    return text


def _distinct(names: list[str]) -> list[str]:
    if len({*names}) < len(names):
        raise ValueError("a name appears twice")
    return names


Line = Annotated[str, Field(max_length=10_000), AfterValidator(_one_line)]
Names = Annotated[list[Line], Field(min_length=2, max_length=MOST_CLASSES), AfterValidator(_distinct)]


class Metadata(BaseModel):
    """Everything in a head file but its arrays; the soup validates itself."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    kind: Line
    template: Line
    note: Line
    class_names: Names
    encoder: dict[Line, Line | bool | int | float | None]
    setting: dict[Line, Annotated[float, Field(ge=0, lt=1e30)]]
    logit_scale: Annotated[float, Field(gt=0, lt=1e30)]
    soup: Any


def pack(arrays: Mapping[str, np.ndarray], *, metadata: Mapping[str, object]) -> bytes:
    """The content of a head file: arrays and metadata, with a checksum over both."""
    text = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    content = {**arrays, "about": np.frombuffer(text.encode(), dtype=np.uint8)}
    return store.pack_arrays({**content, "checksum": _checksum(content)})


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and metadata that `pack` wrote, all of them of the right types and shapes, finite and within bounds.

    Raises:
        MissingError: no such file.
        MismatchError: damaged, or not a head; names the first problem.
    """
    if str(path).endswith(".json"):
        raise MismatchError(f"{one_line(path)} is not a head; wsoup.Soup.load reads a soup")
    arrays = store.unpack_arrays(_read_bytes(path), origin=path)
    checksum = arrays.pop("checksum", np.zeros(0, dtype=np.uint8))
    if {*arrays} != {*ARRAYS, "about"} or arrays["about"].dtype != np.uint8:
        raise MismatchError(f"{one_line(path)} is not a head: it holds other arrays than a head has")
    if not np.array_equal(checksum, _checksum(arrays)):
        raise MismatchError(f"{one_line(path)} is damaged: its checksum does not match its content")
    metadata = _parse(arrays.pop("about").tobytes(), origin=path)
    if problem := _array_problem(arrays, n_classes=len(metadata["class_names"])):
        raise MismatchError(f"{one_line(path)} is not a head: {problem}")
    return arrays, metadata


def _read_bytes(path: str | Path) -> bytes:
    try:
        if regular_file(str(path)).st_size > LARGEST:
            raise MismatchError(f"{one_line(path)} is not a head: it is larger than {LARGEST:,} bytes")
        return Path(path).read_bytes()
    except MissingError:
        raise MissingError(f"{one_line(path)} does not exist; heads are made by wsoup.fit_head") from None
    except (DataError, OSError) as error:
        raise MismatchError(f"{one_line(path)} is not a head ({one_line(error, limit=200)})") from None


def _parse(payload: bytes, *, origin: str | Path) -> dict[str, Any]:
    try:
        metadata = json.loads(payload.decode("utf-8"))
        if not isinstance(metadata, dict):
            raise ValueError("its metadata is not a JSON object")
        parse(Metadata, metadata, origin=f"{one_line(origin)} is not a head")
    except ParamsError as error:
        raise MismatchError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise MismatchError(f"{one_line(origin)} is not a head ({one_line(error, limit=200)})") from None
    return metadata


def _array_problem(arrays: Mapping[str, np.ndarray], *, n_classes: int) -> str:
    """What is wrong with the arrays of a head for so many classes, or ""."""
    lengths = {"C": n_classes, "1": 1}
    for name, (kind, axes) in ARRAYS.items():
        array = arrays[name]
        if array.dtype.kind != kind or array.ndim != len(axes):
            return f"{name} is {array.dtype} with {array.ndim} axes"
        expected = tuple(lengths.setdefault(axis, length) for axis, length in zip(axes, array.shape, strict=True))
        if array.shape != expected:
            return f"{name} has shape {array.shape}, expected {expected}"
        if name != "threshold" and not np.isfinite(array).all():
            return f"{name} has NaN or infinity"
    return "" if arrays["temperature"][0] > 0 else "temperature is not above 0"


def _checksum(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)
