"""Piles of test images: what each regime contains, and that positions reveal nothing about labels."""

from __future__ import annotations

import numpy as np
import pytest

from wsoup.evaluate import piles

LABELS = np.repeat(np.arange(10), 50)
ABOUT = {"dataset": "pets", "role": "xd", "class_names": [str(c) for c in range(10)]}


@pytest.fixture
def drawn() -> dict[str, np.ndarray]:
    return dict(piles.drawn(LABELS, n_classes=10, dataset="pets", seed=1))


def test_all_and_both_streams_contain_every_image_once(drawn):
    for regime in ("all", "stream", "sorted"):
        assert sorted(drawn[regime].tolist()) == list(range(500))


def test_imbalanced_thins_classes_out_evenly_to_a_tenth(drawn):
    sizes = sorted(np.bincount(LABELS[drawn["imbalanced"]]), reverse=True)
    assert sizes == [50, 39, 30, 24, 18, 14, 11, 9, 7, 5]  # 50 x 10^(-r/9), rounded up


def test_a_fifth_of_ten_classes_is_two_with_all_their_images(drawn):
    assert sorted(np.bincount(LABELS[drawn["fifth"]]).tolist(), reverse=True)[:3] == [50, 50, 0]
    three_classes = piles.drawn(np.array([0, 1, 2]), n_classes=3, dataset="pets", seed=1)
    assert len(three_classes["fifth"]) == 2  # never one class alone


def test_stream_is_mixed_and_sorted_goes_class_by_class(drawn):
    turns = {name: int((np.diff(LABELS[drawn[name]]) != 0).sum()) for name in ("stream", "sorted")}
    assert turns["sorted"] == 9
    assert turns["stream"] > 400


def test_draws_differ_by_seed():
    first, again, other = (piles.drawn(LABELS, n_classes=10, dataset="pets", seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[regime], again[regime]) for regime in piles.REGIMES)
    assert not np.array_equal(first["imbalanced"], other["imbalanced"])


def test_the_order_of_images_is_independent_of_labels():
    order = piles.order(500, dataset="pets")
    assert sorted(order.tolist()) == list(range(500))
    assert abs(np.corrcoef(LABELS[order], np.arange(500))[0, 1]) < 0.1


def test_a_line_has_the_labels_of_its_images_and_a_batch_size_for_streams():
    lines = {line["regime"]: line for line in piles.lines(LABELS, about=ABOUT, seed=1)}
    assert [*lines] == [*piles.REGIMES]
    for line in lines.values():
        assert line["labels"].tolist() == LABELS[line["images"]].tolist()
        assert line["batch"] == (64 if line["regime"] in ("stream", "sorted") else 0)
