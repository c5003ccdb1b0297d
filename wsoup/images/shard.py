"""One shard of image features: the images that are encoded at one go, and its bytes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wsoup.base import remote
from wsoup.disk import store
from wsoup.images.features import Encoded, encode_files
from wsoup.images.workers import Images
from wsoup.towers.encoder import Encoder

if TYPE_CHECKING:
    import pyarrow as pa

FEATURES = "features/"
"""Prefix of an encoder's name in the arrays of a shard."""


@dataclass(frozen=True)
class ImageList:
    """Image files of one dataset.

    Attributes:
        root: folder that the paths are relative to.
        files: N rows of a manifest, with columns path and digest, which the file must still have.
    """

    root: str
    files: "pa.Table"

    def taken(self, rows: np.ndarray) -> Images:
        """The paths and digests of some."""
        part = self.files.select(["path", "digest"]).take(rows)
        paths = [remote.joined(self.root, path) for path in part["path"].to_pylist()]
        return Images(paths, part["digest"].to_pylist())


@dataclass(frozen=True)
class EncodeImages:
    """Computes the shard of some images.

    Attributes:
        images: a list of image files.
        rows: places of the images in it, (n,) int64.
        encoders: image towers by name.
        batch_size, on_bad_image: as for `encode_files`.
        about: says what decides the features.
    """

    images: ImageList
    rows: np.ndarray
    encoders: Mapping[str, Encoder]
    batch_size: int
    on_bad_image: str
    about: str

    def __call__(self) -> bytes:
        """The shard's bytes."""
        return self.packed(self.encoded(self.encoders))

    def encoded(self, encoders: Mapping[str, Encoder]) -> Encoded:
        """The features of the images by some encoders."""
        taken = self.images.taken(self.rows)
        return encode_files(
            encoders,
            paths=taken.paths,
            digests=taken.digests,
            batch_size=self.batch_size,
            on_bad_image=self.on_bad_image,
            fill=True,
        )

    def packed(self, encoded: Encoded) -> bytes:
        """The shard of what its own encoders made of the images."""
        digests = self.images.files["digest"].take(self.rows[encoded.positions]).to_pylist()
        texts = json.dumps([sorted(encoded.skipped.items()), digests, self.about])
        arrays = {f"{FEATURES}{name}": features[:] for name, features in encoded.features.items()}
        arrays["positions"] = encoded.positions
        arrays["texts"] = store.text_as_array(texts)
        return store.pack_arrays(arrays)


def unpacked(payload: bytes, *, origin: str | Path) -> tuple[Encoded, list[str], str]:
    """A shard, the digests of its images, and what decided its features."""
    arrays = store.unpack_arrays(payload, origin=origin)
    features = {}
    for name, array in arrays.items():
        if name.startswith(FEATURES):
            features[name.removeprefix(FEATURES)] = array
    skipped, digests, about = json.loads(store.text_of_array(arrays["texts"]))
    encoded = Encoded(features, arrays["positions"], dict(skipped))
    return encoded, digests, about
