"""Image features of whole datasets: manifest -> finished shards -> Zarr.

Finished shards hold features by content digest, and whatever a digest is known for is not encoded again: after a kill,
and after images were added, moved or removed. A feature depends on the size of its batch, but on none of the other
images in it (measured on CPUs with convolutions and with attention); so each last batch is filled up, and the bytes
are those of a fresh run. Features stay in the shards until they are written, a block at a time: a million images need
the memory of their names in Arrow.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wsoup.base.errors import DataError, MismatchError
from wsoup.disk import store
from wsoup.disk.checked import read_checked
from wsoup.disk.shards import Owner, Shard
from wsoup.images.features import Encoded
from wsoup.images.one_pool import lasting
from wsoup.images.shard import EncodeImages, ImageList, unpacked
from wsoup.runtime.work import finish_shards
from wsoup.towers.encoder import Encoder

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES_PER_SHARD = 16
"""What a kill costs at most: on a CPU 512 images."""
NOWHERE = -1


class _Finished:
    """Finished shards, whose rows are numbered one after the other."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.starts = [0]

    def add(self, path: Path, *, n: int) -> np.ndarray:
        """The numbers of a shard's n rows."""
        self.paths.append(path)
        self.starts.append(self.starts[-1] + n)
        return np.arange(self.starts[-2], self.starts[-1])

    def known(self, lists: Sequence[ImageList], *, owner: Owner, about: str) -> list[np.ndarray]:
        """Add the shards of earlier runs that hold any of these images: for each list, rows or NOWHERE, (N,) int64."""
        folder = owner.folder / owner.version
        paths = sorted(folder.glob("*.part"))
        if not paths:
            return [np.full(len(images.files), NOWHERE) for images in lists]
        digests = [_digests(images.files["digest"]) for images in lists]
        # Sorted once, so that each shard is looked up by bisection: a set of a million texts would be memory.
        unique, places = np.unique(np.concatenate(digests), return_inverse=True)
        rows = np.full(len(unique), NOWHERE)
        for path in paths:
            with suppress(MismatchError, KeyError):  # damaged, or the shard of something else
                _, held, made_with = unpacked(read_checked(path), origin=path)
                halves = np.array(held, dtype=unique.dtype)
                at = np.searchsorted(unique, halves).clip(max=len(unique) - 1)
                is_listed = unique[at] == halves
                if made_with == about and is_listed.any():
                    numbers = self.add(path, n=len(held))
                    rows[at[is_listed]] = numbers[is_listed]
                    # What is not used is removed when the stage has finished.
                    owner.used.add(path)
        ends = np.cumsum([len(part) for part in digests])
        return np.split(rows[places], ends[:-1])


def _digests(column: "pa.ChunkedArray") -> np.ndarray:
    """Half of each digest as (N,) bytes: 128 bits suffice, and no image costs a Python object."""
    import pyarrow as pa

    fixed = column.cast(pa.binary()).cast(pa.binary(64)).combine_chunks()
    # The second buffer holds the values; a slice of a column starts somewhere inside it.
    whole = np.frombuffer(fixed.buffers()[1], dtype="S64", count=len(fixed), offset=64 * fixed.offset)
    return whole.astype("S32")


class _Gathered:
    """Features of one encoder, (N, D) float32, at these rows of all shards."""

    def __init__(self, finished: _Finished, name: str, *, rows: np.ndarray) -> None:
        self.finished = finished
        self.name = name
        self.rows = rows
        first_shard = int(self._shards(rows[:1])[0])
        _, size = self._read(first_shard).shape
        self.shape = (len(rows), size)

    def __getitem__(self, block: slice) -> np.ndarray:
        rows = self.rows[block]
        shards = self._shards(rows)
        features = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        # Shard by shard, so that each is read from disk once, however its images are scattered.
        for shard in np.unique(shards).tolist():
            is_here = shards == shard
            rows_of_shard = rows[is_here] - self.finished.starts[shard]
            features[is_here] = self._read(shard)[rows_of_shard]
        return features

    def _shards(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.finished.starts, rows, side="right") - 1

    def _read(self, shard: int) -> np.ndarray:
        path = self.finished.paths[shard]
        encoded, _, _ = unpacked(read_checked(path), origin=path)
        return encoded.features[self.name][:]


class _Listed:
    """One list while it is embedded: which row of the finished shards each of its N images has.

    Attributes:
        images: the list.
        rows: (N,) int64, `NOWHERE` for an image without features so far.
        new: places of the images that no earlier run has encoded.
        skipped: why images could not be decoded, by place.
    """

    def __init__(self, images: ImageList, *, rows: np.ndarray) -> None:
        self.images = images
        self.rows = rows
        self.new = np.flatnonzero(rows == NOWHERE)
        self.skipped: dict[int, str] = {}

    def embedded(self, finished: _Finished, *, encoders: Iterable[str]) -> Encoded:
        """The features of all its images that could be decoded; DataError if none could."""
        if len(self.skipped) == len(self.rows):
            raise DataError(f"{self.images.root}: none of the {len(self.rows)} images could be decoded")
        positions = np.flatnonzero(self.rows != NOWHERE)
        features = {name: _Gathered(finished, name, rows=self.rows[positions]) for name in encoders}
        n_known = len(self.rows) - len(self.new)
        return Encoded(features, positions, self.skipped, n_known)


