"""Image features on disk: a Zarr v3 directory store with checksums, written atomically.

Its bytes depend on the content and on zarr's compression (zstd): one shard per array, more for a long one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wsoup.base.errors import MismatchError, MissingError, one_line
from wsoup.disk.atomic import replacing
from wsoup.disk.store import check_encoder, fingerprint

ROWS_PER_CHUNK = 4096
ROWS_IN_ONE_FILE = 16 * ROWS_PER_CHUNK
"""Longer arrays are cut into files of `ROWS_PER_SHARD`, each of which is compressed in memory."""
ROWS_PER_SHARD = 4 * ROWS_PER_CHUNK
HELD_BYTES = 1 << 27
"""Larger features of a test set stay on disk: ImageNet's 50,000 test images with ViT-B take 98 MiB."""


class Rows(Protocol):
    """An array's rows, read a block at a time: a NumPy array, or one too large for memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """Some of the rows."""


@dataclass(frozen=True)
class ImageFeatures:
    """Features of one dataset split, as stored.

    Attributes:
        features: (N, D) float32, L2-normalised.
        labels: (N,) int64.
        rows: (N,) int64, row of each image in the dataset's manifest.
        attributes: encoder, preprocessing, class_names, dataset, split, and others of the writer.
    """

    features: Rows
    labels: np.ndarray
    rows: np.ndarray
    attributes: dict[str, Any]

    @property
    def class_names(self) -> list[str]:
        """Class names in label order."""
        return self.attributes["class_names"]


def write_features(path: str | Path, value: ImageFeatures) -> None:
    """Write one Zarr v3 group with arrays ``image_features``, ``labels`` and ``rows``, and their checksums."""
    import zarr

    with replacing(path) as temporary:
        group: Any = zarr.create_group(store=str(temporary), zarr_format=3)
        checksums = {
            "image_features": _write_rows(group, "image_features", value.features, dtype=np.float32),
            "labels": _write_rows(group, "labels", value.labels, dtype=np.int64),
            "rows": _write_rows(group, "rows", value.rows, dtype=np.int64),
            "attributes": fingerprint(value.attributes),
        }
        group.update_attributes({**value.attributes, "checksums": checksums})


def _write_rows(group: Any, name: str, values: Rows, *, dtype: type) -> str:
    """Write one array; returns its checksum."""
    n, *size = values.shape
    chunk = min(ROWS_PER_CHUNK, max(1, n))
    if n <= ROWS_IN_ONE_FILE:
        n_chunks = math.ceil(n / chunk)
        shard = max(1, n_chunks) * chunk  # zarr accepts no array without a chunk
    else:
        shard = ROWS_PER_SHARD
    stored = group.create_array(
        name,
        shape=values.shape,
        dtype=dtype,
        chunks=(chunk, *size),
        shards=(shard, *size),
        dimension_names=("image", "feature")[: 1 + len(size)],
    )
    digest = _digest(stored)
    for start in range(0, n, shard):
        block: np.ndarray = np.ascontiguousarray(values[start : start + shard], dtype=dtype)
        digest.update(block)
        stored[start : start + shard] = block
    return digest.hexdigest()


def read_features(path: str | Path, *, encoder: Mapping[str, Any] | None = None) -> ImageFeatures:
    """Read what `write_features` wrote, all of it into memory.

    Args:
        path: the store.
        encoder: the id of the encoder that the features must be from; None for any.

    Raises:
        MissingError: no such store.
        MismatchError: a file in it is missing or damaged; or the features are from another encoder, and the text names
            both.
    """
    return _checked(path, encoder=encoder, read_image_features=_read_whole)


def open_features(path: str | Path, *, encoder: Mapping[str, Any] | None = None) -> ImageFeatures:
    """Check all of what `write_features` wrote, but leave the image features on disk.

    `features` of the result reads the rows that it is asked for, so that features larger than memory can be gone
    through in blocks. The arguments and errors are those of `read_features`.
    """
    return _checked(path, encoder=encoder, read_image_features=_read_in_blocks)


Read = tuple[Rows, str]
"""An array, or what reads it in blocks, and the checksum of its values."""


def _checked(
    path: str | Path, *, encoder: Mapping[str, Any] | None, read_image_features: Callable[[Any], Read]
) -> ImageFeatures:
    """The contents of a store whose checksums, all of them, are right."""
    if not Path(path).is_dir():
        raise MissingError(f"{path} does not exist; image features are made by stage 'embed': run `dvc repro`")
    again = "remove it and run `dvc repro` to make it again"
    import zarr

    try:
        group: Any = zarr.open_group(store=str(path), mode="r")
        attributes = dict(group.attrs)
        checksums = dict(attributes.pop("checksums"))
        actual = {"attributes": fingerprint(attributes)}
        labels, actual["labels"] = _read_whole(group["labels"])
        rows, actual["rows"] = _read_whole(group["rows"])
        stored = group["image_features"]
        # A damaged shape may name rows without end, through which nothing may go.
        n = stored.shape[0]
        if n > max(len(labels), len(rows)):
            raise ValueError(f"{n} rows of features, {len(labels)} labels")
        features, actual["image_features"] = read_image_features(stored)
    except Exception as error:  # zarr may raise anything on a damaged file
        reason = one_line(error, limit=300) or type(error).__name__
        raise MismatchError(f"{path} cannot be read as image features ({reason}); {again}") from None
    # zarr reads a missing chunk as zeros, so that nothing is raised above.
    for name in sorted(actual):
        if actual[name] != checksums.get(name):
            raise MismatchError(f"{path}: checksum of {name} differs, a file in it is missing or damaged; {again}")
    if encoder is not None:
        check_encoder(attributes["encoder"], expected=encoder, where=path)
    return ImageFeatures(features, labels, rows, attributes)


def _read_whole(stored: Any) -> tuple[np.ndarray, str]:
    """All values of an array, and their checksum."""
    values: np.ndarray = stored[:]
    digest = _digest(stored)
    digest.update(np.ascontiguousarray(values))
    return values, digest.hexdigest()


def _read_in_blocks(stored: Any) -> Read:
    """The array itself, which reads from disk what it is asked, and the checksum of all its values."""
    digest = _digest(stored)
    # A checksum of the parts in turn is that of the whole, so one shard is held at a time.
    for start in range(0, stored.shape[0], ROWS_PER_SHARD):
        block: np.ndarray = stored[start : start + ROWS_PER_SHARD]
        digest.update(np.ascontiguousarray(block))
    return stored, digest.hexdigest()


def _digest(stored: Any) -> Any:
    """The beginning of a checksum: SHA-256 of an array's dtype and shape, and then its values."""
    return hashlib.sha256(f"{stored.dtype.str} {stored.shape} ".encode())
