"""Test images as finetuned models see them, and accuracy during training on a sample of them.

Accuracy during training is the right panel of the paper's diversity figure: snapshots of the averaged weights, kept by
stage finetune (`finetune.methods.<name>.snapshots`), are evaluated with the centroid of the texts that the method was
trained on (the authors' figures/python_scripts/main_crossdataset.traineval.py) or the class name alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wsoup.core.draws import named_generator
from wsoup.disk import store
from wsoup.evaluate.answers import Answers
from wsoup.evaluate.counts import answers_of, evaluate, mean_texts
from wsoup.evaluate.rows import Row, row_name
from wsoup.evaluate.testsets import TestSet, held_if_small
from wsoup.finetune.tuned import load_tuned, snapshots_in
from wsoup.images.embed import ImageList, embed_images
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.run import Run
from wsoup.towers.encoder import Encoder

SEEDS_AT_ONCE = 3
"""Models of as many seeds share a pass over the images; a further seed finds what these have encoded before."""


def sample_images(tests: Sequence[TestSet], *, size: int) -> list[TestSet]:
    """At most `size` test images of each dataset, in order; the dataset's name alone decides which."""
    samples = []
    for test in tests:
        generator = named_generator("images during training", test.name)
        kept = np.sort(generator.permutation(len(test.labels))[:size])
        index = torch.from_numpy(kept).to(test.labels.device)
        parts = []
        for block, features in test.blocks():
            in_block = index[(index >= block.start) & (index < block.stop)]
            parts.append(features[in_block - block.start])
        samples.append(replace(test, image_features=torch.cat(parts), labels=test.labels[index], rows=test.rows[kept]))
    return samples


def trained_row(rows: Sequence[Row], *, soup: str) -> Row:
    """The row of a tuned model with the texts, and the number of members, that it was trained on."""
    return next(row for row in rows if row.method == row_name(soup) and row.offsets == (0,))


def during_training(
    run: Run,
    method: str,
    *,
    seed: int,
    rows: Sequence[Row],
    trained: Mapping[str, Any],
    tests: Sequence[TestSet],
    batch_size: int,
) -> list[tuple[int, int, str, int, int]]:
    """(seed, iteration, dataset, n_correct, n_images) of every snapshot of one seed; none if there are no snapshots.

    Args:
        run: the run, with the pretrained model.
        method, seed: name the training run.
        rows: of the tuned model.
        trained: params of the method: its soup, and how many images of each dataset are evaluated.
        tests: with features of the pretrained model.
        batch_size: images in one forward pass, if the image tower was trained.
    """
    folder = run.artifacts.tuned(method, seed=seed)
    iterations = snapshots_in(folder)
    if not iterations:
        return []
    row = trained_row(rows, soup=trained["soup"])
    lines = []
    sample = sample_images(tests, size=trained["snapshots"]["images"])
    for iteration in iterations:
        tuned = load_tuned(folder, encoder=run.encoder, iteration=iteration)
        seen = seen_by(run, {seed: tuned}, tests=sample, batch_size=batch_size)[seed]
        label = f"{method} seed {seed}, iteration {iteration}"
        answers = encode_and_answer(replace(run, encoder=tuned), rows=[row], tests=seen, label=label)
        for line in evaluate(answers, tokenizer=tuned.tokenizer, variant=method).to_pylist():
            if line["mode"] == "centroid":
                lines.append((seed, iteration, line["dataset"], line["n_correct"], line["n_images"]))
    return lines


def encode_and_answer(
    run: Run, *, rows: Sequence[Row], tests: Sequence[TestSet], label: str, soups: Sequence[str] = ()
) -> list[Answers]:
    """What rows make of the images with the run's encoder, a finetuned model, whose features `tests` have; resumable.

    Which images are right is kept of class name, templates and `soups`.
    """
    classifiers = mean_texts(rows, tests=tests, text_encoder=PromptEncoder.of(run.encoder), run=run, label=label)
    return answers_of(classifiers, tests=tests, soups=soups)


def seen_by(
    run: Run, tuned: Mapping[int, Encoder], *, tests: Sequence[TestSet], batch_size: int
) -> dict[int, Sequence[TestSet]]:
    """The same datasets with the image features of each seed's model.

    If any model tuned its image tower, every image is decoded once for the models of `SEEDS_AT_ONCE` seeds.

    Args:
        run: the run.
        tuned: finetuned models by seed.
        tests: datasets with features of the pretrained model; the images stay the same, so counts can be paired.
        batch_size: images in one forward pass.
    """
    # Where only texts were trained, image features are the pretrained model's, and no file is read again.
    if not any(encoder.model.tunes_images for encoder in tuned.values()):
        return dict.fromkeys(tuned, tests)
    seen: dict[int, Sequence[TestSet]] = {}
    for start in range(0, len(tuned), SEEDS_AT_ONCE):
        seeds = list(tuned)[start : start + SEEDS_AT_ONCE]
        by_dataset = embed_images(
            {str(seed): tuned[seed] for seed in seeds},
            lists=[_images(test, manifest=run.artifacts.manifest(test.name)) for test in tests],
            batch_size=batch_size,
            # Images that cannot be decoded were left out before.
            on_bad_image="stop",
            label="test images",
            owner=run.owner,
        )
        for seed in seeds:
            own = []
            for test, embedded in zip(tests, by_dataset, strict=True):
                features = held_if_small(embedded.features[str(seed)], device=test.labels.device)
                own.append(replace(test, image_features=features))
            seen[seed] = own
    return seen


def _images(test: TestSet, *, manifest: Path) -> ImageList:
    """The image files of one dataset, in its order."""
    files = store.read_table(manifest, columns=["path", "digest"])
    return ImageList(test.attributes["root"], files.take(test.rows))
