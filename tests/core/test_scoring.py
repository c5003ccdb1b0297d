"""What classifiers make of images: answers by hand on a circle, plain loops, and ties."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from wsoup.core import scoring
from wsoup.core.class_texts import normalize
from wsoup.core.linear import Linear, has_onednn

ONEDNN = pytest.mark.skipif(not has_onednn(torch.float32), reason="no oneDNN")


def circle(*degrees: float) -> torch.Tensor:
    """Unit vectors in the plane: the right answers are known by geometry."""
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=-1).float()


def random_features(*shape: int, seed: int = 0) -> torch.Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)))


def test_counts_against_a_plain_loop():
    small = scoring.AtOnce(scores=16, texts=10)
    images, texts = random_features(23, 4), random_features(6, 5, 4, seed=1)
    labels = torch.arange(23) % 5
    expected = [[int((texts[p] @ x).argmax()) == int(y) for x, y in zip(images, labels, strict=True)] for p in range(6)]
    assert scoring.Scores(images, texts, at_once=small).right(labels).tolist() == expected
    assert scoring.Scores(images, texts).right(labels).tolist() == expected
    one_by_one = [int(scoring.Scores(images, text[None]).right(labels).sum()) for text in texts]
    assert one_by_one == [sum(row) for row in expected]


def test_among_equal_scores_the_lowest_label_is_predicted():
    images, same = circle(10, 10), circle(0, 0)
    assert scoring.Scores(images, same[None]).against(torch.tensor([0, 1])).right[0].tolist() == [True, False]
    assert int(scoring.Scores(images[:0], same[None]).against(torch.empty(0, dtype=torch.int64)).right.sum()) == 0
    assert int(scoring.Scores(circle(5, 170), circle(90)[None]).against(torch.tensor([0, 0])).right.sum()) == 2


def test_predictions_are_the_right_answers_and_the_lowest_of_equal_labels():
    """The third image is as near to the first class as to the second, and equal texts tie everywhere."""
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    east, north = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    classifiers = torch.stack([torch.stack(texts) for texts in ((east, north), (north, east), (east, east))])
    for at_once in (scoring.AT_ONCE, scoring.AtOnce(scores=4, texts=2)):
        scores = scoring.Scores(images, classifiers, at_once=at_once)
        assert scores.predicted().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
        for labels in (torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1]), torch.tensor([1, 1, 1])):
            assert torch.equal(scores.predicted() == labels, scores.right(labels))


def test_how_close_a_near_tie_is_may_be_said():
    """Scores of the image at 44 degrees are cos 44 and cos 46, 0.025 apart."""
    scores = scoring.Scores(circle(44), circle(0, 90)[None])
    assert scores.against(torch.tensor([0])).near.tolist() == [[False]]
    assert scores.against(torch.tensor([0]), near_tie=0.024).near.tolist() == [[False]]
    assert scores.against(torch.tensor([0]), near_tie=0.026).near.tolist() == [[True]]


def test_scores_as_far_apart_as_a_near_tie_are_none():
    own, best = torch.tensor([0.5, 0.5, 0.5]), torch.tensor([0.25, 0.75, 0.625])
    assert scoring.near_ties(own, best, within=0.25).tolist() == [False, False, True]


def test_many_equal_scores_are_decided_as_by_argmax():
    generator = torch.Generator().manual_seed(0)
    images, texts = (
        torch.randint(-1, 2, shape, generator=generator).float() for shape in ((200, 3), (5, 6, 3))
    )  # integers: sums are exact, so ties are real
    labels = torch.randint(6, (200,), generator=generator)
    scores = torch.einsum("nd,pcd->pnc", images, texts)
    right, near = scoring.Scores(images, texts).against(labels)
    assert torch.equal(right, scores.argmax(dim=2) == labels)
    best_two = scores.topk(2, dim=2).values
    own = scores.gather(2, labels.expand(5, -1)[..., None])[..., 0]
    assert torch.equal(near, (own == best_two[..., 0]) & (best_two[..., 0] == best_two[..., 1]))


def test_ties_are_decided_alike_with_and_without_a_condition():
    """A CPU decides equal scores one by one; a GPU, which must not wait, takes the first of the best classes."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(3, (400, 5, 4), generator=generator).float()
    labels = torch.randint(4, (400,), generator=generator)
    own, best, wins = scoring.own_against_others(scores, labels)  # leaves the other classes' scores
    best_by_rule, wins_by_rule = scoring._with_first_best(scores, labels, own=own)
    assert (own == best).sum() > 100
    assert torch.equal(best_by_rule, best)
    assert torch.equal(wins_by_rule, wins)


