"""Image features of a list of files, in shards that survive a kill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsoup import store
from wsoup.artifacts import Artifacts
from wsoup.errors import DataError
from wsoup.images.decode import batches
from wsoup.params.encoder import EmbedParams, EncoderParams
from wsoup.runtime.progress import counting, tick
from wsoup.runtime.shards import Owner, Shards, finish_shards
from wsoup.store import fingerprint
from wsoup.towers import Encoder, load_encoder

IMAGES_PER_SHARD = 2048


@dataclass(frozen=True)
class Embedded:
    """Features of the files that could be decoded.

    Attributes:
        features: (N, D) float32, L2-normalised.
        positions: (N,) int64, positions of these images in the list asked for.
        skipped: error text of each file that was skipped, by position.
    """

    features: np.ndarray
    positions: np.ndarray
    skipped: dict[int, str]


def encode_files(
    encoder: Encoder,
    *,
    paths: Sequence[str],
    digests: Sequence[str | None] | None,
    batch_size: int,
    on_bad_image: str,
) -> Embedded:
    """Encode image files in order, in one go; arguments as of `embed_images`; moves the bar of `counting`.

    Raises:
        ChangedError: a file is not the one that was listed any more.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``.
    """
    decoded = batches(
        paths, transform=encoder.preprocess, batch_size=batch_size, digests=digests, on_bad_image=on_bad_image
    )
    features, positions, bad = [np.empty((0, 0), dtype=np.float32)], [np.empty(0, dtype=np.int64)], {}
    for batch in decoded:
        bad.update(batch.bad)
        if len(batch.positions):
            features.append(encoder.encode_images(batch.pixels).cpu().numpy())
            positions.append(batch.positions.numpy())
        tick(len(batch.positions) + len(batch.bad))
    return Embedded(np.concatenate(features[1:] or features), np.concatenate(positions), bad)


def embed_images(
    encoder: Encoder,
    *,
    root: str | Path,
    paths: Sequence[str],
    digests: Sequence[str | None],
    batch_size: int,
    on_bad_image: str,
    label: str,
    owner: Owner,
) -> Embedded:
    """Encode image files in order; finished shards of an earlier, killed run are reused.

    Args:
        encoder: image tower and preprocessing.
        root: folder that `paths` are relative to.
        paths: N files.
        digests: N content digests, which the files must still have (None: of a file that cannot be read); with encoder
            and preprocessing they name the resume folder.
        batch_size: images in one forward pass.
        on_bad_image: ``"stop"`` or ``"skip"``, see `wsoup.images.decode.batches`.
        label: for the progress bar.
        owner: whose resume state finished shards are.

    Raises:
        ChangedError: a file is not the one that was listed any more.
        DataError: a file cannot be decoded and `on_bad_image` is ``"stop"``, or no image is left.
    """
    inputs = {
        "encoder": encoder.id,
        "preprocessing": encoder.preprocessing,
        "images": fingerprint(list(digests)),
        "paths": fingerprint(list(paths)),
        "batch_size": batch_size,
        "on_bad_image": on_bad_image,
    }
    shards = Shards(owner, inputs=inputs, n=-(-len(paths) // IMAGES_PER_SHARD))

    done = sum(min(IMAGES_PER_SHARD, len(paths) - i * IMAGES_PER_SHARD) for i in range(shards.n) if shards.done(i))
    with counting(label=label, total=len(paths), initial=done, unit="image"):

        def task(_: int, shard: int) -> dict[str, np.ndarray]:
            start = shard * IMAGES_PER_SHARD
            stop = start + IMAGES_PER_SHARD
            found = encode_files(
                encoder,
                paths=[str(Path(root) / path) for path in paths[start:stop]],
                digests=digests[start:stop],
                batch_size=batch_size,
                on_bad_image=on_bad_image,
            )
            messages = json.dumps([[start + i, text] for i, text in sorted(found.skipped.items())])
            return {
                "features": found.features,
                "positions": found.positions + start,
                "skipped": np.frombuffer(messages.encode(), dtype=np.uint8),
            }

        finish_shards([shards], task=task, label=label, unit="shard", bar=False)
    parts = [part for part in shards.load() if len(part["positions"])]
    if not parts:
        raise DataError(f"{root}: none of the {len(paths)} images could be decoded")
    skipped: dict[int, str] = {}
    for part in shards.load():
        skipped.update(json.loads(part["skipped"].tobytes()))
    return Embedded(
        features=np.concatenate([part["features"] for part in parts]),
        positions=np.concatenate([part["positions"] for part in parts]),
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
    table, about = store.read_table(manifest), store.table_attributes(manifest)
    rows = np.flatnonzero(np.asarray(table["split"]) == split)
    if not len(rows):
        raise DataError(f"{manifest} lists no {split} images of {dataset}; check datasets.{dataset} in params.yaml")
    chosen = table.take(rows)
    model = load_encoder(encoder)
    embedded = embed_images(
        model,
        root=about["root"],
        paths=chosen["path"].to_pylist(),
        digests=chosen["digest"].to_pylist(),
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
    }
    kept = rows[embedded.positions]
    labels = np.asarray(table["label"])[kept]
    out = artifacts.features(dataset, split=split)
    store.write_features(out, store.ImageFeatures(embedded.features, labels, kept, attributes))
    for text in skipped:
        print(f"skipped: {text}")
    print(f"{out}: {len(labels)} images, {embedded.features.shape[1]} dimensions, {model.id['model']}")
