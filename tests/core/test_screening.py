"""Answers that bf16 settles are those of float32; the others are open."""

from __future__ import annotations

import pytest
import torch

from wsoup.core import scoring, screening
from wsoup.core.class_texts import normalize
from wsoup.core.linear import has_onednn
from wsoup.core.scoring import AT_ONCE, NEAR_TIE, Decisions
from wsoup.core.screening import Screen, rounded


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def both_ways(images, labels, texts) -> tuple[Decisions, Decisions]:
    screened = scoring.Scores(images, texts, at_once=AT_ONCE).against_by_screening(labels)
    return screened, scoring.Scores(images, texts, at_once=AT_ONCE).against_in_float32(labels)


def test_answers_on_both_sides_of_the_bound():
    """Texts along both axes, whose mean is 0, and images near 45 degrees whose margin is known.

    All are exact in bf16, so that only sums and the rounding of two scores of 1/4 may err: by 2^-8 (1/4 + 1/4) = 2^-9.
    """
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    margins = torch.tensor([0.0, 2.0**-9, 2.0**-8, 2.0**-2, -(2.0**-9), -(2.0**-7)])
    images = torch.stack([0.25 + margins, torch.full_like(margins, 0.25)], dim=1)
    assert torch.equal(images, images.bfloat16().float())
    labels = torch.zeros(len(images), dtype=torch.int64)
    right, is_open = Screen(texts).answers(rounded(images), labels, margin=2 * NEAR_TIE)
    assert is_open.tolist() == [True, True, False, False, True, False]
    assert right[~is_open].tolist() == [True, True, False]
    opposite, is_open = Screen(texts).answers(rounded(-images), labels, margin=2 * NEAR_TIE)
    assert not opposite.any()
    assert not is_open.any(), "own score of -1/4, and another one of 1/4"
    alone, is_open = Screen(texts[[0, 2]]).answers(rounded(images), labels, margin=2 * NEAR_TIE)
    assert alone.all()
    assert is_open.all(), "the only other score is negative"


def test_what_images_lose_is_in_the_bound():
    """An image that is right by 1/8 and wrong by 1/4 in bf16.

    Of its 64 numbers the text adds 32 and subtracts 32. Those that it adds, 1 + 2^-8 and a little less, become 1. Of
    those that it subtracts, 16 are 1, and 16 are 1 + 2^-8 and a little more and become 1 + 2^-7.
    """
    text = torch.tensor([1.0] * 32 + [-1.0] * 32)
    little = 2.0**-20
    image = torch.tensor([1 + 2.0**-8 - little] * 32 + [1 + 2.0**-8 + little] * 16 + [1.0] * 16)
    texts = torch.stack([text, -text, 0 * text])
    assert float(image @ text) == pytest.approx(1 / 16, abs=1e-3)
    assert float(image.bfloat16().float() @ text) == -1 / 8
    labels = torch.tensor([0])
    right, is_open = Screen(texts).answers(rounded(image[None]), labels, margin=2 * NEAR_TIE)
    assert not right.item()
    assert is_open.item()
    screened, plain = both_ways(image[None], labels, texts[None])
    assert screened.right.item()
    assert plain.right.item()


def test_what_a_sum_may_lose_is_in_the_bound():
    """A score of 3e-5, all of it in 1,022 products of 2^-25 between 1 and -1, beside another class's of 8e-6."""
    image = torch.full((1024,), 2.0**-12)
    image[[0, -1]] = 1.0
    text = torch.full((1024,), 2.0**-13)
    text[0], text[-1] = 1.0, -1.0
    other = torch.zeros(1024)
    other[0] = 2.0**-17
    texts = torch.stack([text, other, -text, -other])
    _, is_open = Screen(texts).answers(rounded(image[None]), torch.tensor([0]), margin=2 * NEAR_TIE)
    assert is_open.item()


def test_what_all_texts_share_does_not_widen_the_bound():
    """Texts whose mean is 256 times as long as what tells them apart, and an image that bf16 rounds by 2^-9."""
    texts = torch.tensor([[1.0, 2.0**-8], [1.0, -(2.0**-8)], [1.0, 0.0]])
    image = torch.full((1, 2), 1 + 2.0**-9)
    right, is_open = Screen(texts).answers(rounded(image), torch.tensor([0]), margin=2 * NEAR_TIE)
    assert right.item()
    assert not is_open.item()


@pytest.mark.parametrize(("difference", "is_open"), [(1.375 * 2.0**-19, True), (2.0**-18, False)])
def test_what_all_texts_share_may_cost_float32_its_last_bits(difference, is_open):
    """Two sums of float32 may err by 2 x 2^-22 times the image's length, 1.4, each: 1.3e-6 beside a margin of 2e-6."""
    texts = torch.tensor([[1.0, difference], [1.0, -difference], [1.0, 0.0]])
    _, left_open = Screen(texts).answers(rounded(torch.ones(1, 2)), torch.tensor([0]), margin=2 * NEAR_TIE)
    assert left_open.item() is is_open


def test_scores_closer_than_a_near_tie_are_left_open_however_exact_they_are():
    """Short images: scores of 0 and of 2^-21, 2^-20 and 2^-19, of which the first two are nearer than 1e-6."""
    texts = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    images = torch.tensor([[2.0**-21, 0.0], [2.0**-20, 0.0], [2.0**-19, 0.0]])
    screened, plain = both_ways(images, torch.zeros(3, dtype=torch.int64), texts[None])
    assert plain.near.tolist() == [[True, True, False]]
    assert torch.equal(screened.near, plain.near)


