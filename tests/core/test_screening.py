"""Answers that bf16 settles are those of float32; the others are open.

Each test takes the products of a CPU, those of a GPU with their sums computed on the CPU, and those of a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from on_cuda import ON_CUDA, tf32
from torch.utils._python_dispatch import TorchDispatchMode

from wsoup.core import scoring, screening
from wsoup.core.class_texts import normalize
from wsoup.core.linear import Linear, has_onednn
from wsoup.core.scoring import AT_ONCE, NEAR_TIE, Decisions
from wsoup.core.screening import Float32Sums, Products, Screen, rounded
from wsoup.search.rank.image_set import ImageSet
from wsoup.search.rank.statistics import statistics


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Device(NamedTuple):
    """Where a test computes, and how bf16 is multiplied there."""

    name: str
    products: Products

    def answers(self, images, labels, texts) -> tuple[torch.Tensor, torch.Tensor]:
        """`Screen.answers` of one candidate, texts (C, D)."""
        screen = Screen(texts[None].to(self.name), products=self.products)
        right, is_open = screen.answers(rounded(images.to(self.name)), labels.to(self.name), margin=2 * NEAR_TIE)
        return right[0].cpu(), is_open[0].cpu()

    def both_ways(self, images, labels, texts) -> tuple[Decisions, Decisions]:
        """Decisions with a screen and without it."""
        labels = labels.to(self.name)
        scores = scoring.Scores(images.to(self.name), texts.to(self.name), at_once=AT_ONCE)
        screened = scores.against_by_screening(labels, products=self.products)
        return on_cpu(screened), on_cpu(scores.against_in_float32(labels))

    def assert_same(self, screened: Decisions, plain: Decisions, images, labels, texts) -> None:
        """Equal on a CPU. cuBLAS may sum in another order in a product of another shape, and so move a tie."""
        may_move = torch.zeros_like(plain.right)
        if self.name == "cuda":
            scores = torch.einsum("nd,pcd->pnc", images.double(), texts.double())
            place = labels.expand(len(texts), -1)[..., None]
            own = scores.gather(2, place)[..., 0]
            margin = (own - scores.scatter(2, place, -torch.inf).amax(dim=2)).abs()
            lengths = images.double().norm(dim=1) * texts.double().norm(dim=2).amax(dim=1)[:, None]
            rounding = 2 * images.shape[1] * 2.0**-24 * lengths
            may_move = (margin <= rounding) | ((margin - NEAR_TIE).abs() <= rounding)
        assert not ((screened.right != plain.right) & ~may_move).any()
        assert not ((screened.near != plain.near) & ~may_move).any()


def on_cpu(decisions: Decisions) -> Decisions:
    return Decisions(*(tensor.cpu() for tensor in decisions))


@pytest.fixture(params=["cpu", "sums of a gpu on a cpu", pytest.param("cuda", marks=ON_CUDA)])
def device(request, monkeypatch) -> Device:
    if request.param == "cpu":
        return Device("cpu", screening.ON_CPU)
    if request.param == "cuda":
        return Device("cuda", screening.ON_CUDA)

    def product(self: Float32Sums, images: torch.Tensor) -> torch.Tensor:
        """torch sums products of bf16 in float32 on CUDA alone: products of the same numbers, which are exact."""
        return images.float() @ self._texts.float()

    monkeypatch.setattr(Float32Sums, "__call__", product)
    return Device("cpu", screening.ON_CUDA)


def test_answers_on_both_sides_of_the_bound(device):
    """Texts along both axes, whose mean is 0, and images near 45 degrees whose margin is known.

    All are exact in bf16, so that only sums may err and, where scores are in bf16, the rounding of two of 1/4: by
    2^-8 (1/4 + 1/4) = 2^-9.
    """
    in_bf16 = device.products.dtype == torch.bfloat16
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    margins = torch.tensor([0.0, 2.0**-9, 2.0**-8, 2.0**-2, -(2.0**-9), -(2.0**-7)])
    images = torch.stack([0.25 + margins, torch.full_like(margins, 0.25)], dim=1)
    assert torch.equal(images, images.bfloat16().float())
    labels = torch.zeros(len(images), dtype=torch.int64)
    right, is_open = device.answers(images, labels, texts)
    assert is_open.tolist() == [True, in_bf16, False, False, in_bf16, False]
    assert right[~is_open].tolist() == ([True, True, False] if in_bf16 else [True, True, True, False, False])
    opposite, is_open = device.answers(-images, labels, texts)
    assert not opposite.any()
    assert not is_open.any(), "own score of -1/4, and another one of 1/4"
    alone, is_open = device.answers(images, labels, texts[[0, 2]])
    assert alone.all()
    assert torch.equal(is_open, torch.full_like(alone, in_bf16)), "bf16 tells no negative score from minus infinity"


def test_what_images_lose_is_in_the_bound(device):
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
    right, is_open = device.answers(image[None], labels, texts)
    assert not right.item()
    assert is_open.item()
    screened, plain = device.both_ways(image[None], labels, texts[None])
    assert screened.right.item()
    assert plain.right.item()


def test_what_a_sum_may_lose_is_in_the_bound(device):
    """A score of 3e-5, all of it in 1,022 products of 2^-25 between 1 and -1, beside another class's of 8e-6."""
    image = torch.full((1024,), 2.0**-12)
    image[[0, -1]] = 1.0
    text = torch.full((1024,), 2.0**-13)
    text[0], text[-1] = 1.0, -1.0
    other = torch.zeros(1024)
    other[0] = 2.0**-17
    texts = torch.stack([text, other, -text, -other])
    _, is_open = device.answers(image[None], torch.tensor([0]), texts)
    assert is_open.item()


