"""Image features of lists of files, by one encoder or several.

Finished shards hold features by content digest. Whatever a digest is known for is not encoded again: after a kill, and
after images were added, moved or removed. A feature depends on the size of its batch, but on none of the other images
in it (measured on CPUs with convolutions and with attention); so each last batch is filled up, and the bytes are those
of a fresh run. The shards are also where features stay until they are written, a block at a time: a million images need
the memory of their names, not of their features.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsoup.base import remote
from wsoup.base.errors import DataError, MismatchError
from wsoup.disk import store
from wsoup.disk.features import ImageFeatures, Rows, write_features
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.images.decode import Picture, batches
from wsoup.images.workers import Batch
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.runtime.progress import tick
from wsoup.runtime.work import finish_shards, save_seconds
from wsoup.towers.encoder import Encoder, load_encoder
from wsoup.towers.images import check_finite, encode_pixels, fast_images, in_two_steps, sharing_blocks

IMAGES_PER_SHARD = 2048
"""Approximately: a shard holds whole batches, so its size changes no feature."""
NOWHERE = -1
FEATURES = "features/"
"""Prefix of an encoder's name in the arrays of a shard."""


@dataclass(frozen=True)
class ImageList:
    """Image files of one dataset.

    Attributes:
        root: folder that `paths` are relative to.
        paths: N files.
        digests: N content digests, which the files must still have; None for one that cannot be read.
    """

    root: str | Path
    paths: Sequence[str]
    digests: Sequence[str | None]

    @cached_property
    def keys(self) -> list[str]:
        """N digests; the path in place of one that is missing."""
        return [digest or path for path, digest in zip(self.paths, self.digests, strict=True)]


@dataclass(frozen=True)
class Encoded:
    """Features of the images of a list that could be decoded.

    Attributes:
        features: (N, D) float32 of each encoder, L2-normalised; empty where no image could be decoded.
        positions: (N,) int64, positions of these images in the list.
        skipped: error text of each skipped image, by position.
    """

    features: Mapping[str, np.ndarray]
    positions: np.ndarray
    skipped: Mapping[int, str]


@dataclass(frozen=True)
class Embedded:
    """As `Encoded`, with features that are read from finished shards, until their owner is finished.

    Attributes:
        n_known: number of images that an earlier run encoded.
    """

    features: Mapping[str, Rows]
    positions: np.ndarray
    skipped: Mapping[int, str]
    n_known: int


def encode_files(
    encoders: Mapping[str, Encoder],
    *,
    paths: Sequence[str | Picture],
    digests: Sequence[str | None] | None,
    batch_size: int,
    on_bad_image: str,
    running: Path | None = None,
    fill: bool = False,
) -> Encoded:
    """Encode image files in order, each decoded once for all encoders; moves the current progress bar.

    Args:
        encoders: image towers by name, with the same preprocessing.
        paths: N files or pictures.
        digests: N content digests, which the files must still have, or None.
        batch_size: images in one forward pass, at most.
        on_bad_image: ``"stop"`` or ``"skip"``, see `wsoup.images.decode.batches`.
        running: file that saves the state every `save_seconds`; where it exists, work continues from it.
        fill: fill up the last batch.

    Raises:
        ChangedError: a file has changed since it was listed.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``.
        ModelError: the features of an image are not finite.
    """
    parts, interval = [_resumed(running)], math.inf if running is None else save_seconds()
    first, saved = len(parts[0].positions) + len(parts[0].skipped), time.monotonic()
    tick(first)
    encoder = next(iter(encoders.values()))
    at_once = encoder.images_at_once(batch_size)
    to_pixels, to_floats = in_two_steps(encoder.preprocess)
    decoded = batches(
        paths[first:],
        transform=to_pixels,
        batch_size=at_once,
        digests=None if digests is None else digests[first:],
        on_bad_image=on_bad_image,
        as_stored=encoder.as_stored,
    )
    with sharing_blocks([fast_images(encoder) for encoder in encoders.values()]):
        for batch in decoded:
            least = at_once if fill else 0
            parts.append(_encode(encoders, batch, to_floats, first=first, paths=paths, least=least))
            tick(len(batch.positions) + len(batch.bad))
            if running is not None and time.monotonic() - saved >= interval:
                store.write_checked(running, _packed(_concatenated(parts)))
                saved = time.monotonic()
    return _concatenated(parts)


