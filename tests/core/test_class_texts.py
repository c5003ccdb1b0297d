"""Class texts: on a circle by hand, and what joins centroid and score mean."""

from __future__ import annotations

import math

import pytest
import torch

from wsoup.core.class_texts import ClassTexts
from wsoup.core.modes import MODES

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]
MEMBERS = torch.tensor([[EAST, NORTH], [NORTH, NORTH]])  # (M, C, D)


def test_two_members_on_a_circle():
    """The first class's texts are 90 degrees apart: their mean lies between them, shorter than they are."""
    texts = ClassTexts.of_members(MEMBERS)
    half = math.sqrt(0.5)
    assert texts.mean.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    torch.testing.assert_close(texts.centroids, torch.tensor([[half, half], [0.0, 1.0]]))
    assert MODES == ("centroid", "score_mean")
    assert torch.equal(texts.classifier("centroid"), texts.centroids)
    assert torch.equal(texts.classifier("score_mean"), texts.mean)


def test_members_may_have_weights():
    texts = ClassTexts.of_members(MEMBERS, weights=torch.tensor([0.75, 0.25]))
    assert texts.mean.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert torch.equal(
        ClassTexts.of_members(MEMBERS, weights=torch.tensor([0.5, 0.5])).mean, texts.of_members(MEMBERS).mean
    )


def test_a_score_mean_is_the_centroids_score_times_the_norm_of_the_mean():
    generator = torch.Generator().manual_seed(0)
    members = torch.nn.functional.normalize(torch.randn(5, 4, 8, generator=generator), dim=-1)
    image = torch.nn.functional.normalize(torch.randn(8, generator=generator), dim=-1)
    texts = ClassTexts.of_members(members)
    mean_score = torch.einsum("mcd,d->mc", members, image).mean(dim=0)
    torch.testing.assert_close(texts.classifier("score_mean") @ image, mean_score)
    torch.testing.assert_close(texts.centroids @ image * texts.mean.norm(dim=1), mean_score)


def test_sums_have_the_centroids_of_means():
    sums = MEMBERS.sum(dim=0)
    torch.testing.assert_close(ClassTexts(sums).centroids, ClassTexts.of_members(MEMBERS).centroids)
    several = ClassTexts(torch.stack([sums, 2 * sums]))
    assert several.centroids.shape == (2, 2, 2)
    assert several.centroids[0].norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
