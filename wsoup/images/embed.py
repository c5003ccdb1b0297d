"""Image features of whole datasets: manifest -> finished shards -> Zarr.

Finished shards hold features by content digest, and whatever a digest is known for is not encoded again: after a kill,
and after images were added, moved or removed. A feature depends on the size of its batch, but on none of the other
images in it (measured on CPUs with convolutions and with attention); so each last batch is filled up, and the bytes
are those of a fresh run. Features stay in the shards until they are written, a block at a time: a million images need
the memory of their names in Arrow.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wsoup.base import remote
from wsoup.base.errors import DataError, MismatchError
from wsoup.disk import store
from wsoup.disk.checked import read_checked
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.images.features import Encoded, encode_files
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.runtime.work import finish_shards
from wsoup.towers.encoder import Encoder, load_encoder
from wsoup.towers.features import ImageFeatures, write_features

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES_PER_SHARD = 16
"""What a kill costs at most: on a CPU 512 images."""
NOWHERE = -1
FEATURES = "features/"
"""Prefix of an encoder's name in the arrays of a shard."""
DIGESTS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class ImageList:
    """Image files of one dataset.

    Attributes:
        root: folder that the paths are relative to.
        files: N rows of a manifest, with columns path and digest, which the file must still have.
    """

    root: str
    files: "pa.Table"

    def encoded(
        self, rows: np.ndarray, encoders: Mapping[str, Encoder], batch_size: int, on_bad_image: str, about: str
    ) -> bytes:
        """Compute the shard of some rows; `about` says what decides its features."""
        part = self.files.take(rows)
        digests = part["digest"].to_pylist()
        paths = [remote.joined(self.root, path) for path in part["path"].to_pylist()]
        encoded = encode_files(
            encoders,
            paths=paths,
            digests=digests,
            batch_size=batch_size,
            on_bad_image=on_bad_image,
            fill=True,
        )
        skipped = sorted(encoded.skipped.items())
        digests_held = [digests[i] for i in encoded.positions.tolist()]
        texts = json.dumps([skipped, digests_held, about])
        arrays = {f"{FEATURES}{name}": features[:] for name, features in encoded.features.items()}
        arrays["positions"] = encoded.positions
        arrays["texts"] = store.text_as_array(texts)
        return store.pack_arrays(arrays)


def _unpacked(payload: bytes, *, origin: str | Path) -> tuple[Encoded, list[str], str]:
    """A shard, the digests of its images, and what decided its features."""
    arrays = store.unpack_arrays(payload, origin=origin)
    features = {}
    for name, array in arrays.items():
        if name.startswith(FEATURES):
            features[name.removeprefix(FEATURES)] = array
    skipped, digests, about = json.loads(store.text_of_array(arrays["texts"]))
    encoded = Encoded(features, arrays["positions"], dict(skipped))
    return encoded, digests, about


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
                _, held, made_with = _unpacked(read_checked(path), origin=path)
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
        encoded, _, _ = _unpacked(read_checked(path), origin=path)
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
        encoded, digests, _ = _unpacked(payload, origin=label)
        self.listed.rows[self.places[encoded.positions]] = finished.add(self.shard.path, n=len(digests))
        for i, text in encoded.skipped.items():
            self.listed.skipped[int(self.places[i])] = text