def test_what_all_texts_share_does_not_widen_the_bound(device):
    """Texts whose mean is 256 times as long as what tells them apart, and an image that bf16 rounds by 2^-9."""
    texts = torch.tensor([[1.0, 2.0**-8], [1.0, -(2.0**-8)], [1.0, 0.0]])
    image = torch.full((1, 2), 1 + 2.0**-9)
    right, is_open = device.answers(image, torch.tensor([0]), texts)
    assert right.item()
    assert not is_open.item()


@pytest.mark.parametrize(("difference", "is_open"), [(1.375 * 2.0**-19, True), (2.0**-18, False)])
def test_what_all_texts_share_may_cost_float32_its_last_bits(device, difference, is_open):
    """Two sums of float32 may err by 2 x 2^-22 times the image's length, 1.4, each: 1.3e-6 beside a margin of 2e-6."""
    texts = torch.tensor([[1.0, difference], [1.0, -difference], [1.0, 0.0]])
    _, left_open = device.answers(torch.ones(1, 2), torch.tensor([0]), texts)
    assert left_open.item() is is_open


def test_scores_closer_than_a_near_tie_are_left_open_however_exact_they_are(device):
    """Short images: scores of 0 and of 2^-21, 2^-20 and 2^-19, of which the first two are nearer than 1e-6."""
    texts = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    images = torch.tensor([[2.0**-21, 0.0], [2.0**-20, 0.0], [2.0**-19, 0.0]])
    screened, plain = device.both_ways(images, torch.zeros(3, dtype=torch.int64), texts[None])
    assert plain.near.tolist() == [[True, True, False]]
    assert torch.equal(screened.near, plain.near)


def test_how_close_a_near_tie_is_reaches_the_answers_that_are_left_open(device):
    """Own scores are 1/4, 1/16 and 0 above the others': the last two are nearer than 1/8."""
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    images = torch.tensor([[0.5, 0.25], [0.3125, 0.25], [0.25, 0.25]])
    scores = scoring.Scores(images.to(device.name), texts[None].to(device.name), at_once=AT_ONCE)
    labels = torch.zeros(3, dtype=torch.int64, device=device.name)
    screened = scores.against_by_screening(labels, products=device.products, near_tie=0.125)
    assert screened.near.tolist() == [[False, True, True]]
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
def test_settled_answers_are_right_where_bf16_errs_most(device, seed):
    images, texts = hardest(600, size=64, classes=5, seed=seed)
    labels = torch.randint(5, (600,), generator=generator(seed))
    exact = images.double() @ texts.double().T
    own = exact.gather(1, labels[:, None])[:, 0]
    others = exact.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    right, is_open = device.answers(images, labels, texts)
    settled = ~is_open
    assert settled.any()
    assert torch.equal(right[settled], (own > others)[settled])
    assert ((own - others).abs() > NEAR_TIE)[settled].all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("spread", "shift"), [(0.02, 0.0), (0.02, 1.0), (1.0, 0.0)])
