"""How far a classifier goes towards an estimated one: by hand on a line, and at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from wsoup.photos.estimation import Adapted
from wsoup.photos.partly import between, crossings, explained, step


def line(*slopes: float, bias: tuple[float, ...]) -> Adapted:
    """A classifier of images with one feature."""
    return Adapted(torch.tensor([slopes]), torch.tensor(bias), True, "")


START = line(1.0, -1.0, bias=(0.0, 0.0))
END = line(1.0, -1.0, bias=(-4.0, 4.0))
"""The second class wins below 0 at the start, below 4 at the end, and below 4 t on the way."""
IMAGES = torch.tensor([[-1.0], [1.0], [2.0], [3.0], [8.0]])


def answers(share: float) -> list[int]:
    return between(START, END, share=share).labels_of(IMAGES).tolist()


def test_an_answer_changes_where_another_class_overtakes_it():
    assert crossings(IMAGES, start=START, end=END).tolist() == pytest.approx([math.inf, 0.25, 0.5, 0.75, math.inf])


def test_the_way_ends_midway_between_the_last_change_and_the_first_refused():
    steps = [step(IMAGES, start=START, end=END, at_most=n) for n in range(6)]
    assert steps == pytest.approx([0, 0.375, 0.625, 1, 1, 1])
    assert [answers(share) for share in steps[:4]] == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
    ]


def test_copies_of_an_image_change_together_or_not_at_all():
    images = torch.tensor([[1.0], [2.0], [2.0], [3.0]])
    assert step(images, start=START, end=END, at_most=2) == pytest.approx(0.375)
    assert step(images, start=START, end=END, at_most=3) == pytest.approx(0.625)


@pytest.mark.parametrize("at_most", [1, 7, 30])
def test_no_more_answers_change_than_may(at_most):
    """Random classifiers of random images, of which two thirds would change."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randn(100, 6, generator=draw)
    start, end = (Adapted(torch.randn(6, 4, generator=draw), torch.randn(4, generator=draw), True, "") for _ in "12")
    share = step(images, start=start, end=end, at_most=at_most)
    changed = between(start, end, share=share).labels_of(images) != start.labels_of(images)
    assert int(changed.sum()) == at_most


# ------------------------------------------------------------------------------------------------ explained variance


def adjusted(features: Tensor, groups: list[int], n_classes: int) -> float:
    return explained(features, answers=torch.tensor(groups), n_classes=n_classes)


def test_explained_variance_by_hand():
    """Squares around the mean add up to 20, within two groups of neighbours to 4: 1 - (4 / 2) / (20 / 3)."""
    images = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    assert adjusted(images, [0, 0, 1, 1], 2) == pytest.approx(1 - (4 / 2) / (20 / 3))
    assert adjusted(images + 100, [0, 0, 1, 1], 2) == pytest.approx(0.7, abs=1e-4)
    assert adjusted(images, [0, 1, 0, 1], 2) == 0
    assert adjusted(images[[0, 0, 2, 2]], [0, 0, 1, 1], 2) == 1


def test_groups_drawn_at_random_explain_nothing_on_average():
    draw = torch.Generator().manual_seed(0)
    images = torch.randn(60, 50, generator=draw)
    groups = [torch.randint(20, (60,), generator=draw).tolist() for _ in range(20)]
    shares = [adjusted(images, group, 20) for group in groups]
    assert sum(shares) / len(shares) < 0.02


def test_images_that_are_all_the_same_have_no_variance():
    assert adjusted(torch.full((30, 7), 0.1), [0, 1, 2] * 10, 3) == 0
