"""Image features of lists of files, by one encoder or several, in shards that survive a kill."""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from wsoup.base import remote
from wsoup.base.errors import DataError, MismatchError
from wsoup.core.flops import FlopCounter
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.images import reuse
from wsoup.images.decode import Picture, batches
from wsoup.images.workers import Batch
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.runtime import process
from wsoup.runtime.progress import tick
from wsoup.runtime.work import finish_shards, save_seconds
from wsoup.towers.encoder import CPU_IMAGES, Encoder, check_finite, load_encoder, sharing_images

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


@dataclass(frozen=True)
class Embedded:
    """Features of the images of a list that could be decoded.

    Attributes:
        features: (N, D) float32 of each encoder, L2-normalised; empty where no image could be decoded.
        positions: (N,) int64, positions of these images in the list.
        skipped: error text of each skipped image, by position.
    """

    features: dict[str, np.ndarray]
    positions: np.ndarray
    skipped: dict[int, str]


def encode_files(
    encoders: Mapping[str, Encoder],
    *,
    paths: Sequence[str | Picture],
    digests: Sequence[str | None] | None,
    batch_size: int,
    on_bad_image: str,
    running: Path | None = None,
) -> Embedded:
    """Encode image files in order, each decoded once for all encoders; moves the current progress bar.

    Args:
        encoders: image towers by name, with the same preprocessing.
        paths: N files, or N pictures.
        digests: N content digests, which the files must still have, or None.
        batch_size: images in one forward pass, at most.
        on_bad_image: ``"stop"`` or ``"skip"``, see `wsoup.images.decode.batches`.
        running: file that saves the state every `save_seconds`; where it exists, work continues from it.

    Raises:
        ChangedError: a file has changed since it was listed.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``.
        ModelError: the features of an image are not finite.
    """
    parts, interval = [_resumed(running)], math.inf if running is None else save_seconds()
    first, saved = len(parts[0].positions) + len(parts[0].skipped), time.monotonic()
    tick(first)
    encoder = next(iter(encoders.values()))
    decoded = batches(
        paths[first:],
        transform=encoder.preprocess,
        batch_size=encoder.images_at_once(batch_size),
        digests=None if digests is None else digests[first:],
        on_bad_image=on_bad_image,
        as_stored=encoder.as_stored,
    )
    with sharing_images(encoders.values()):
        for batch in decoded:
            parts.append(_encode(encoders, batch, first=first, paths=paths))
            tick(len(batch.positions) + len(batch.bad))
            if running is not None and time.monotonic() - saved >= interval:
                store.write_checked(running, store.pack_arrays(_packed(_concatenated(parts), start=0)))
                saved = time.monotonic()
    return _concatenated(parts)


def _encode(encoders: Mapping[str, Encoder], batch: Batch, *, first: int, paths: Sequence[str | Picture]) -> Embedded:
    """One batch of the images from position `first` on."""
    positions = np.array(batch.positions, dtype=np.int64) + first
    features: dict[str, np.ndarray] = {}
    if len(positions):
        padding = batch.pixels.new_zeros(len(batch.bad), *batch.pixels.shape[1:])  # keeps the size of the batch
        pixels = torch.cat([batch.pixels, padding]) if len(padding) else batch.pixels
        pixels = pixels.to(next(iter(encoders.values())).device, non_blocking=True)
        for name, encoder in encoders.items():
            encoded = encoder.encode_images(pixels)[: len(positions)].cpu()
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
            return _unpacked(store.unpack_arrays(store.read_checked(running), origin=running))
        except MismatchError as error:
            print(f"{error}: its images are encoded again", file=sys.stderr)
    return _concatenated([])


def _packed(part: Embedded, *, start: int) -> dict[str, np.ndarray]:
    """As arrays; positions count from `start`."""
    messages = json.dumps([[start + i, text] for i, text in sorted(part.skipped.items())])
    return {
        **{f"{FEATURES}{name}": features for name, features in part.features.items()},
        "positions": part.positions + start,
        "skipped": np.frombuffer(messages.encode(), dtype=np.uint8),
    }