def test_a_gpu_gets_large_blocks():
    on_cuda, on_cpu = (scoring.suited_to(torch.device(name)) for name in ("cuda:1", "cpu"))
    assert on_cpu is scoring.AT_ONCE
    # 1,000 classes and 48,000 images of three seeds: two candidates together, whose scores are all kept
    of_a_candidate = 48_000 * 1_000
    assert on_cpu.scores < of_a_candidate
    assert on_cuda.scores // of_a_candidate == 2
    assert 2 * of_a_candidate <= min(on_cuda.passes, on_cuda.kept)


def test_without_onednn_the_answers_are_the_same(monkeypatch):
    images, texts = random_features(50, 16), random_features(9, 7, 16, seed=1)
    labels = torch.arange(50) % 7
    right, near = scoring.Scores(images, texts).against(labels)
    monkeypatch.setattr("wsoup.core.linear.has_onednn", lambda dtype: False)
    right_by_torch, near_by_torch = scoring.Scores(images, texts).against(labels)
    assert not near.any()
    assert torch.equal(right_by_torch, right)
    assert torch.equal(near_by_torch, near)


@pytest.mark.skipif(
    not has_onednn(torch.float32) or not torch.backends.cpu.get_cpu_capability().startswith("AVX"),
    reason="without AVX2, oneDNN's products depend on the position",
)
@pytest.mark.parametrize("size", [16, 100, 512, 768])
def test_the_same_image_and_text_have_the_same_score_anywhere(size):
    """Equal texts tie, and neither blocks nor neighbours change an answer."""
    image, text = random_features(1, size), random_features(1, size, seed=1)
    for n_classes in (1, 7, 101, 1000):
        cosines = Linear(text.repeat(n_classes, 1), None, dtype=torch.float32)
        found = [cosines(image.repeat(n, 1)).unique() for n in (1, 2, 7, 33, 1500)]
        assert torch.cat(found).unique().numel() == 1


# ------------------------------------------------------------------------------------------------- packed products


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=ONEDNN), torch.float64])
def test_products_are_torchs_whether_packed_or_not(dtype):
    """Those of float64 are not packed; weights are given in float32."""
    generator = torch.Generator().manual_seed(0)
    x, residual, weight, bias = (torch.randn(s, generator=generator) for s in ((5, 16), (5, 8), (8, 16), (8,)))
    linear = Linear(weight, bias, dtype=dtype)
    assert linear.packed is (dtype == torch.float32)
    x, residual = x.to(dtype), residual.to(dtype)
    plain = F.linear(x, weight.to(dtype), bias.to(dtype))
    acts = {
        "none": plain,
        "swish": F.silu(plain),
        "gelu": F.gelu(plain),
        "gelu_tanh": F.gelu(plain, approximate="tanh"),
    }
    for name, expected in acts.items():
        torch.testing.assert_close(linear(x, act=name), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(linear.add_to(residual, x), residual + plain, rtol=1e-5, atol=1e-5)


@ONEDNN
def test_no_rows_and_no_outputs():
    assert Linear(torch.ones(3, 4), torch.ones(3), dtype=torch.float32)(torch.ones(0, 4)).shape == (0, 3)
    assert Linear(torch.empty(0, 4), None, dtype=torch.float32)(torch.ones(2, 4)).shape == (2, 0)
