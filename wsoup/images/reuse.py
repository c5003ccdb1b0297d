"""Image features of earlier runs: reuse them by content digest, so that only added images are encoded.

DVC removes a stage's outs before it runs, so the features are also kept in one file per stage in the cache folder,
which `wsoup cache` lists. Each run replaces the file. It is used only with the code, packages, encoder, preprocessing,
batch size and kind of device that made it.

The result has the bytes of a fresh run. A feature depends on the number of images in its batch, not on which they are
(measured on CPUs with convolutions and with attention). So only features of full batches are kept, new images are
encoded in full batches, and the last, smaller batch is always encoded again. Each run checks this on its own machine
and number of threads: it fills up the batches of new images with known ones, and unless these are reproduced byte for
byte, encodes all images again.

`differing` finds features that were made with other package versions than others. Decoding and resizing change a little
from one minor version to the next, so counts can differ in the last images, and a table compares more than its rows.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk.shards import Owner
from wsoup.disk.store import cache_dir, fingerprint, pack_arrays, read_checked, unpack_arrays, write_checked

FOLDER = "features"
"""Of the cache folder."""
MAX_BYTES = 2**30
"""Larger features of a split are not kept a second time; these are 500,000 images of 512 numbers."""
DECIDING = ("torchvision", "pillow", "open_clip_torch")
"""Distributions that decide the pixels a model sees."""

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class KeptFeatures:
    """The kept features of one stage.

    Attributes:
        owner: the stage, with its code and packages.
        inputs: what else decides a feature, as a JSON value.
        batch_size: images in a full batch.
        max_bytes: larger features are not kept.
    """

    owner: Owner
    inputs: Any
    batch_size: int
    max_bytes: int = MAX_BYTES

    @property
    def path(self) -> Path:
        """The file."""
        return cache_dir() / FOLDER / f"{self.owner.name}.checked"

    def _about(self) -> str:
        return f"{self.owner.version}-{fingerprint(self.inputs)}"

    def read(self) -> dict[str, np.ndarray]:
        """Features (D,) float32 by content digest; none where other code or inputs made them, or they are damaged."""
        try:
            about, digests, features = contents(self.path)
        except (MissingError, MismatchError):
            return {}
        if about != self._about():
            return {}
        return dict(zip(digests, features, strict=True))

    def write(self, features: np.ndarray, *, digests: Sequence[str | None], positions: np.ndarray) -> None:
        """Keep the features of full batches.

        Args:
            features: (N, D) float32.
            digests: content digests of all images of the list, some of which may have been skipped.
            positions: (N,) int64, positions of the features in that list.
        """
        n_full = len(digests) - len(digests) % self.batch_size
        kept = np.array([p < n_full and digests[p] is not None for p in positions.tolist()], dtype=bool)
        if not kept.any() or features.nbytes > self.max_bytes:
            self.path.unlink(missing_ok=True)
            return
        hexes = "".join(str(digests[p]) for p in positions[kept].tolist())
        arrays = {
            "about": np.frombuffer(self._about().encode(), dtype=np.uint8),
            "digests": np.frombuffer(bytes.fromhex(hexes), dtype=np.uint8).reshape(-1, 32),
            "features": features[kept],
        }
        write_checked(self.path, pack_arrays(arrays))


def contents(path: Path) -> tuple[str, list[str], np.ndarray]:
    """What made a file of features, its digests in hex, and the features (N, D) float32.

    Raises:
        MissingError, MismatchError: no such file; damaged, or something else.
    """
    arrays = unpack_arrays(read_checked(path), origin=path)
    try:
        about = arrays["about"].tobytes().decode()
        return about, [row.tobytes().hex() for row in arrays["digests"]], arrays["features"]
    except (KeyError, ValueError) as error:
        raise MismatchError(f"{path} holds no image features ({error})") from None


@dataclass(frozen=True)
class Plan:
    """Which images of a list to encode, and which features to reuse.

    Attributes:
        encoded: positions in the order of encoding: new images, known ones that fill up their last batch, and the
            list's last, smaller batch.
        fill: number of those known images, whose features are only compared.
        reused: (R,) positions of the known images, the compared ones first.
        known: (R, D) float32, their features.
    """

    encoded: np.ndarray
    fill: int
    reused: np.ndarray
    known: np.ndarray

    def merged(self, features: np.ndarray, *, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Features and positions of the whole list; None where the known features were not reproduced.

        Args:
            features: (N, D) float32, of the images of `encoded` that could be decoded.
            positions: (N,) int64, their positions in `encoded`.
        """
        places = self.encoded[positions]
        compared = np.isin(places, self.reused)
        if not np.array_equal(features[compared], self.known[: self.fill]):
            return None
        places = np.concatenate([places[~compared], self.reused])
        order = np.argsort(places, kind="stable")
        return np.concatenate([features[~compared], self.known])[order], places[order]


def plan(digests: Sequence[str | None], *, known: Mapping[str, np.ndarray], batch_size: int) -> Plan | None:
    """Plan the encoding of a list of images, given known features by digest; None where reuse would save nothing."""
    n_full = len(digests) - len(digests) % batch_size
    is_known = np.array([digest in known for digest in digests[:n_full]], dtype=bool)
    new, old = np.flatnonzero(~is_known), np.flatnonzero(is_known)
    fill = batch_size - len(new) % batch_size  # at least 1, so that each run compares
    if len(old) <= fill:
        return None
    encoded = np.concatenate([new, old[:fill], np.arange(n_full, len(digests))])
    return Plan(encoded, fill, old, np.stack([known[str(digests[i])] for i in old.tolist()]))


def differing(made_with: Mapping[Name, Mapping[str, str]]) -> dict[Name, str]:
    """Features made with an older major.minor version than others, and what differs.

    Args:
        made_with: name of some features -> distribution -> version; missing distributions are not compared.

    >>> differing({"dtd": {"pillow": "10.4.0"}, "sun": {"pillow": "11.1.0"}, "pets": {"pillow": "11.1.2"}})
    {'dtd': 'were made with pillow 10.4.0, others with 11.1.0'}
    """
    differences: dict[Name, list[str]] = {}
    for package in DECIDING:
        versions = {name: packages[package] for name, packages in made_with.items() if package in packages}
        newest = max(versions.values(), key=_minor, default="")
        for name, version in versions.items():
            if _minor(version) != _minor(newest):
                differences.setdefault(name, []).append(f"{package} {version}, others with {newest}")
    return {name: f"were made with {' and '.join(texts)}" for name, texts in differences.items()}


def _minor(version: str) -> tuple[int, int]:
    """Major and minor number; (0, 0) where a version has none."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
