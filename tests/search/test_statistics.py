"""k2 and the standard error of the gain: by hand, against plain loops in float64, and with little memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from processes import ROOT

from wsoup.core import scoring
from wsoup.core.class_texts import normalize
from wsoup.core.scoring import AT_ONCE, AtOnce
from wsoup.search.rank.image_set import ImageSet
from wsoup.search.rank.statistics import COLUMNS, statistics


def test_a_column_is_computed_declared_and_documented():
    images, texts = random_case()
    computed = statistics(images, texts, baseline_right=torch.zeros(60, dtype=torch.bool))
    assert set(computed) == set(COLUMNS), "COLUMNS of wsoup/search/rank/statistics.py names what `statistics` computes"
    page = (ROOT / "docs/pipeline.md").read_text()
    for name, meaning in COLUMNS.items():
        assert f"| `{name}` | {meaning} |" in page, f"docs/pipeline.md needs a line: | `{name}` | {meaning} |"


def circle(*degrees: float) -> torch.Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=-1).float()


def random_case(*, images: int = 60, classes: int = 5, candidates: int = 7, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    features = normalize(torch.randn(images, 8, generator=generator))
    texts = normalize(torch.randn(candidates, classes, 8, generator=generator))
    labels = torch.randint(classes, (images,), generator=generator)
    subsets = [torch.randperm(images, generator=generator)[: images * 2 // 3] for _ in range(3)]
    return ImageSet(features, labels=labels, n_classes=classes, subsets=subsets), texts


def plain_k2(x, y, text) -> float:
    """The formula, one image at a time, in float64."""
    cosines = x.double().numpy() @ text.double().numpy().T  # (N, C)
    sigma = np.mean([np.std(row) for row in cosines])
    total = 0.0
    for row, label in zip(cosines, y.tolist(), strict=True):
        logits = 2 * row / sigma
        total += logits[label] - math.log(np.exp(logits).sum())
    return total / len(y)


def plain_gain_se(right, baseline_right) -> float:
    """n times the standard error of the mean paired difference."""
    difference = np.asarray(right, dtype=float) - np.asarray(baseline_right, dtype=float)
    return math.sqrt(len(difference)) * difference.std()


def check_against_plain_loops(images: ImageSet, texts: torch.Tensor, *, at_once: AtOnce = AT_ONCE) -> None:
    baseline_right = scoring.Scores(images.image_features, texts[:1]).right(images.labels)[0]
    scored = statistics(images, texts, baseline_right=baseline_right, at_once=at_once)
    assert scored["k2"].dtype == scored["gain_se"].dtype == torch.float64
    for name, column in images.score(texts).items():
        assert torch.equal(scored[name], column), name
    for k, index in enumerate(images.subsets):
        scores = {name: column[k] for name, column in scored.items()}
        x, y = images.image_features[index], images.labels[index]
        for p, text in enumerate(texts):
            assert scores["k2"][p].item() == pytest.approx(plain_k2(x, y, text), rel=1e-5)
            right = scoring.Scores(x, text[None]).right(y)[0]
            assert scores["gain_se"][p].item() == pytest.approx(plain_gain_se(right, baseline_right[index]), abs=1e-9)
        assert scores["gain_se"][0] == 0, "the class name against itself"


@pytest.mark.parametrize("seed", range(3))
def test_statistics_equal_plain_loops(seed):
    check_against_plain_loops(*random_case(seed=seed))


@pytest.mark.parametrize("seed", range(2))
def test_without_likelihoods_everything_else_is_the_same(seed):
    images, texts = random_case(images=400, classes=300, seed=seed)
    baseline_right = scoring.Scores(images.image_features, texts[:1]).right(images.labels)[0]
    whole = statistics(images, texts, baseline_right=baseline_right)
    counted = statistics(images, texts, baseline_right=baseline_right, likelihood=False)
    assert counted["k2"].isnan().all()
    assert counted["k2"].shape == whole["k2"].shape
    for name in whole.keys() - {"k2"}:
        assert torch.equal(counted[name], whole[name]), (
            f"wsoup/search/rank/statistics.py: {name} differs without a likelihood, where only k2 may be empty; "
            "compute it in both branches of `statistics`"
        )


@pytest.mark.parametrize(("block", "most"), [(64, 64), (150, 10_000), (16, 4)])
def test_statistics_do_not_depend_on_block_sizes(block, most):
    """Blocks of candidates, of images, and scores that are computed twice because they are not kept."""
    check_against_plain_loops(*random_case(), at_once=AtOnce(scores=block, kept=most, softmax=12))


@pytest.mark.parametrize("passes", [1, 37, 1000])
def test_where_blocks_end_changes_no_bit(passes):
    images, texts = random_case(images=300, classes=11)
    baseline_right = scoring.Scores(images.image_features, texts[:1]).right(images.labels)[0]
    whole = statistics(images, texts, baseline_right=baseline_right)
    in_blocks = statistics(images, texts, baseline_right=baseline_right, at_once=AtOnce(passes=passes))
    for name, column in whole.items():
        assert torch.equal(in_blocks[name], column), name


def test_k2_by_hand():
    """Two classes at 0 and 90 degrees, one image on its own class: cosines 1 and 0, sigma 1/2, logits 4 and 0."""
    images = ImageSet(circle(0), labels=torch.tensor([0]), n_classes=2, subsets=[torch.tensor([0])])
    scores = statistics(images, circle(0, 90)[None], baseline_right=torch.tensor([True]))
    assert scores["k2"].item() == pytest.approx(-math.log1p(math.exp(-4)), rel=1e-5)


@pytest.mark.parametrize("kept", [AT_ONCE.kept, 2])
def test_near_ties_are_counted_beside_the_answers(kept):
    """Own text at 0 degrees, the other at 90: images at 45 degrees, and 4e-7 and 7e-6 away from an equal score."""
    near_45 = normalize(torch.tensor([[1.0, 1 - 5e-7], [1.0, 1 - 1e-5]]))
    images = torch.cat([circle(0), circle(45), near_45, circle(46)])
    subsets = [torch.arange(5), torch.tensor([0, 2, 4])]
    given = ImageSet(images, labels=torch.zeros(5, dtype=torch.int64), n_classes=2, subsets=subsets)
    scored = statistics(
        given, circle(0, 90)[None], baseline_right=torch.zeros(5, dtype=torch.bool), at_once=AtOnce(kept=kept)
    )
    assert scored["near_ties"].tolist() == [[2], [1]]


def test_texts_that_cannot_tell_classes_apart_have_the_likelihood_of_chance():
    images = ImageSet(circle(0, 10), labels=torch.tensor([0, 1]), n_classes=2, subsets=[torch.arange(2)])
    scores = statistics(images, circle(30, 30)[None], baseline_right=torch.tensor([True, False]))
    assert scores["k2"].item() == pytest.approx(math.log(0.5))
    alone = ImageSet(circle(0, 10), labels=torch.tensor([0, 0]), n_classes=1, subsets=[torch.arange(2)])
    scores = statistics(alone, circle(30)[None], baseline_right=torch.tensor([True, True]))
    assert scores["k2"].item() == 0, "one class is always certain"
