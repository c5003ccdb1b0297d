"""Accuracy during training: the averaged weights at regular intervals, on the same few images of every dataset.

The right panel of the paper's figure of diversity. Texts are those that a method was trained over, as their centroid
(the authors' figures/python_scripts/main_crossdataset.traineval.py), or the class name alone. The stage trains nothing:
it reads what `finetune` kept (`finetune.methods.<name>.snapshots`). Test images are seen through finetuned image towers
here: every image is decoded once for the models of all seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.draws import named_generator
from wsoup.evaluate.classifiers import Row
from wsoup.evaluate.counts import evaluate
from wsoup.evaluate.encoded import encode_rows
from wsoup.evaluate.testsets import TestSet
from wsoup.finetune.tuned import load_tuned, snapshots_in
from wsoup.images.features import ImageList, embed_images
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

COLUMNS = ("seed", "iteration", "dataset", "n_correct", "n_images")


def some_images(tests: Sequence[TestSet], *, images: int) -> list[TestSet]:
    """At most so many test images of each dataset, in their order: which ones depends on the dataset's name alone."""
    few = []
    for test in tests:
        drawn = named_generator("images during training", test.name).permutation(len(test.labels))[:images]
        kept = np.sort(drawn)
        where = torch.from_numpy(kept).to(test.labels.device)
        features, labels = test.image_features[where], test.labels[where]
        few.append(replace(test, image_features=features, labels=labels, rows=test.rows[kept]))
    return few


def trained_row(rows: Sequence[Row], *, soup: str) -> Row:
    """Of the rows of a tuned model, that of the texts it was trained over, cut to the members that it knew."""
    name = soup if soup == "class_name" else f"{soup}_soup"
    return next(row for row in rows if row.method == name and row.offsets == (0,))


def during_training(
    method: str,
    *,
    seed: int,
    row: Row,
    encoder: Encoder,
    tests: Sequence[TestSet],
    artifacts: Artifacts,
    batch_size: int,
    owner: Owner,
) -> list[list[Any]]:
    """Counts of every snapshot of one seed: lines of `COLUMNS`, none where params asked for no snapshots.

    Args:
        method, seed: whose training.
        row: its texts.
        encoder: the pretrained model.
        tests: `some_images`, as the pretrained model sees them.
        artifacts: where tuned weights and manifests lie.
        batch_size: images in one forward pass, where the image tower was trained.
        owner: whose resume state finished shards are.
    """
    folder, lines = artifacts.tuned(method, seed=seed), []
    for iteration in snapshots_in(folder):
        tuned = load_tuned(folder, encoder=encoder, iteration=iteration)
        seen = list(tests)
        if tuned.model.tunes_images:
            again = seen_by({seed: tuned}, tests=tests, artifacts=artifacts, batch_size=batch_size, owner=owner)
            seen = again[seed]
        classifiers = encode_rows(
            [row],
            class_rows={},
            tests=seen,
            encoder=tuned,
            texts=PromptEncoder.of(tuned),
            owner=owner,
            label=f"{method} seed {seed}, iteration {iteration}",
        )
        table = evaluate(classifiers, tests=seen, tokenizer=tuned.tokenizer, variant=method)
        lines += [
            [seed, iteration, line["dataset"], line["n_correct"], line["n_images"]]
            for line in table.to_pylist()
            if line["mode"] == "centroid"
        ]
    return lines


def seen_by(
    encoders: Mapping[int, Encoder],
    *,
    tests: Sequence[TestSet],
    artifacts: Artifacts,
    batch_size: int,
    owner: Owner,
) -> dict[int, list[TestSet]]:
    """The same datasets with the image features of each seed's model.

    Args:
        encoders: finetuned models by seed.
        tests: datasets as the pretrained model sees them; the images are theirs, so that counts can be paired.
        artifacts: where the manifests lie.
        batch_size: images in one forward pass.
        owner: whose resume state finished shards are.
    """
    by_dataset = embed_images(
        {str(seed): encoder for seed, encoder in encoders.items()},
        lists=[_images(test, manifest=artifacts.manifest(test.name)) for test in tests],
        batch_size=batch_size,
        on_bad_image="stop",  # what could not be decoded is not among the images any more
        label="test images",
        owner=owner,
    )
    return {
        seed: [
            replace(test, image_features=torch.from_numpy(embedded.features[str(seed)]).to(test.labels.device))
            for test, embedded in zip(tests, by_dataset, strict=True)
        ]
        for seed in encoders
    }


def _images(test: TestSet, *, manifest: Path) -> ImageList:
    """The image files of one dataset, in its order."""
    table = store.read_table(manifest, columns=["path", "digest"]).take(test.rows)
    return ImageList(test.attributes["root"], table["path"].to_pylist(), table["digest"].to_pylist())
