"""Image features of an earlier run, by content: where a few images were added, only these are decoded and encoded.

DVC removes a stage's outs before it runs, so the features also lie in one file per stage under the cache folder, which
`wsoup cache` shows. The file is replaced by each run and belongs to the code, packages, encoder, preprocessing, batch
size and kind of device that made it: where one of these is another, nothing in it is used.

The result has the bytes of a fresh run. The numbers of a model depend on how many images are in a batch, not on which
(measured on CPUs with convolutions and with attention), so only features of full batches are kept, new images are
encoded in full batches too, and a fresh run's last, smaller batch is always encoded again. That it is so here, on this
machine and with this number of threads, is checked in each run: the new images' batches are filled up with known ones,
and unless these come out byte for byte as they were kept, all images are encoded anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk.shards import Owner
from wsoup.core.disk.store import cache_dir, fingerprint, pack_arrays, read_checked, unpack_arrays, write_checked
from wsoup.core.errors import MismatchError, MissingError

FOLDER = "features"
"""Where the files lie in the cache folder."""
MOST_BYTES = 2**30
"""Features of a split that take more are not kept a second time: 500,000 images of 512 numbers."""


@dataclass(frozen=True)
class Known:
    """The kept features of one stage.

    Attributes:
        owner: the stage; its code and packages decide.
        inputs: what else decides a feature, as a JSON value.
        batch_size: images in a full batch.
        most_bytes: of features that are kept; more are not.
    """

    owner: Owner
    inputs: Any
    batch_size: int
    most_bytes: int = MOST_BYTES

    @property
    def path(self) -> Path:
        """Where they lie."""
        return cache_dir() / FOLDER / f"{self.owner.name}.checked"

    def read(self) -> dict[str, np.ndarray]:
        """Features (D,) float32 by content digest; none where they are another code's or encoder's, or damaged."""
        try:
            about, digests, features = contents(self.path)
        except (MissingError, MismatchError):
            return {}
        if about["inputs"] != fingerprint(self.inputs) or self.owner.changed_since(about):
            return {}
        return dict(zip(digests, features, strict=True))

    def write(self, features: np.ndarray, *, digests: Sequence[str | None], positions: np.ndarray) -> None:
        """Keep those of full batches.

        Args:
            features: (N, D) float32.
            digests: content digests of all images of the list, of which some may have been skipped.
            positions: (N,) int64, the features' places in that list.
        """
        full = len(digests) - len(digests) % self.batch_size
        chosen = np.array([p < full and digests[p] is not None for p in positions.tolist()], dtype=bool)
        if not chosen.any() or features.nbytes > self.most_bytes:
            self.path.unlink(missing_ok=True)
            return
        hexes = "".join(str(digests[p]) for p in positions[chosen].tolist())
        about = self.owner.about(inputs=fingerprint(self.inputs))
        arrays = {
            "about": np.frombuffer(json.dumps(about, sort_keys=True).encode(), dtype=np.uint8),
            "digests": np.frombuffer(bytes.fromhex(hexes), dtype=np.uint8).reshape(-1, 32),
            "features": features[chosen],
        }
        write_checked(self.path, pack_arrays(arrays))


def contents(path: Path) -> tuple[dict[str, Any], list[str], np.ndarray]:
    """What a file of features is about, its digests in hex, and the features (N, D) float32.

    Raises:
        MissingError, MismatchError: not there, damaged, or something else.
    """
    arrays = unpack_arrays(read_checked(path), origin=path)
    try:
        about = json.loads(arrays["about"].tobytes())
        return about, [row.tobytes().hex() for row in arrays["digests"]], arrays["features"]
    except (KeyError, ValueError) as error:
        raise MismatchError(f"{path} holds no image features ({error})") from None


@dataclass(frozen=True)
class Plan:
    """Which images of a list are encoded, where some are known.

    Attributes:
        encoded: positions, in the order in which they are encoded: full batches, then the list's last, smaller one.
        fill: how many of them, the last ones of the full batches, are known and only compared.
        reused: (R,) positions whose features are taken as they were kept.
    """

    encoded: np.ndarray
    fill: int
    reused: np.ndarray


def plan(digests: Sequence[str | None], *, known: Mapping[str, np.ndarray], batch_size: int) -> Plan | None:
    """What is to be encoded of a list of images; None where nothing would be saved."""
    full = len(digests) - len(digests) % batch_size
    there = np.array([digest in known for digest in digests[:full]], dtype=bool)
    new, old = np.flatnonzero(~there), np.flatnonzero(there)
    fill = batch_size - len(new) % batch_size  # 1 at least: each run looks whether known ones come out as they were
    if len(old) <= fill:
        return None
    tail = np.arange(full, len(digests))
    return Plan(np.concatenate([new, old[:fill], tail]), fill, old)


def completed(
    digests: Sequence[str | None],
    *,
    known: Mapping[str, np.ndarray],
    chosen: Plan,
    features: np.ndarray,
    positions: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Features and positions of the whole list; None where the known ones did not come out as they were kept.

    Args:
        digests: of all images.
        known: kept features by digest.
        chosen: what was encoded.
        features, positions: (N, D) and (N,) of those of `chosen.encoded` that could be decoded; positions in it.
    """
    places = chosen.encoded[positions]
    compared = np.isin(places, chosen.reused)
    kept = [known[str(digests[p])] for p in places[compared].tolist()]
    if compared.sum() != chosen.fill or not np.array_equal(features[compared], np.stack(kept)):
        return None
    old = np.stack([known[str(digests[p])] for p in chosen.reused.tolist()])
    places = np.concatenate([places[~compared], chosen.reused])
    order = np.argsort(places, kind="stable")
    return np.concatenate([features[~compared], old])[order], places[order]
