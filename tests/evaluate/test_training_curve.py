"""Accuracy during training: which images, which texts, and counts of the model as it was at each snapshot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from wsoup.core.class_texts import normalize
from wsoup.core.prompts import ending
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.rows import Row
from wsoup.evaluate.training_curve import during_training, sample_images, trained_row
from wsoup.finetune.tune_params import PromptTune
from wsoup.finetune.tuned import load_tuned, pack_student, save_tuned
from wsoup.finetune.tuners import make_student
from wsoup.towers.run import Run


def test_sampled_images_are_the_same_always_and_in_order(tests):
    sample = sample_images(tests, size=25)
    assert [len(test.labels) for test in sample] == [25, 25, 20]
    again = sample_images([tests[0]], size=25)[0]
    assert torch.equal(sample[0].image_features, again.image_features)
    assert list(sample[0].rows) == sorted(sample[0].rows) != list(tests[0].rows[:25])
    assert torch.equal(sample[0].labels, tests[0].labels[torch.from_numpy(sample[0].rows - 100)])
    assert set(sample_images([tests[0]], size=5)[0].rows) < set(sample[0].rows)
    renamed = sample_images([replace(tests[0], name="another")], size=25)[0]
    assert set(renamed.rows) != set(sample[0].rows), "each dataset has a draw of its own"


def test_the_row_has_the_texts_that_were_trained_on():
    rows = [
        Row("class_name", (1,), ("",)),
        Row("word_soup", (1,), ("a",)),
        Row("word_soup", (1,), ("a", "b")),
        Row("word_soup", (1,), ("a", "b"), offsets=(0, 5)),
    ]
    assert trained_row(rows, soup="word").texts == ("a",)  # the row of the members that were trained on comes first
    assert trained_row(rows, soup="class_name").texts == ("",)
    assert trained_row(rows[::-1], soup="word").offsets == (0,)


@pytest.fixture
def tuned(in_tmp: Path, tiny_encoder) -> Artifacts:
    """A trained prompt, with snapshots of earlier ones."""
    student = make_student(
        tiny_encoder.model,
        tokenizer=tiny_encoder.tokenizer,
        tune=PromptTune(kind="prompt", tokens=3),
        template="a photo of a {}.",
        generator=torch.Generator(),
    )
    start = student.soft_prompt.detach().clone()
    # No constant, which the first layer norm would take away.
    direction = torch.randn(start.shape, generator=torch.Generator().manual_seed(0))
    snapshots = {i: {"soft_prompt": start + i * direction} for i in (0, 2, 3)}
    with torch.no_grad():
        student.soft_prompt.copy_(snapshots[3]["soft_prompt"])
    config = {"encoder": tiny_encoder.id, "method": "coop", "seed": 1, "template": "a photo of a {}."}
    tune = {"tune": {"kind": "prompt", "tokens": 3}}
    folder = Artifacts().tuned("coop", seed=1)
    save_tuned(folder, packed=pack_student(student, log=[], snapshots=snapshots), config=config | tune)
    return Artifacts()


def test_counts_are_of_the_model_as_it_was(tuned, tiny_encoder, tests):
    """By the centroid, though the mean of scores, which some images tell apart, is counted beside it."""
    sample, owner = sample_images(tests, size=40), Owner("evaluate_tuned@coop", "", {})
    row = Row("word_soup", (1,), ("sharp old", "which is red", "", "x"))
    run = Run(owner, "photo", (1,), tiny_encoder, tuned)
    trained = {"soup": "word", "snapshots": {"images": 40}}
    lines = during_training(run, "coop", seed=1, rows=[row], trained=trained, tests=tests, batch_size=4)
    assert [line[:3] for line in lines] == [(1, i, test.name) for i in (0, 2, 3) for test in sample]
    by_score_mean = []
    for (_, iteration, _, n_correct, n_images), test in zip(lines, sample * 3, strict=True):
        then = load_tuned(tuned.tuned("coop", seed=1), encoder=tiny_encoder, iteration=iteration)
        prompts = [[f"{stem}{ending(text, period=True)}" for stem in test.stems] for text in row.texts]
        features = torch.stack([then.encode_texts(texts) for texts in prompts])  # (M, C, D)
        right = (test.image_features @ normalize(features.mean(dim=0)).T).argmax(dim=1) == test.labels
        assert (n_correct, n_images) == (int(right.sum()), len(test.labels))
        mean_right = (test.image_features @ features.mean(dim=0).T).argmax(dim=1) == test.labels
        by_score_mean.append(int(mean_right.sum()))
    counts = [line[3] for line in lines]
    assert by_score_mean != counts
    assert len({tuple(counts[first : first + 3]) for first in (0, 3, 6)}) == 3, "each snapshot has counts of its own"
