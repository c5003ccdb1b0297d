"""Image features of lists of files, by one encoder or several.

Finished shards hold features by content digest. Whatever a digest is known for is not encoded again: after a kill, and
after images were added, moved or removed. A feature depends on the size of its batch, but on none of the other images
in it (measured on CPUs with convolutions and with attention); so each last batch is filled up, and the bytes are those
of a fresh run.
"""

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch

from wsoup.base import remote
from wsoup.base.errors import DataError, MismatchError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.images.decode import Picture, batches
from wsoup.images.workers import Batch
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.runtime.progress import tick
from wsoup.runtime.work import finish_shards, save_seconds
from wsoup.towers.encoder import Encoder, load_encoder
from wsoup.towers.images import check_finite, encode_pixels, sharing_images

IMAGES_PER_SHARD = 2048
"""Approximately: a shard holds whole batches, so its size changes no feature."""
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

    def take(self, places: Sequence[int]) -> "ImageList":
        """Some of the images."""
        return ImageList(self.root, [self.paths[i] for i in places], [self.digests[i] for i in places])


@dataclass(frozen=True)
class Embedded:
    """Features of the images of a list that could be decoded.

    Attributes:
        features: (N, D) float32 of each encoder, L2-normalised; empty where no image could be decoded.
        positions: (N,) int64, positions of these images in the list.
        skipped: error text of each skipped image, by position.
        n_known: number of images that an earlier run encoded.
    """

    features: dict[str, np.ndarray]
    positions: np.ndarray
    skipped: dict[int, str]
    n_known: int = 0


def encode_files(
    encoders: Mapping[str, Encoder],
    *,
    paths: Sequence[str | Picture],
    digests: Sequence[str | None] | None,
    batch_size: int,
    on_bad_image: str,
    running: Path | None = None,
    fill: bool = False,
) -> Embedded:
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
    decoded = batches(
        paths[first:],
        transform=encoder.preprocess,
        batch_size=at_once,
        digests=None if digests is None else digests[first:],
        on_bad_image=on_bad_image,
        as_stored=encoder.as_stored,
    )
    with sharing_images(encoders.values()):
        for batch in decoded:
            parts.append(_encode(encoders, batch, first=first, paths=paths, least=at_once if fill else 0))
            tick(len(batch.positions) + len(batch.bad))
            if running is not None and time.monotonic() - saved >= interval:
                store.write_checked(running, store.pack_arrays(_packed(_concatenated(parts))))
                saved = time.monotonic()
    return _concatenated(parts)


def _encode(
    encoders: Mapping[str, Encoder], batch: Batch, *, first: int, paths: Sequence[str | Picture], least: int
) -> Embedded:
    """One batch of the images from position `first` on, filled up to `least` images."""
    positions = np.array(batch.positions, dtype=np.int64) + first
    features: dict[str, np.ndarray] = {}
    if len(positions):
        missing = max(len(batch.bad), least - len(positions))  # keeps the size of the batch
        padding = batch.pixels.new_zeros(missing, *batch.pixels.shape[1:])
        pixels = torch.cat([batch.pixels, padding]) if len(padding) else batch.pixels
        pixels = pixels.to(next(iter(encoders.values())).device, non_blocking=True)
        for name, encoder in encoders.items():
            encoded = encode_pixels(encoder, pixels)[: len(positions)].cpu()
            check_finite(encoded, paths=[str(paths[i]) for i in positions.tolist()])
            features[name] = encoded.numpy()
    return Embedded(features, positions, {first + i: error.args[0] for i, error in batch.bad.items()})


def _concatenated(parts: Sequence[Embedded]) -> Embedded:
    good = [part for part in parts if len(part.positions)]
    return Embedded(
        features={name: np.concatenate([part.features[name] for part in good]) for name in good[0].features}
        if good
        else {},
        positions=np.concatenate([np.empty(0, dtype=np.int64), *(part.positions for part in good)]),
        skipped={i: text for part in parts for i, text in part.skipped.items()},
    )


def _resumed(running: Path | None) -> Embedded:
    """Saved state of a killed run over the same images; empty where there is none, or it is damaged."""
    if running is not None and running.exists():
        try:
            return _unpacked(store.unpack_arrays(store.read_checked(running), origin=running))[0]
        except MismatchError as error:
            print(f"{error}: its images are encoded again", file=sys.stderr)
    return _concatenated([])


def _packed(part: Embedded, keys: Sequence[str] = (), about: str = "") -> dict[str, np.ndarray]:
    """As arrays, with the keys of the images that have features and what decided these."""
    texts = [sorted(part.skipped.items()), [keys[i] for i in part.positions.tolist()] if keys else [], about]
    return {
        **{f"{FEATURES}{name}": features for name, features in part.features.items()},
        "positions": part.positions,
        "texts": np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8),
    }


