"""Image features of lists of files, by one encoder or several, in shards that survive a kill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsoup import remote, store
from wsoup.artifacts import PRETRAINED, Artifacts
from wsoup.errors import DataError
from wsoup.images.decode import batches
from wsoup.params.encoder import EmbedParams, EncoderParams
from wsoup.runtime.progress import counting, tick
from wsoup.runtime.shards import Owner, Shards, finish_shards
from wsoup.store import fingerprint
from wsoup.towers import Encoder, check_finite, load_encoder

IMAGES_PER_SHARD = 2048


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
    paths: Sequence[str],
    digests: Sequence[str | None] | None,
    batch_size: int,
    on_bad_image: str,
) -> Embedded:
    """Encode image files in order and in one go, each decoded once for all encoders; each moves the bar that there is.

    Args:
        encoders: image towers by name; their preprocessing is the same.
        paths: N files.
        digests: N content digests, which the files must still have, or None.
        batch_size: images in one forward pass.
        on_bad_image: ``"stop"`` or ``"skip"``, see `wsoup.images.decode.batches`.

    Returns:
        What was found; without features where no image could be decoded.

    Raises:
        ChangedError: a file is not the one that was listed any more.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``.
        ModelError: the features of an image are not finite.
    """
    transform = next(iter(encoders.values())).preprocess
    decoded = batches(paths, transform=transform, batch_size=batch_size, digests=digests, on_bad_image=on_bad_image)
    features: dict[str, list[np.ndarray]] = {name: [] for name in encoders}
    positions, bad = [np.empty(0, dtype=np.int64)], {}
    for batch in decoded:
        bad.update(batch.bad)
        if len(batch.positions):
            for name, encoder in encoders.items():
                found = encoder.encode_images(batch.pixels).cpu()
                check_finite(found, paths=[paths[i] for i in batch.positions.tolist()])
                features[name].append(found.numpy())
            positions.append(batch.positions.numpy())
        tick(len(batch.positions) + len(batch.bad))
    joined = {name: np.concatenate(parts) for name, parts in features.items() if parts}
    return Embedded(joined, np.concatenate(positions), bad)


def embed_images(
    encoders: Mapping[str, Encoder],
    *,
    lists: Sequence[ImageList],
    batch_size: int,
    on_bad_image: str,
    label: str,
    owner: Owner,
) -> list[Embedded]:
    """`encode_files` for each list, in shards: those that a killed run had finished are reused.

    Args:
        encoders, batch_size, on_bad_image: as of `encode_files`.
        lists: image files, for example of each dataset.
        label: for the progress bar.
        owner: whose resume state finished shards are.

    Raises:
        ChangedError, DataError: as `encode_files`; also DataError where no image of a list can be decoded.
    """
    inputs = {
        "encoders": {name: encoder.id for name, encoder in encoders.items()},
        "preprocessing": next(iter(encoders.values())).preprocessing,
        "batch_size": batch_size,
        "on_bad_image": on_bad_image,
    }
    work = [
        Shards(
            owner,
            inputs={**inputs, "images": fingerprint(list(images.digests)), "paths": fingerprint(list(images.paths))},
            n=-(-len(images.paths) // IMAGES_PER_SHARD),
        )
        for images in lists
    ]
    done = sum(
        len(images.paths[_slice(i)])
        for images, shards in zip(lists, work, strict=True)
        for i in range(shards.n)
        if shards.done(i)
    )
    with counting(label=label, total=sum(len(images.paths) for images in lists), initial=done, unit="image"):

        def task(number: int, shard: int) -> dict[str, np.ndarray]:
            images, where = lists[number], _slice(shard)
            found = encode_files(
                encoders,
                paths=[remote.joined(images.root, path) for path in images.paths[where]],
                digests=images.digests[where],
                batch_size=batch_size,
                on_bad_image=on_bad_image,
            )
            messages = json.dumps([[where.start + i, text] for i, text in sorted(found.skipped.items())])
            return {
                **{f"features/{name}": features for name, features in found.features.items()},
                "positions": found.positions + where.start,
                "skipped": np.frombuffer(messages.encode(), dtype=np.uint8),
            }

        def size(number: int, shard: int) -> int:
            return len(lists[number].paths[_slice(shard)])

        finish_shards(work, task=task, label=label, unit="shard", bar=False, size=size)
    return [_joined(shards.load(), images, encoders=encoders) for shards, images in zip(work, lists, strict=True)]


def _slice(shard: int) -> slice:
    return slice(shard * IMAGES_PER_SHARD, (shard + 1) * IMAGES_PER_SHARD)


def _joined(
    parts: Sequence[Mapping[str, np.ndarray]], images: ImageList, *, encoders: Mapping[str, Encoder]
) -> Embedded:
    """The shards of one list as one."""
    good = [part for part in parts if len(part["positions"])]
    if not good:
        raise DataError(f"{images.root}: none of the {len(images.paths)} images could be decoded")
    skipped: dict[int, str] = {}
    for part in parts:
        skipped.update(json.loads(part["skipped"].tobytes()))
    return Embedded(
        features={name: np.concatenate([part[f"features/{name}"] for part in good]) for name in encoders},
        positions=np.concatenate([part["positions"] for part in good]),
        skipped=skipped,
    )


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
    (embedded,) = embed_images(
        {PRETRAINED: model},
        lists=[images],
        batch_size=params.batch_size,
        on_bad_image=params.on_bad_image,
        label=f"embed {dataset} {split}",
        owner=owner,
    )
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
    print(f"{out}: {len(labels)} images, {features.shape[1]} dimensions, {model.id['model']}")