def test_counts_are_those_of_float32(device, seed, spread, shift, monkeypatch):
    """Images between the texts of two classes: near ties, answers that bf16 gets wrong, and clear ones."""
    small = replace(device.products, scores_at_once=2 * 40 * 700)  # two candidates, and 3,000 images in five blocks
    monkeypatch.setattr(screening, "IMAGES_AT_ONCE", 700)
    device = device._replace(products=small)
    of = generator(seed)
    texts = normalize(torch.randn(3, 40, 32, generator=of) + shift)
    labels = torch.randint(40, (3000,), generator=of)
    others = torch.randint(40, (3000,), generator=of)
    between = texts[0, labels] + texts[0, others] + spread * torch.randn(3000, 32, generator=of)
    images = normalize(between)
    screened, plain = device.both_ways(images, labels, texts)
    device.assert_same(screened, plain, images, labels, texts)
    in_bf16, is_open = device.answers(images, labels, texts[0])
    wrong = in_bf16 != plain.right[0]
    assert is_open[wrong].all()
    if spread < 1:
        assert plain.near.any() or wrong.any(), "too easy to show anything"
        assert not is_open.all()


def test_exact_ties_and_numbers_that_are_none(device):
    of = generator(0)
    texts = torch.randint(-1, 2, (2, 6, 3), generator=of).float()  # integers: sums are exact, so ties are real
    images = torch.randint(-1, 2, (300, 3), generator=of).float()
    images[:4] = torch.tensor([float("nan"), float("inf"), 1e38, 1e-38])[:, None]
    labels = torch.randint(6, (300,), generator=of)
    screened, plain = device.both_ways(images, labels, texts)
    assert torch.equal(screened.right, plain.right)
    assert torch.equal(screened.near, plain.near)
    texts[1, 3] = float("inf")
    screened, plain = device.both_ways(images, labels, texts)
    assert torch.equal(screened.right, plain.right)


@pytest.mark.parametrize("images", [0, 1, 70_000])
def test_any_number_of_images(device, images):
    """70,000 are more than are converted at a time."""
    of = generator(0)
    features = normalize(torch.randn(images, 4, generator=of))
    labels = torch.randint(3, (images,), generator=of)
    texts = normalize(torch.randn(2, 3, 4, generator=of))
    screened, plain = device.both_ways(features, labels, texts)
    device.assert_same(screened, plain, features, labels, texts)