def _unpacked(part: Mapping[str, np.ndarray]) -> Embedded:
    features = {name.removeprefix(FEATURES): array for name, array in part.items() if name.startswith(FEATURES)}
    return Embedded(features, part["positions"], dict(json.loads(part["skipped"].tobytes())))


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
    """`encode_files` for each list, in shards: a run after a kill continues from the last half minute.

    Args:
        encoders, batch_size, on_bad_image: as for `encode_files`.
        lists: image files, for example of each dataset.
        label: for the progress bar.
        owner: owner of the resume state.
        images_per_shard: approximate.

    Raises:
        ChangedError, DataError: as `encode_files`; also DataError where no image of a list can be decoded.
    """
    # Whole batches of any device, so that features do not depend on it.
    whole_batches = math.lcm(batch_size, min(batch_size, CPU_IMAGES))
    shard_size = max(1, images_per_shard // whole_batches) * whole_batches
    flops = sum(map(image_flops, encoders.values()))
    about = {
        "encoders": {name: encoder.id for name, encoder in encoders.items()},
        "preprocessing": next(iter(encoders.values())).preprocessing,
        "batch_size": batch_size,
        "on_bad_image": on_bad_image,
    }

    def encode(images: ImageList, rows: slice, running: Path) -> bytes:
        with process.timed(process.IMAGES):
            embedded = encode_files(
                encoders,
                paths=[remote.joined(images.root, path) for path in images.paths[rows]],
                digests=images.digests[rows],
                batch_size=batch_size,
                on_bad_image=on_bad_image,
                running=running if running.parent.is_dir() else None,  # a node of a cluster may not share the folder
            )
        process.add_flops(process.IMAGES, len(embedded.positions) * flops)
        return store.pack_arrays(_packed(embedded, start=rows.start))

    shards = []
    for images in lists:
        for start in range(0, len(images.paths), shard_size):
            rows = slice(start, min(start + shard_size, len(images.paths)))
            inputs = [about, start, list(images.digests[rows]), list(images.paths[rows])]
            running = owner.path(inputs, suffix=".running")
            shards.append(Shard(owner, inputs, partial(encode, images, rows, running), size=rows.stop - start))
    done = finish_shards(shards, label=label, unit="image", ticks=True, keep=False)
    parts = (_unpacked(store.unpack_arrays(payload, origin=label)) for payload in done)
    embedded = [_concatenated(list(islice(parts, -(-len(images.paths) // shard_size)))) for images in lists]
    for images, result in zip(lists, embedded, strict=True):
        if not result.features:
            raise DataError(f"{images.root}: none of the {len(images.paths)} images could be decoded")
    return embedded


def image_flops(encoder: Encoder) -> int:
    """FLOPs (multiplications and additions) of one image in the image tower; works on the meta device, too.

    0 where the preprocessing is the caller's own function, whose output size is unknown.
    """
    if "size" not in encoder.preprocessing:
        return 0
    size = encoder.preprocessing["size"]
    height, width = (size, size) if isinstance(size, int) else size
    weight = next(encoder.model.parameters())
    with FlopCounter() as counter, torch.no_grad():
        encoder.model.encode_image(torch.zeros(1, 3, height, width, device=weight.device, dtype=weight.dtype))  # type: ignore[operator]
    return counter.flops


# ----------------------------------------------------------------------------------------- stages embed and embed_train


def embed_added(
    model: Encoder,
    images: ImageList,
    *,
    params: EmbedParams,
    label: str,
    owner: Owner,
    images_per_shard: int = IMAGES_PER_SHARD,
    max_bytes: int = reuse.MAX_BYTES,
) -> tuple[Embedded, int]:
    """Encode one list, reusing features of images that an earlier run encoded; see `wsoup.images.reuse`.

    Args:
        model: the encoder; its features are those of `PRETRAINED`.
        images, params, label, owner, images_per_shard: as for `embed_images`.
        max_bytes: size limit of features kept for a later run.

    Returns:
        The features, and the number of images whose features were reused.

    Raises:
        ChangedError, DataError: as `embed_images`.
    """

    def embed(part: ImageList) -> Embedded:
        (embedded,) = embed_images(
            {PRETRAINED: model},
            lists=[part],
            batch_size=params.batch_size,
            on_bad_image=params.on_bad_image,
            label=label,
            owner=owner,
            images_per_shard=images_per_shard,
        )
        return embedded

    at_once = model.images_at_once(params.batch_size)
    kept = reuse.KeptFeatures(owner, [model.id, model.preprocessing, at_once, model.device.type], at_once, max_bytes)
    plan = reuse.plan(images.digests, known=kept.read(), batch_size=at_once)
    embedded, n_reused = None, 0
    if plan is not None:
        places = plan.encoded.tolist()
        new = embed(ImageList(images.root, [images.paths[i] for i in places], [images.digests[i] for i in places]))
        merged = plan.merged(new.features[PRETRAINED], positions=new.positions)
        if merged is None:
            print("features of an earlier run are not reproduced here: all images are encoded again")
        else:
            skipped = {places[i]: text for i, text in new.skipped.items()}
            embedded, n_reused = Embedded({PRETRAINED: merged[0]}, merged[1], skipped), len(plan.reused) - plan.fill
    if embedded is None:
        embedded = embed(images)
    kept.write(embedded.features[PRETRAINED], digests=images.digests, positions=embedded.positions)
    return embedded, n_reused


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
    embedded, n_reused = embed_added(model, images, params=params, label=f"embed {dataset} {split}", owner=owner)
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
    reused = f"; {n_reused} reused from an earlier run" if n_reused else ""
    print(f"{out}: {len(labels)} images, {features.shape[1]} dimensions, {model.id['model']}{reused}")
