"""Copies among features: the same ones as by looking at every pair, near-linear in the number of photos."""

import pytest
import torch
from torch.nn.functional import normalize

from wsoup.heads import duplicates as module
from wsoup.heads.duplicates import originals


def drawn(n: int, size: int, *, seed: int, cone: float = 0.0) -> torch.Tensor:
    """Unit features (n, size), the nearer to one another the larger `cone` is."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, size, dtype=torch.float64, generator=generator)
    return normalize(noise / size**0.5 + cone * torch.eye(size, dtype=torch.float64)[0], dim=1)


def by_looking(features: torch.Tensor) -> list[int]:
    """Each row against every original before it, one after the other."""
    originals: list[int] = []
    for row in range(len(features)):
        same = [other for other in set(originals) if (features[row] - features[other]).norm() < 1e-3]
        originals.append(min(same, default=row))
    return originals


def copies(features: torch.Tensor) -> dict[int, int]:
    """Row of each copy -> its original."""
    return {row: original for row, original in enumerate(originals(features).tolist()) if original != row}


@pytest.fixture
def compared(monkeypatch):
    """Numbers of rows that a row was compared with."""
    numbers = []
    original = module._original

    def counted(features, *, places, row, others):
        numbers.append(len(others))
        return original(features, places=places, row=row, others=others)

    monkeypatch.setattr(module, "_original", counted)
    return numbers


def test_copies_are_found_however_far_apart_they_lie(monkeypatch):
    """7 is a copy of 1, and 5 of 4; features projected three at a time give the same."""
    features = drawn(9, 6, seed=0)
    features[7], features[5] = features[1], features[4]
    assert copies(features) == {5: 4, 7: 1}
    monkeypatch.setattr(module, "AT_ONCE", 3)
    assert copies(features) == {5: 4, 7: 1}


def test_three_copies_have_the_first_as_original_and_no_photo_or_one_has_none():
    features = torch.eye(4)[[0, 1, 0, 2, 0]]
    assert copies(features) == {2: 0, 4: 0}
    assert copies(features[:1]) == {}
    assert originals(features[:0]).tolist() == []


def test_what_is_near_a_copy_alone_is_no_copy():
    """Three in a row, 0.8e-3 apart: the last is near the copy, and far from the original."""
    features = torch.tensor([[1.0, 0.0], [1.0, 8e-4], [1.0, 16e-4]])
    assert copies(features) == {1: 0}


def test_what_is_not_finite_is_no_copy():
    features = torch.eye(3)[[0, 1, 1, 2, 2]]
    features[1, 0] = torch.nan
    features[3, 0] = torch.inf
    assert copies(features) == {}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "cone"), [(1, 0.0), (2, 0.0), (5, 3.0), (64, 0.0), (64, 30.0)])
def test_the_same_originals_as_by_looking_at_all(seed, size, cone):
    """Copies that differ by 0 to 1.3 times the limit in any direction, chains of them, and far photos."""
    generator = torch.Generator().manual_seed(seed)
    features = drawn(40, size, seed=seed, cone=cone)
    for _ in range(2):
        shift = drawn(len(features), size, seed=seed + 10)
        length = 1.3e-3 * torch.rand(len(features), 1, dtype=torch.float64, generator=generator)
        features = torch.cat([features, features + length * shift])
    features = features[torch.randperm(len(features), generator=generator)]
    expected = by_looking(features)
    assert originals(features).tolist() == expected
    assert len(set(expected)) < len(features)


@pytest.mark.parametrize("axis", range(3))
def test_copies_on_both_sides_of_a_cells_border_are_found(axis, monkeypatch):
    """Along the directions of the cells themselves, so that a corner has a copy in every two neighbouring cells."""
    monkeypatch.setattr(module, "_places", lambda features: features.numpy().repeat(4, axis=1)[:, [0, 4, 8, 0]])
    corner = module.CELL * torch.tensor([7.0, -3.0, 0.0], dtype=torch.float64)
    steps = torch.cartesian_prod(*[torch.tensor([-4e-4, 4e-4], dtype=torch.float64)] * 3)
    for order in (steps, steps.flip(0), steps[[6, 3, 5, 0, 1, 2, 4, 7]]):
        features = corner.roll(axis) + order
        assert originals(features).tolist() == by_looking(features)
        assert len(copies(features)) >= 4, "each corner of a cube is near three others"


def test_the_number_of_photos_that_are_compared_grows_no_faster_than_the_photos(compared):
    features = drawn(16_000, 64, seed=0, cone=1.0)
    features[-8_000:-7_990] = features[:10]
    assert copies(features) == {8_000 + i: i for i in range(10)}
    assert sum(compared) < 16_000


def test_thousands_of_copies_of_a_photo_are_compared_with_one_each(compared):
    """As of a folder with one placeholder for every photo that was removed, with the rounding of its batches."""
    generator = torch.Generator().manual_seed(0)
    features = drawn(1, 64, seed=0) + 1e-6 * torch.randn(3_000, 64, dtype=torch.float64, generator=generator)
    assert originals(features).tolist() == [0] * 3_000
    assert compared == [1] * 2_999
