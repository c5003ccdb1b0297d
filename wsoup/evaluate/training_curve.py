"""Accuracy during training, on a sample of the test images.

It is the right panel of the paper's diversity figure: snapshots of the averaged weights, kept by
stage finetune (`finetune.methods.<name>.snapshots`), are evaluated with the centroid of the texts that the method was
trained on (the authors' figures/python_scripts/main_crossdataset.traineval.py) or the class name alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from wsoup.core.draws import named_generator
from wsoup.evaluate.evaluation import answers_of, evaluate, mean_texts
from wsoup.evaluate.rows import Row, row_name
from wsoup.evaluate.seen import plan_seen
from wsoup.evaluate.testsets import TestSet
from wsoup.finetune.tuned import load_tuned, snapshots_in
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.run import Run


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
        seen = plan_seen(run, {seed: tuned}, tests=sample, batch_size=batch_size).seen()[seed]
        label = f"{method} seed {seed}, iteration {iteration}"
        student: Any = tuned.model
        of_tuned = replace(run, encoder=tuned)
        classifiers = mean_texts([row], tests=seen, text_encoder=PromptEncoder.of(tuned), run=of_tuned, label=label)
        classifiers = classifiers.with_class_weights(row, student.class_directions())
        answers = answers_of(classifiers, tests=seen)
        for line in evaluate(answers, tokenizer=tuned.tokenizer, variant=method).to_pylist():
            if line["mode"] == "centroid":
                lines.append((seed, iteration, line["dataset"], line["n_correct"], line["n_images"]))
    return lines