def test_how_close_a_near_tie_is_reaches_the_answers_that_are_left_open():
    """Own scores are 1/4, 1/16 and 0 above the others': the last two are nearer than 1/8."""
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    images = torch.tensor([[0.5, 0.25], [0.3125, 0.25], [0.25, 0.25]])
    scores = scoring.Scores(images, texts[None], at_once=AT_ONCE)
    labels = torch.zeros(3, dtype=torch.int64)
    assert scores.against_by_screening(labels, near_tie=0.125).near.tolist() == [[False, True, True]]
    assert scores.against_in_float32(labels, near_tie=0.125).near.tolist() == [[False, True, True]]


def hardest(n_images: int, *, size: int, classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and texts whose numbers all lie where bf16 rounds them by nearly half a place, most in one direction."""
    of = generator(seed)
    lean = 2.0**-8 - 2.0**-13 * torch.rand(n_images, size, generator=of)
    signs = torch.randint(2, (1, size), generator=of) * 2.0 - 1
    images = signs * (1 + lean)
    texts = signs * torch.randint(-1, 2, (classes, size), generator=of) * (1 + 2.0**-8 - 2.0**-12)
    return images / size**0.5, texts / size**0.5


@pytest.mark.parametrize("seed", range(8))
def test_settled_answers_are_right_where_bf16_errs_most(seed):
    images, texts = hardest(600, size=64, classes=5, seed=seed)
    labels = torch.randint(5, (600,), generator=generator(seed))
    exact = images.double() @ texts.double().T
    own = exact.gather(1, labels[:, None])[:, 0]
    others = exact.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    right, is_open = Screen(texts).answers(rounded(images), labels, margin=2 * NEAR_TIE)
    settled = ~is_open
    assert settled.any()
    assert torch.equal(right[settled], (own > others)[settled])
    assert ((own - others).abs() > NEAR_TIE)[settled].all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("spread", "shift"), [(0.02, 0.0), (0.02, 1.0), (1.0, 0.0)])
def test_counts_are_those_of_float32(seed, spread, shift, monkeypatch):
    """Images between the texts of two classes: near ties, answers that bf16 gets wrong, and clear ones."""
    monkeypatch.setattr(screening, "SCORES", 40 * 700)  # 3,000 images in five blocks
    of = generator(seed)
    texts = normalize(torch.randn(3, 40, 32, generator=of) + shift)
    labels = torch.randint(40, (3000,), generator=of)
    others = torch.randint(40, (3000,), generator=of)
    between = texts[0, labels] + texts[0, others] + spread * torch.randn(3000, 32, generator=of)
    images = normalize(between)
    screened, plain = both_ways(images, labels, texts)
    assert torch.equal(screened.right, plain.right)
    assert torch.equal(screened.near, plain.near)
    in_bf16, is_open = Screen(texts[0]).answers(rounded(images), labels, margin=2 * NEAR_TIE)
    wrong = in_bf16 != plain.right[0]
    assert is_open[wrong].all()
    if spread < 1:
        assert plain.near.any() or wrong.any(), "too easy to show anything"
        assert not is_open.all()


def test_exact_ties_and_numbers_that_are_none():
    of = generator(0)
    texts = torch.randint(-1, 2, (2, 6, 3), generator=of).float()  # integers: sums are exact, so ties are real
    images = torch.randint(-1, 2, (300, 3), generator=of).float()
    images[:4] = torch.tensor([float("nan"), float("inf"), 1e38, 1e-38])[:, None]
    labels = torch.randint(6, (300,), generator=of)
    screened, plain = both_ways(images, labels, texts)
    assert torch.equal(screened.right, plain.right)
    assert torch.equal(screened.near, plain.near)
    texts[1, 3] = float("inf")
    screened, plain = both_ways(images, labels, texts)
    assert torch.equal(screened.right, plain.right)


@pytest.mark.parametrize("images", [0, 1, 70_000])
def test_any_number_of_images(images):
    """70,000 are more than are converted at a time."""
    of = generator(0)
    features = normalize(torch.randn(images, 4, generator=of))
    labels = torch.randint(3, (images,), generator=of)
    screened, plain = both_ways(features, labels, normalize(torch.randn(2, 3, 4, generator=of)))
    assert torch.equal(screened.right, plain.right)
    assert torch.equal(screened.near, plain.near)


def test_decide_screens_where_it_pays(monkeypatch):
    of = generator(0)
    images = normalize(torch.randn(50, 8, generator=of))
    texts = normalize(torch.randn(1, screening.FEWEST_CLASSES, 8, generator=of))
    labels = torch.randint(50, (50,), generator=of)
    in_float32 = both_ways(images, labels, texts)[1].right
    for fast in (False, True):
        monkeypatch.setattr(screening, "has_fast_bf16", lambda fast=fast: fast)
        assert screening.pays(images, texts) is (fast and has_onednn(torch.float32) and has_onednn(torch.bfloat16))
        assert torch.equal(scoring.Scores(images, texts).right(labels), in_float32)
    monkeypatch.setattr(screening, "has_onednn", lambda dtype: dtype == torch.float32)
    assert not screening.pays(images, texts)
    monkeypatch.setattr(screening, "has_onednn", lambda dtype: True)  # as on a CPU that multiplies bf16 itself
    assert screening.pays(images, texts), "just as many classes as it takes"
    assert torch.equal(scoring.Scores(images, texts).right(labels), in_float32)
    assert not screening.pays(images, texts[:, :-1])
    assert not screening.pays(images.double(), texts.double())
