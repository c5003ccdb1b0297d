"""Image features of lists of files, by one encoder or several, in shards that survive a kill."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from wsoup.core.disk import remote, store
from wsoup.core.disk.artifacts import PRETRAINED, Artifacts
from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.errors import DataError, MismatchError
from wsoup.core.params.encoder import EmbedParams, EncoderParams
from wsoup.images import known
from wsoup.images.cost import image_flops
from wsoup.images.decode import Picture, batches
from wsoup.runtime import process
from wsoup.runtime.progress import counting, tick
from wsoup.runtime.work import finish_shards, save_seconds
from wsoup.towers.encoder import CPU_IMAGES, Encoder, check_finite, load_encoder

IMAGES_PER_SHARD = 2048
"""About as many: a shard is of whole batches, so its size changes no feature."""
FEATURES = "features/"
"""Before an encoder's name, in the arrays of a shard."""


@dataclass(frozen=True)
class ImageList:
    """Image files of one dataset.

    Attributes:
        root: folder that `paths` are relative to.
        paths: N files.
        digests: N content digests, which the files must still have; None of one that cannot be read.
    """

    root: str | Path
    paths: Sequence[str]
    digests: Sequence[str | None]


@dataclass(frozen=True)
class Embedded:
    """Features of the files that could be decoded.

    Attributes:
        features: (N, D) float32 of each encoder, L2-normalised.
        positions: (N,) int64, positions of these images in the list asked for.
        skipped: error text of each file that was skipped, by position.
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
    """Encode image files in order, each decoded once for all encoders; each moves the bar that there is.

    Args:
        encoders: image towers by name; their preprocessing is the same.
        paths: N files, or N pictures.
        digests: N content digests, which the files must still have, or None.
        batch_size: images in one forward pass, at most.
        on_bad_image: ``"stop"`` or ``"skip"``, see `wsoup.images.decode.batches`.
        running: file that what is done is saved in every `save_seconds`, and begun from where it exists.

    Returns:
        What was found; without features where no image could be decoded.

    Raises:
        ChangedError: a file is not the one that was listed any more.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``.
        ModelError: the features of an image are not finite.
    """
    begun, every = _begun(running), math.inf if running is None else save_seconds()
    features = {name: [begun.features[name]] if name in begun.features else [] for name in encoders}
    positions, bad = [begun.positions], dict(begun.skipped)
    first, saved = len(begun.positions) + len(begun.skipped), time.monotonic()
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

    def so_far() -> Embedded:
        joined = {name: np.concatenate(parts) for name, parts in features.items() if parts}
        return Embedded(joined, np.concatenate(positions), bad)

    for batch in decoded:
        bad.update({first + i: text for i, text in batch.bad.items()})
        here = batch.positions.numpy() + first
        if len(batch.positions):
            room = batch.pixels.new_zeros(len(batch.bad), *batch.pixels.shape[1:])  # a batch stays as large
            pixels = torch.cat([batch.pixels, room]) if len(batch.bad) else batch.pixels
            for name, encoder in encoders.items():
                encoded = encoder.encode_images(pixels)[: len(here)].cpu()
                check_finite(encoded, paths=[str(paths[i]) for i in here.tolist()])
                features[name].append(encoded.numpy())
            positions.append(here)
        tick(len(batch.positions) + len(batch.bad))
        if running is not None and time.monotonic() - saved >= every:
            store.write_checked(running, store.pack_arrays(_packed(so_far(), start=0)))
            saved = time.monotonic()
    return so_far()


def _begun(running: Path | None) -> Embedded:
    """What a killed run had saved of the same images; nothing where there is none, or it is damaged."""
    if running is not None and running.exists():
        try:
            return _unpacked(store.unpack_arrays(store.read_checked(running), origin=running))
        except MismatchError as error:
            print(f"{error}: its images are encoded again", file=sys.stderr)
    return Embedded({}, np.empty(0, dtype=np.int64), {})


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
    """`encode_files` for each list, in shards: what a killed run had finished is reused, to half a minute.

    Args:
        encoders, batch_size, on_bad_image: as of `encode_files`.
        lists: image files, for example of each dataset.
        label: for the progress bar.
        owner: whose resume state finished shards are.
        images_per_shard: about so many.

    Raises:
        ChangedError, DataError: as `encode_files`; also DataError where no image of a list can be decoded.
    """
    inputs = {
        "encoders": {name: encoder.id for name, encoder in encoders.items()},
        "preprocessing": next(iter(encoders.values())).preprocessing,
        "batch_size": batch_size,
        "on_bad_image": on_bad_image,
    }
    size_of_shard = _size_of_shard(images_per_shard, batch_size=batch_size)
    flops = sum(map(image_flops, encoders.values()))
    work = [
        Shards(
            owner,
            inputs={
                **inputs,
                "images": store.fingerprint(list(images.digests)),
                "paths": store.fingerprint(list(images.paths)),
            },
            n=-(-len(images.paths) // size_of_shard),
        )
        for images in lists
    ]

    def part(shard: int) -> slice:
        return slice(shard * size_of_shard, (shard + 1) * size_of_shard)

    done = sum(
        len(images.paths[part(i)])
        for images, shards in zip(lists, work, strict=True)
        for i in range(shards.n)
        if shards.done(i)
    )
    with counting(label=label, total=sum(len(images.paths) for images in lists), initial=done, unit="image"):

        def task(number: int, shard: int) -> dict[str, np.ndarray]:
            images, where, kept = lists[number], part(shard), work[number].running(shard)
            with process.timed(process.IMAGES):
                embedded = encode_files(
                    encoders,
                    paths=[remote.joined(images.root, path) for path in images.paths[where]],
                    digests=images.digests[where],
                    batch_size=batch_size,
                    on_bad_image=on_bad_image,
                    running=kept if kept.parent.is_dir() else None,  # a node of a cluster may not share the folder
                )
            process.add_flops(process.IMAGES, len(embedded.positions) * flops)
            return _packed(embedded, start=where.start)

        def size(number: int, shard: int) -> int:
            return len(lists[number].paths[part(shard)])

        finish_shards(work, task=task, label=label, unit="shard", bar=False, size=size)
    return [_joined(shards.load(), images, encoders=encoders) for shards, images in zip(work, lists, strict=True)]


def _size_of_shard(about: int, *, batch_size: int) -> int:
    """About so many, in whole batches of any device, so that features do not depend on it."""
    batches_of_all = math.lcm(batch_size, min(batch_size, CPU_IMAGES))
    return max(1, about // batches_of_all) * batches_of_all


def _joined(
    parts: Sequence[Mapping[str, np.ndarray]], images: ImageList, *, encoders: Mapping[str, Encoder]
) -> Embedded:
    """The shards of one list as one."""
    embedded = [_unpacked(part) for part in parts]
    good = [part for part in embedded if len(part.positions)]
    if not good:
        raise DataError(f"{images.root}: none of the {len(images.paths)} images could be decoded")
    return Embedded(
        features={name: np.concatenate([part.features[name] for part in good]) for name in encoders},
        positions=np.concatenate([part.positions for part in good]),
        skipped={i: text for part in embedded for i, text in part.skipped.items()},
    )


def embed_added(
    model: Encoder,
    images: ImageList,
    *,
    params: EmbedParams,
    label: str,
    owner: Owner,
    images_per_shard: int = IMAGES_PER_SHARD,
    most_bytes: int = known.MOST_BYTES,
) -> tuple[Embedded, int]:
    """One list by one encoder, features of images that an earlier run saw taken from there; see `wsoup.images.known`.

    Args:
        model: the encoder; its features are those of `PRETRAINED`.
        images, params, label, owner, images_per_shard: as of `embed_images`.
        most_bytes: of features that are kept for a later run.

    Returns:
        What was found, and how many images of it an earlier run had seen.

    Raises:
        ChangedError, DataError: as `embed_images`.
    """

    def embed(some: ImageList) -> Embedded:
        size, bad = params.batch_size, params.on_bad_image
        (embedded,) = embed_images(
            {PRETRAINED: model},
            lists=[some],
            batch_size=size,
            on_bad_image=bad,
            label=label,
            owner=owner,
            images_per_shard=images_per_shard,
        )
        return embedded

    at_once = model.images_at_once(params.batch_size)
    earlier = known.Known(owner, [model.id, model.preprocessing, at_once, model.device.type], at_once, most_bytes)
    features = earlier.read()
    chosen = known.plan(images.digests, known=features, batch_size=at_once)
    embedded, reused = None, 0
    if chosen is not None:
        places = chosen.encoded.tolist()
        new = embed(ImageList(images.root, [images.paths[i] for i in places], [images.digests[i] for i in places]))
        whole = known.completed(
            images.digests, known=features, chosen=chosen, features=new.features[PRETRAINED], positions=new.positions
        )
        if whole is None:
            print("features kept from an earlier run come out otherwise here: all images are encoded anew")
        else:
            skipped = {places[i]: text for i, text in new.skipped.items()}
            embedded, reused = Embedded({PRETRAINED: whole[0]}, whole[1], skipped), len(chosen.reused) - chosen.fill
    if embedded is None:
        embedded = embed(images)
    earlier.write(embedded.features[PRETRAINED], digests=images.digests, positions=embedded.positions)
    return embedded, reused


def embed_split(dataset: str, *, split: str, encoder: EncoderParams, params: EmbedParams, owner: Owner) -> None:
    """Stages embed and embed_train: the images of one split of a manifest -> their features, as artifacts.

    Raises:
        MissingError: there is no manifest.
        DataError: it lists no image of the split, or see `embed_images`.
    """
    artifacts = Artifacts()
    manifest = store.require(artifacts.manifest(dataset), made_by=f"prepare@{dataset}")
    table = store.read_table(manifest, columns=["path", "digest", "label", "split"])
    about = store.table_attributes(manifest)
    rows = np.flatnonzero(np.asarray(table["split"]) == split)
    if not len(rows):
        raise DataError(f"{manifest} lists no {split} images of {dataset}; check datasets.{dataset} in params.yaml")
    chosen = table.take(rows)
    model = load_encoder(encoder)
    images = ImageList(about["root"], chosen["path"].to_pylist(), chosen["digest"].to_pylist())
    embedded, reused = embed_added(model, images, params=params, label=f"embed {dataset} {split}", owner=owner)
    skipped = [embedded.skipped[i] for i in sorted(embedded.skipped)]
    attributes = {
        **about,
        "split": split,
        "encoder": model.id,
        "preprocessing": model.preprocessing,
        "made_with": dict(owner.packages),
        "skipped": skipped,
        "images": store.fingerprint([images.digests[i] for i in embedded.positions.tolist()]),  # which, in which order
    }
    kept = rows[embedded.positions]
    labels = np.asarray(table["label"])[kept]
    out = artifacts.features(dataset, split=split)
    features = embedded.features[PRETRAINED]
    store.write_features(out, store.ImageFeatures(features, labels, kept, attributes))
    for text in skipped:
        print(f"skipped: {text}")
    kept_from = f"; {reused} as an earlier run found them" if reused else ""
    print(f"{out}: {len(labels)} images, {features.shape[1]} dimensions, {model.id['model']}{kept_from}")