def embed_images(
    encoders: Mapping[str, Encoder],
    *,
    lists: Sequence[ImageList],
    batch_size: int,
    on_bad_image: str,
    label: str,
    owner: Owner,
    batches_per_shard: int = BATCHES_PER_SHARD,
) -> list[Encoded]:
    """`encode_files` for each list, but for images that are known already.

    Args:
        encoders, batch_size, on_bad_image: as for `encode_files`.
        lists: image files, for example of each dataset.
        label: for the progress bar.
        owner: owner of the resume state; features are read from its shards, until it is finished.
        batches_per_shard: how much is saved at once; changes no feature.

    Raises:
        ChangedError, DataError: as `encode_files`; also DataError where no image of a list can be decoded.
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
            compute = partial(listed.images.encoded, places, encoders, batch_size, on_bad_image, about)
            named = listed.images.files.select(["digest", "path"]).take(places).to_pydict()
            # A digest of the names: the names of a million images would stay in memory with their shards.
            inputs = store.fingerprint([about, on_bad_image, *named.values()])
            parts.append(_Part(listed, places, Shard(owner, inputs, compute, size=len(places))))
    # Here it is only learned which images a shard holds. Its features are read a second time, a block at a time, when
    # they are written: 10^6 x 512 peak at 1.1 GiB that way, and at 7 GiB when all were kept from the first reading.
    payloads = finish_shards([part.shard for part in parts], label=label, unit="image", ticks=True)
    for part, payload in zip(parts, payloads, strict=True):
        part.finish(payload, finished=finished, label=label)
    return [listed.embedded(finished, encoders=encoders) for listed in all_listed]


def _say_known(all_listed: Sequence[_Listed], *, label: str) -> None:
    """Say on stderr that an earlier run has encoded some of the images."""
    total = sum(len(listed.rows) for listed in all_listed)
    new = sum(len(listed.new) for listed in all_listed)
    if 0 < new < total:
        print(f"{label}: {total - new} of {total} images were finished before; going on", file=sys.stderr)


def embed_split(dataset: str, *, split: str, encoder: EncoderParams, params: EmbedParams, owner: Owner) -> None:
    """Write the image features of one split of a manifest.

    Raises:
        MissingError: there is no manifest.
        DataError: it lists no image of the split, or see `embed_images`.
    """
    artifacts = Artifacts()
    manifest = store.require(artifacts.manifest(dataset), made_by=f"prepare@{dataset}")
    attributes = store.table_attributes(manifest)
    images, labels, rows = _listed(manifest, split, root=attributes["root"])
    if not len(rows):
        raise DataError(f"{manifest} lists no {split} images of {dataset}; check datasets.{dataset} in params.yaml")
    model = load_encoder(encoder)
    (embedded,) = embed_images(
        {PRETRAINED: model},
        lists=[images],
        batch_size=params.batch_size,
        on_bad_image=params.on_bad_image,
        label=f"embed {dataset} {split}",
        owner=owner,
    )
    features = embedded.features[PRETRAINED]
    kept = embedded.positions
    skipped = [text for _, text in sorted(embedded.skipped.items())]
    attributes = {
        **attributes,
        "split": split,
        "encoder": model.id,
        "preprocessing": model.preprocessing,
        "made_with": dict(owner.packages),
        "skipped": skipped,
        "images": _fingerprint(images.files["digest"].take(kept)),  # in their order
    }
    out = artifacts.features(dataset, split=split)
    write_features(out, ImageFeatures(features, labels[kept], rows[kept], attributes))
    for text in skipped:
        print(f"skipped: {text}")
    reused = ""
    if embedded.n_known:
        reused = f"; {embedded.n_known} reused from an earlier run"
    print(f"{out}: {len(kept)} images, {features.shape[1]} dimensions, {model.id['model']}{reused}")


def _listed(manifest: Path, split: str, *, root: str) -> tuple[ImageList, np.ndarray, np.ndarray]:
    """The images of one split of a manifest, their labels, and their rows: (N,) int64 each."""
    import pyarrow.compute as pc

    table = store.read_table(manifest, columns=["label", "split"])
    is_in_split = pc.equal(table["split"], split)
    rows = pc.indices_nonzero(is_in_split).to_numpy().astype(np.int64)
    labels = np.asarray(table["label"])[rows]
    files = store.read_table(manifest, columns=["path", "digest"])
    # Only where it leaves something out, because `take` copies.
    if len(rows) < len(files):
        files = files.take(rows)
    return ImageList(root, files), labels, rows


def _fingerprint(digests: "pa.ChunkedArray") -> str:
    """`store.fingerprint` of the list of all digests, of which only some are in memory at a time."""
    text = hashlib.sha256(b"[")
    for start in range(0, len(digests), DIGESTS_AT_ONCE):
        if start > 0:
            text.update(b", ")
        some = digests[start : start + DIGESTS_AT_ONCE].to_pylist()
        without_brackets = json.dumps(some)[1:-1]
        text.update(without_brackets.encode())
    text.update(b"]")
    return text.hexdigest()[:20]
