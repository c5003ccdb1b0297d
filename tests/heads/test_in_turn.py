"""Every labelled photo is judged by heads that have not seen it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from wsoup.heads import in_turn
from wsoup.heads.fewshot import FewShot
from wsoup.heads.in_turn import CLASS_MEANS, DRAWS, HEAD, each_once, judged_in_turn
from wsoup.report.answer import HEADS
from wsoup.statistics import advice

NAMES = ["left", "right"]
LABELS = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
IN_TRAIN = torch.tensor([1, 1, 0, 0, 0, 1, 1, 0, 0], dtype=torch.bool)


def on_a_circle(degrees: list[float]) -> torch.Tensor:
    radians = torch.tensor(degrees).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], dim=1)


FEATURES = on_a_circle([0, 2, 4, 6, 8, 90, 92, 94, 96])
SWAPPED = on_a_circle([90, 0])
"""Texts that are near the photos of the other class."""


def judged(**changed):
    given = {
        "in_train": IN_TRAIN,
        "head": SimpleNamespace(
            logit_scale=1.0,
            class_names=NAMES,
            kind="both",
            classifier=on_a_circle([4, 93]).T,
        ),
        "texts": {"class name": on_a_circle([0, 90]), "soup": SWAPPED},
        "of_head": "soup",
        "seed": 1,
    }
    return judged_in_turn(FEATURES, LABELS, **{**given, **changed})


def test_texts_are_judged_on_all_photos_and_heads_learn_what_texts_get_wrong():
    shares = judged()
    assert list(shares) == ["class name", "soup", CLASS_MEANS, HEAD], "the simplest first"
    assert shares["class name"].tolist() == [1.0] * 9
    assert shares["soup"].tolist() == [0.0] * 9
    assert shares[CLASS_MEANS].tolist() == [1.0] * 9
    assert shares[HEAD].tolist() == [1.0] * 9


def test_no_head_judges_a_photo_that_it_has_seen(monkeypatch):
    judged_by: list[torch.Tensor] = []
    choose = in_turn.choose

    def noted(shots: FewShot, *, kind: str) -> object:
        assert torch.bincount(shots.labels).tolist() == [2, 2], "as many shots as the head"
        nearest = torch.cdist(FEATURES.double(), shots.features).min(dim=1).values
        judged_by.append(nearest > 1e-6)
        return choose(shots, kind=kind)

    monkeypatch.setattr(in_turn, "choose", noted)
    shares = judged()[HEAD]
    assert len(judged_by) == DRAWS
    assert judged_by[0].tolist() == [True, True, False, False, True, True, True, False, False], "first, the unseen ones"
    assert len({tuple(unseen.tolist()) for unseen in judged_by}) == DRAWS, "each draw is another one"
    n_judged = (~IN_TRAIN).int() + torch.stack(judged_by).int().sum(dim=0)
    assert len(shares) == int((n_judged > 0).sum())


def test_a_photo_that_every_head_has_seen_is_left_out():
    all_of_one_class = torch.tensor([1, 1, 0, 0, 0, 1, 1, 1, 1], dtype=torch.bool)
    assert len(judged(in_train=all_of_one_class)[HEAD]) == 5


def test_the_row_of_the_heads_is_called_as_advice_calls_it():
    assert HEAD == advice.HEAD
    assert HEADS == {"means": CLASS_MEANS, "head": HEAD}


def test_copies_and_pictures_in_two_classes_are_not_judged():
    features = on_a_circle([0, 0, 40, 90, 90])
    labels = torch.tensor([0, 0, 0, 0, 1])
    assert each_once(features, labels).tolist() == [True, False, True, False, False]


def test_the_draws_depend_on_the_seed_alone():
    first = in_turn._drawn(LABELS, in_train=IN_TRAIN, draw=2, seed=1)
    assert torch.equal(first, in_turn._drawn(LABELS, in_train=IN_TRAIN, draw=2, seed=1))
    draws = {tuple(in_turn._drawn(LABELS, in_train=IN_TRAIN, draw=2, seed=seed).tolist()) for seed in range(9)}
    assert len(draws) > 1
    assert np.unique([sum(draw) for draw in draws]).tolist() == [4]