def _unpacked(part: Mapping[str, np.ndarray]) -> tuple[Embedded, list[str], str]:
    features = {name.removeprefix(FEATURES): array for name, array in part.items() if name.startswith(FEATURES)}
    skipped, keys, about = json.loads(part["texts"].tobytes())
    return Embedded(features, part["positions"], dict(skipped)), keys, about


class _Known:
    """Features by key: an image's content digest, or its path where it has none.

    Args:
        owner: the stage, whose finished shards hold features.
        about: what decides them, beside code and packages.
        wanted: digests to look for.
    """

    def __init__(self, owner: Owner, *, about: str, wanted: set[str | None]) -> None:
        self.parts: list[dict[str, np.ndarray]] = []
        self.places: dict[str, tuple[int, int]] = {}
        for path in sorted((owner.folder / owner.version).glob("*.part")):
            with suppress(MismatchError, KeyError):  # damaged, or the shard of something else
                part, keys, made_with = _unpacked(store.unpack_arrays(store.read_checked(path), origin=path))
                if made_with == about and not wanted.isdisjoint(keys):
                    self.add(part, [key if key in wanted else "" for key in keys])
                    owner.used.add(path)

    def add(self, part: Embedded, keys: Sequence[str]) -> None:
        """Take the features of a shard."""
        for row, key in enumerate(keys):
            self.places.setdefault(key, (len(self.parts), row))
        self.parts.append(part.features)

    def embedded(self, keys: Sequence[str], *, names: Iterable[str]) -> Embedded:
        """What there is of these images, in their order."""
        positions = [i for i, key in enumerate(keys) if key in self.places]
        places = [self.places[keys[i]] for i in positions]
        features = {name: np.stack([self.parts[p][name][row] for p, row in places]) for name in names if places}
        return Embedded(features, np.array(positions, dtype=np.int64), {})


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
    known = _Known(owner, about=about, wanted={digest for images in lists for digest in images.digests})
    missing = [[i for i, key in enumerate(images.keys) if key not in known.places] for images in lists]
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
        part = lists[n].take(chunk)
        inputs = [about, on_bad_image, part.digests, part.paths]
        running = owner.path(inputs, suffix=".running")
        compute = partial(_encode_part, encoders, part, batch_size, on_bad_image, about, running)
        shards.append(Shard(owner, inputs, compute, size=len(chunk)))
    done = finish_shards(shards, label=label, unit="image", ticks=True)
    skipped: list[dict[int, str]] = [{} for _ in lists]
    for (n, chunk), payload in zip(chunks, done, strict=True):
        embedded, keys, _ = _unpacked(store.unpack_arrays(payload, origin=label))
        known.add(embedded, keys)
        skipped[n] |= {chunk[i]: text for i, text in embedded.skipped.items()}
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
    embedded = encode_files(
        encoders,
        paths=[remote.joined(images.root, path) for path in images.paths],
        digests=images.digests,
        batch_size=batch_size,
        on_bad_image=on_bad_image,
        running=running if running.parent.is_dir() else None,  # a node of a cluster may not share the folder
        fill=True,
    )
    return store.pack_arrays(_packed(embedded, images.keys, about))


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
    table = store.read_table(manifest, columns=["path", "digest", "label", "split"])
    attributes = store.table_attributes(manifest)
    rows = np.flatnonzero(np.asarray(table["split"]) == split)
    if not len(rows):
        raise DataError(f"{manifest} lists no {split} images of {dataset}; check datasets.{dataset} in params.yaml")
    of_split = table.take(rows)
    model = load_encoder(encoder)
    images = ImageList(attributes["root"], of_split["path"].to_pylist(), of_split["digest"].to_pylist())
    (embedded,) = embed_images(
        {PRETRAINED: model},
        lists=[images],
        batch_size=params.batch_size,
        on_bad_image=params.on_bad_image,
        label=f"embed {dataset} {split}",
        owner=owner,
    )
    skipped = [text for _, text in sorted(embedded.skipped.items())]
    attributes = {
        **attributes,
        "split": split,
        "encoder": model.id,
        "preprocessing": model.preprocessing,
        "made_with": dict(owner.packages),
        "skipped": skipped,
        "images": store.fingerprint([images.digests[i] for i in embedded.positions.tolist()]),  # in their order
    }
    encoded_rows = rows[embedded.positions]
    labels = np.asarray(table["label"])[encoded_rows]
    out = artifacts.features(dataset, split=split)
    features = embedded.features[PRETRAINED]
    store.write_features(out, store.ImageFeatures(features, labels, encoded_rows, attributes))
    for text in skipped:
        print(f"skipped: {text}")
    reused = f"; {embedded.n_known} reused from an earlier run" if embedded.n_known else ""
    print(f"{out}: {len(labels)} images, {features.shape[1]} dimensions, {model.id['model']}{reused}")