def _encode(
    encoders: Mapping[str, Encoder],
    batch: Batch,
    to_floats: Callable[[Tensor], Tensor],
    *,
    first: int,
    paths: Sequence[str | Picture],
    least: int,
) -> Encoded:
    """One batch of the images from position `first` on, filled up to `least` images."""
    positions = np.array(batch.positions, dtype=np.int64) + first
    features: dict[str, np.ndarray] = {}
    if len(positions):
        missing = max(len(batch.bad), least - len(positions))  # keeps the size of the batch
        padding = batch.pixels.new_zeros(missing, *batch.pixels.shape[1:])
        pixels = torch.cat([batch.pixels, padding]) if len(padding) else batch.pixels
        pixels = to_floats(pixels.to(next(iter(encoders.values())).device, non_blocking=True))
        for name, encoder in encoders.items():
            encoded = encode_pixels(encoder, pixels)[: len(positions)].cpu()
            check_finite(encoded, paths=[str(paths[i]) for i in positions.tolist()])
            features[name] = encoded.numpy()
    return Encoded(features, positions, {first + i: error.args[0] for i, error in batch.bad.items()})


def _concatenated(parts: Sequence[Encoded]) -> Encoded:
    good = [part for part in parts if len(part.positions)]
    return Encoded(
        features={name: np.concatenate([part.features[name] for part in good]) for name in good[0].features}
        if good
        else {},
        positions=np.concatenate([np.empty(0, dtype=np.int64), *(part.positions for part in good)]),
        skipped={i: text for part in parts for i, text in part.skipped.items()},
    )


def _resumed(running: Path | None) -> Encoded:
    """Saved state of a killed run over the same images; empty where there is none, or it is damaged."""
    if running is not None and running.exists():
        try:
            return _unpacked(store.read_checked(running), origin=running)[0]
        except MismatchError as error:
            print(f"{error}: its images are encoded again", file=sys.stderr)
    return _concatenated([])


def _packed(part: Encoded, keys: Sequence[str] = (), about: str = "") -> bytes:
    """A shard, with the keys of the images that have features and what decided these."""
    texts = [sorted(part.skipped.items()), [keys[i] for i in part.positions.tolist()] if keys else [], about]
    arrays = {f"{FEATURES}{name}": features for name, features in part.features.items()}
    encoded = np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)
    return store.pack_arrays({**arrays, "positions": part.positions, "texts": encoded})


def _unpacked(payload: bytes, *, origin: str | Path) -> tuple[Encoded, list[str], str]:
    arrays = store.unpack_arrays(payload, origin=origin)
    features = {name.removeprefix(FEATURES): array for name, array in arrays.items() if name.startswith(FEATURES)}
    skipped, keys, about = json.loads(arrays["texts"].tobytes())
    return Encoded(features, arrays["positions"], dict(skipped)), keys, about


class _Known:
    """Which finished shard holds the features of an image, by its key: content digest, or path where it has none.

    Args:
        owner: the stage, whose finished shards hold features.
        about: what decides them, beside code and packages.
        lists: the images to look for.
    """

    def __init__(self, owner: Owner, *, about: str, lists: Sequence[ImageList]) -> None:
        self.shards: list[Path] = []
        self.starts = [0]
        self.rows = {digest: NOWHERE for images in lists for digest in images.digests if digest}
        for path in sorted((owner.folder / owner.version).glob("*.part")):
            with suppress(MismatchError, KeyError):  # damaged, or the shard of something else
                _, keys, made_with = _unpacked(store.read_checked(path), origin=path)
                if made_with == about and not self.rows.keys().isdisjoint(keys):
                    self.add(path, keys)
                    owner.used.add(path)
        for key in chain.from_iterable(images.keys for images in lists):  # without a digest: of this run alone
            self.rows.setdefault(key, NOWHERE)

    def add(self, shard: Path, keys: Sequence[str]) -> None:
        """Note the images of a shard that are wanted; its rows follow those of the shards before."""
        for row, key in enumerate(keys, start=self.starts[-1]):
            if self.rows.get(key) == NOWHERE:
                self.rows[key] = row
        self.shards.append(shard)
        self.starts.append(self.starts[-1] + len(keys))

    def embedded(self, keys: Sequence[str], *, names: Iterable[str]) -> Embedded:
        """What there is of these images, in their order."""
        rows = np.array([self.rows[key] for key in keys], dtype=np.int64)
        positions = np.flatnonzero(rows != NOWHERE)
        return Embedded({name: _Gathered(self, name, rows=rows[positions]) for name in names}, positions, {}, 0)


class _Gathered:
    """Features of one encoder, (N, D) float32, at these rows of all shards."""

    def __init__(self, known: _Known, name: str, *, rows: np.ndarray) -> None:
        self.known, self.name, self.rows = known, name, rows
        self.shape = (len(rows), self._read(int(self._shards(rows[:1])[0])).shape[1])

    def __getitem__(self, wanted: slice) -> np.ndarray:
        rows = self.rows[wanted]
        shards = self._shards(rows)
        block = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for shard in np.unique(shards).tolist():
            block[shards == shard] = self._read(shard)[rows[shards == shard] - self.known.starts[shard]]
        return block

    def _shards(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.known.starts, rows, side="right") - 1

    def _read(self, shard: int) -> np.ndarray:
        path = self.known.shards[shard]
        return _unpacked(store.read_checked(path), origin=path)[0].features[self.name]


