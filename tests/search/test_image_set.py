"""Counts, near ties, alignment and uniformity of candidates on the images of several seeds."""

from __future__ import annotations

import math

import pytest
import torch
from heads_cases import on_a_circle
from torch.nn import functional as F

from wsoup.core.class_texts import normalize
from wsoup.search.rank.image_set import ImageSet


def circle(*degrees: float) -> torch.Tensor:
    return on_a_circle(*degrees).float()


def random_features(*shape: int, seed: int = 0) -> torch.Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)))


def test_near_ties_are_counted_and_nothing_else():
    below_45 = F.normalize(torch.tensor([[1.0, 1 - 5e-7], [1.0, 1 - 1e-5]]))
    images = torch.cat([circle(0), circle(45), below_45, circle(46)])
    scored = ImageSet(images, labels=torch.zeros(5, dtype=torch.int64), n_classes=2, subsets=[torch.arange(5)])
    scores = scored.score(circle(0, 90)[None])
    # 0 degrees: clear; 45: equal; 4e-7 apart: near; 7e-6 apart: clear; 46: clearly wrong
    assert scores["near_ties"].tolist() == [[2]]


def test_alignment_and_uniformity_by_hand():
    images = ImageSet(circle(0, 90), labels=torch.tensor([0, 1]), n_classes=2, subsets=[torch.tensor([0, 1])])
    scores = images.score(circle(0, 60)[None])
    # image 0 lies on its text, image 1 is 30 degrees from its own; others' texts are 60 and 90 degrees away
    assert scores["n_correct"].tolist() == [[2]]
    assert scores["alignment"].item() == pytest.approx((1 + math.cos(math.pi / 6)) / 2, abs=1e-6)
    assert scores["uniformity"].item() == pytest.approx((0.5 + 0) / 2, abs=1e-6)
    alone = ImageSet(circle(0), labels=torch.tensor([0]), n_classes=1, subsets=[torch.tensor([0])])
    assert math.isnan(alone.score(circle(0)[None])["uniformity"].item()), "with one class there are no others"


def test_overlapping_subsets_are_scored_as_if_alone():
    features, texts = random_features(12, 4), random_features(3, 4, 4, seed=1)
    labels = torch.arange(12) % 4
    subsets = [torch.arange(8), torch.arange(4, 12)]
    together = ImageSet(features, labels=labels, n_classes=4, subsets=subsets).score(texts)
    for k, index in enumerate(subsets):
        cosines = torch.einsum("nd,pcd->pnc", features[index], texts)
        own = torch.nn.functional.one_hot(labels[index], 4).bool().expand_as(cosines)
        assert torch.allclose(together["alignment"][k].float(), cosines[own].view(3, -1).mean(1), atol=1e-6)
        assert torch.allclose(together["uniformity"][k].float(), cosines[~own].view(3, -1).mean(1), atol=1e-6)