class _Part(NamedTuple):
    """New images of one list that are encoded together and kept in one shard: the list, and their places in it."""

    listed: _Listed
    places: np.ndarray
    shard: Shard

    def finish(self, payload: bytes, *, finished: _Finished, label: str) -> None:
        """Add the shard, and note which of its images it holds."""
        encoded, digests, _ = unpacked(payload, origin=label)
        self.listed.rows[self.places[encoded.positions]] = finished.add(self.shard.path, n=len(digests))
        for i, text in encoded.skipped.items():
            self.listed.skipped[int(self.places[i])] = text


@dataclass(frozen=True)
class ImagePlan:
    """Which shards the features of some lists are in, or will be; nothing is computed yet.

    Attributes:
        encoders: names of the image towers.
        label: of the progress bar.
        finished: shards of earlier runs.
    """

    encoders: Sequence[str]
    label: str
    finished: _Finished
    _listed: Sequence[_Listed]
    _parts: Sequence[_Part]

    @property
    def shards(self) -> list[Shard]:
        """Those of images that no earlier run has encoded."""
        return [part.shard for part in self._parts]

    def embedded(self) -> list[Encoded]:
        """The features of each list, once all shards are finished.

        Raises:
            ChangedError, DataError: as `encode_files`; also DataError where no image of a list can be decoded.
        """
        # Here it is only learned which images a shard holds. Its features are read a second time, a block at a time,
        # when they are written: 10^6 x 512 peak at 1.1 GiB that way, and at 7 GiB when all were kept from the first
        # reading.
        missing = [part for part in self._parts if not part.shard.path.exists()]
        coming = (part.listed.images.taken(part.places) for part in missing)
        with lasting(coming, n=sum(len(part.places) for part in missing)):
            payloads = finish_shards(self.shards, label=self.label, unit="image", ticks=True)
        for part, payload in zip(self._parts, payloads, strict=True):
            part.finish(payload, finished=self.finished, label=self.label)
        return [listed.embedded(self.finished, encoders=self.encoders) for listed in self._listed]


def plan_images(
    encoders: Mapping[str, Encoder],
    *,
    lists: Sequence[ImageList],
    batch_size: int,
    on_bad_image: str,
    label: str,
    owner: Owner,
    batches_per_shard: int = BATCHES_PER_SHARD,
) -> ImagePlan:
    """Plan the features of each list, as `encode_files` makes them, but for images that are known already.

    Args:
        encoders, batch_size, on_bad_image: as for `encode_files`.
        lists: image files, for example of each dataset.
        label: for the progress bar.
        owner: owner of the resume state; features are read from its shards, until it is finished.
        batches_per_shard: how much is saved at once; changes no feature.
    """
    first = next(iter(encoders.values()))
    ids = {name: encoder.id for name, encoder in encoders.items()}
    at_once = first.images_at_once(batch_size)
    # All that a feature depends on besides its image: also the size of its batch, and the kind of device.
    about = store.fingerprint([ids, first.preprocessing, at_once, first.device.type])
    finished = _Finished()
    known = finished.known(lists, owner=owner, about=about)
    all_listed = [_Listed(images, rows=rows) for images, rows in zip(lists, known, strict=True)]
    _say_known(all_listed, label=label)
    size = at_once * batches_per_shard
    parts: list[_Part] = []
    for listed in all_listed:
        for start in range(0, len(listed.new), size):
            places = listed.new[start : start + size]
            compute = EncodeImages(listed.images, places, encoders, batch_size, on_bad_image, about)
            named = listed.images.files.select(["digest", "path"]).take(places).to_pydict()
            # A digest of the names: the names of a million images would stay in memory with their shards.
            inputs = store.fingerprint([about, on_bad_image, *named.values()])
            parts.append(_Part(listed, places, Shard(owner, inputs, compute, size=len(places))))
    return ImagePlan(list(encoders), label, finished, all_listed, parts)


def _say_known(all_listed: Sequence[_Listed], *, label: str) -> None:
    """Say on stderr that an earlier run has encoded some of the images."""
    total = sum(len(listed.rows) for listed in all_listed)
    new = sum(len(listed.new) for listed in all_listed)
    if 0 < new < total:
        print(f"{label}: {total - new} of {total} images were finished before; going on", file=sys.stderr)