def problem(*, n_images: int, n_candidates: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    of = generator(0)
    images = normalize(torch.randn(n_images, 8, generator=of))
    texts = normalize(torch.randn(n_candidates, screening.FEWEST_CLASSES, 8, generator=of))
    return images, torch.randint(n_images, (n_images,), generator=of), texts


def test_a_cpu_screens_where_it_pays(monkeypatch):
    images, labels, texts = problem(n_images=50, n_candidates=1)
    in_float32 = scoring.Scores(images, texts).against_in_float32(labels).right
    for fast in (False, True):
        monkeypatch.setattr(screening, "has_fast_bf16", lambda fast=fast: fast)
        pays = fast and has_onednn(torch.float32) and has_onednn(torch.bfloat16)
        assert screening.that_pay(images, texts) is (screening.ON_CPU if pays else None)
        assert torch.equal(scoring.Scores(images, texts).right(labels), in_float32)
    monkeypatch.setattr(screening, "has_onednn", lambda dtype: dtype == torch.float32)
    assert screening.that_pay(images, texts) is None
    monkeypatch.setattr(screening, "has_onednn", lambda dtype: True)  # as on a CPU that multiplies bf16 itself
    assert screening.that_pay(images, texts) is screening.ON_CPU, "just as many classes as it takes"
    assert torch.equal(scoring.Scores(images, texts).right(labels), in_float32)
    assert screening.that_pay(images, texts[:, :-1]) is None
    assert screening.that_pay(images.double(), texts.double()) is None


@pytest.mark.parametrize(
    ("cuda", "capability", "products"),
    [
        ("12.8", (8, 0), screening.ON_CUDA),
        ("13.2", (12, 0), screening.ON_CUDA),
        ("12.8", (7, 5), None),
        (None, (9, 4), None),
    ],
)
def test_a_gpu_screens_where_it_has_tensor_cores_for_bf16(monkeypatch, cuda, capability, products):
    """Capability 7.5 has tensor cores for half precision alone, and a torch without CUDA drives another make."""
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert screening.fast_on(torch.device("cuda:1")) is products


def test_a_gpu_screens_only_what_is_large_enough(monkeypatch):
    monkeypatch.setattr(screening, "fast_on", lambda device: screening.ON_CUDA)
    images, texts = torch.empty(1 << 10, 2), torch.empty(1 << 6, 1 << 8, 2)
    assert screening.that_pay(images, texts) is screening.ON_CUDA, "2^24 scores"
    assert screening.that_pay(images[1:], texts) is None


def test_a_screen_asks_the_device_for_nothing():
    """A GPU would have to be waited for. Nothing that depends on numbers runs on the device `meta`, which has none."""
    images, labels, texts = (tensor.to("meta") for tensor in problem(n_images=30, n_candidates=3))
    screen = Screen(texts, products=screening.ON_CUDA)
    right, is_open = screen.answers(rounded(images), labels, margin=2 * NEAR_TIE)
    assert right.shape == is_open.shape == (3, 30)
    with pytest.raises(NotImplementedError, match="meta"):
        is_open.nonzero()


class Waits(TorchDispatchMode):
    """Counts the operations whose result has a size that is known only when they have run."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.nonzero.default
        return func(*args, **(kwargs or {}))


def test_one_wait_for_the_open_answers_of_many_candidates(device, monkeypatch):
    images, labels, texts = problem(n_images=60, n_candidates=8)
    monkeypatch.setattr(scoring, "IMAGES", 30)
    for together, waits in ((8, 2), (3, 6)):
        n_scores = together * screening.IMAGES_AT_ONCE * screening.FEWEST_CLASSES
        some = device._replace(products=replace(device.products, scores_at_once=n_scores))
        with Waits() as seen:
            some.both_ways(images, labels, texts)
        assert seen.count == waits


@pytest.mark.parametrize("set_to", ["tf32", "ieee", "none"])
def test_scores_of_float32_are_no_tf32_and_settings_stay(set_to, monkeypatch):
    images, labels, texts = problem(n_images=20, n_candidates=2)
    settings = torch.backends.cuda.matmul
    seen = []
    product = Linear.__call__

    def noted(self: Linear, x: torch.Tensor) -> torch.Tensor:
        seen.append(settings.fp32_precision)
        return product(self, x)

    monkeypatch.setattr(Linear, "__call__", noted)
    before, settings.fp32_precision = settings.fp32_precision, set_to
    try:
        scores = scoring.Scores(images, texts)
        scores.predicted()
        scores.against_in_float32(labels)
        image_set = ImageSet(images, labels=labels, n_classes=texts.shape[1], subsets=[torch.arange(20)])
        statistics(image_set, texts, baseline_right=torch.zeros(20, dtype=torch.bool))
        assert settings.fp32_precision == set_to
    finally:
        settings.fp32_precision = before
    assert seen == ["ieee"] * 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("n_candidates", [1, 5])
def test_on_a_gpu_with_tf32(n_candidates):
    """Near ties of float32 that TF32 would decide in its own way."""
    device = Device("cuda", screening.ON_CUDA)
    images, labels, texts = problem(n_images=2000, n_candidates=n_candidates)
    images = normalize(texts[0, labels % 256] + texts[0, (labels + 1) % 256] + 1e-4 * images)
    labels = labels % 256
    without = device.both_ways(images, labels, texts)
    with tf32(products=True, convolutions=True):
        assert torch.get_float32_matmul_precision() == "high"
        with_tf32 = device.both_ways(images, labels, texts)
    for before, after in zip(without, with_tf32, strict=True):
        assert torch.equal(before.right, after.right)
        assert torch.equal(before.near, after.near)