def embed_images(
    encoders: Mapping[str, Encoder],
    *,
    lists: Sequence[ImageList],
    batch_size: int,
    on_bad_image: str,
    label: str,
    owner: Owner,
    images_per_shard: int = IMAGES_PER_SHARD,
) -> list[Embedded]:
    """`encode_files` for each list, but for images that are known already; a killed shard loses half a minute at most.

    Args:
        encoders, batch_size, on_bad_image: as for `encode_files`.
        lists: image files, for example of each dataset.
        label: for the progress bar.
        owner: owner of the resume state.
        images_per_shard: approximate.

    Raises:
        ChangedError, DataError: as `encode_files`; also DataError where no image of a list can be decoded.
    """
    first = next(iter(encoders.values()))
    ids = {name: encoder.id for name, encoder in encoders.items()}
    about = store.fingerprint([ids, first.preprocessing, first.images_at_once(batch_size), first.device.type])
    known = _Known(owner, about=about, lists=lists)
    missing = [[i for i, key in enumerate(images.keys) if known.rows[key] == NOWHERE] for images in lists]
    total, new = sum(len(images.paths) for images in lists), sum(map(len, missing))
    if 0 < new < total:
        print(f"{label}: {total - new} of {total} images were finished before; going on", file=sys.stderr)
    chunks = [
        (n, chunk)
        for n, places in enumerate(missing)
        for chunk in _cut(places, size=max(1, images_per_shard // batch_size) * batch_size)
    ]
    shards = []
    for n, chunk in chunks:
        paths, digests = lists[n].paths, lists[n].digests
        part = ImageList(lists[n].root, [paths[i] for i in chunk], [digests[i] for i in chunk])
        inputs = [about, on_bad_image, part.digests, part.paths]
        running = owner.path(inputs, suffix=".running")
        compute = partial(_encode_part, encoders, part, batch_size, on_bad_image, about, running)
        shards.append(Shard(owner, inputs, compute, size=len(chunk)))
    done = finish_shards(shards, label=label, unit="image", ticks=True)
    skipped: list[dict[int, str]] = [{} for _ in lists]
    for (n, chunk), shard, payload in zip(chunks, shards, done, strict=True):
        encoded, keys, _ = _unpacked(payload, origin=label)
        known.add(shard.path, keys)
        skipped[n] |= {chunk[i]: text for i, text in encoded.skipped.items()}
    for images, bad in zip(lists, skipped, strict=True):
        if len(bad) == len(images.paths):
            raise DataError(f"{images.root}: none of the {len(images.paths)} images could be decoded")
    return [
        replace(known.embedded(images.keys, names=encoders), skipped=bad, n_known=len(images.paths) - len(places))
        for images, places, bad in zip(lists, missing, skipped, strict=True)
    ]


def _encode_part(
    encoders: Mapping[str, Encoder], images: ImageList, batch_size: int, on_bad_image: str, about: str, running: Path
) -> bytes:
    """Compute one shard."""
    encoded = encode_files(
        encoders,
        paths=[remote.joined(images.root, path) for path in images.paths],
        digests=images.digests,
        batch_size=batch_size,
        on_bad_image=on_bad_image,
        running=running if running.parent.is_dir() else None,  # a node of a cluster may not share the folder
        fill=True,
    )
    return _packed(encoded, images.keys, about)


def _cut(places: Sequence[int], *, size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(places), size):
        yield places[start : start + size]


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
    features, kept = embedded.features[PRETRAINED], embedded.positions
    skipped = [text for _, text in sorted(embedded.skipped.items())]
    attributes = {
        **attributes,
        "split": split,
        "encoder": model.id,
        "preprocessing": model.preprocessing,
        "made_with": dict(owner.packages),
        "skipped": skipped,
        "images": store.fingerprint([images.digests[i] for i in kept.tolist()]),  # in their order
    }
    out = artifacts.features(dataset, split=split)
    write_features(out, ImageFeatures(features, labels[kept], rows[kept], attributes))
    for text in skipped:
        print(f"skipped: {text}")
    reused = f"; {embedded.n_known} reused from an earlier run" if embedded.n_known else ""
    print(f"{out}: {len(kept)} images, {features.shape[1]} dimensions, {model.id['model']}{reused}")


def _listed(manifest: Path, split: str, *, root: str) -> tuple[ImageList, np.ndarray, np.ndarray]:
    """The images of one split of a manifest, their labels, and their rows: (N,) int64 each."""
    import pyarrow.compute as pc

    table = store.read_table(manifest, columns=["path", "digest", "label", "split"])
    rows = pc.indices_nonzero(pc.equal(table["split"], split)).to_numpy().astype(np.int64)
    table = table.take(rows)
    return ImageList(root, table["path"].to_pylist(), table["digest"].to_pylist()), np.asarray(table["label"]), rows
