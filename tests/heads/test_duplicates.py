"""Copies among features: the same pairs as by looking at every pair, near-linear in the number of photos."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from wsoup.heads import duplicates as module
from wsoup.heads.duplicates import duplicates


def drawn(n: int, size: int, *, seed: int, cone: float = 0.0) -> torch.Tensor:
    """Unit features (n, size), the nearer to one another the larger `cone` is."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, size, dtype=torch.float64, generator=generator)
    return normalize(noise / size**0.5 + cone * torch.eye(size, dtype=torch.float64)[0], dim=1)


def by_looking(features: torch.Tensor) -> list[tuple[int, int]]:
    """Every pair, one after the other."""
    pairs = []
    for later in range(len(features)):
        for earlier in range(later):
            if (features[later] - features[earlier]).norm() < 1e-3:
                pairs.append((earlier, later))
    return pairs


def test_copies_are_found_however_far_apart_they_lie(monkeypatch):
    """7 is a copy of 1, and 5 of 4; pairs in parts of three give the same."""
    features = drawn(9, 6, seed=0)
    features[7], features[5] = features[1], features[4]
    assert duplicates(features) == [(4, 5), (1, 7)]
    monkeypatch.setattr(module, "AT_ONCE", 16)
    assert duplicates(features) == [(4, 5), (1, 7)]


def test_three_copies_are_three_pairs_and_no_photo_or_one_has_none():
    features = torch.eye(4)[[0, 1, 0, 2, 0]]
    assert duplicates(features) == [(0, 2), (0, 4), (2, 4)]
    assert duplicates(features[:1]) == []
    assert duplicates(features[:0]) == []


def test_what_is_not_finite_is_no_copy():
    features = torch.eye(3)[[0, 1, 1, 2, 2]]
    features[1, 0] = torch.nan
    features[3, 0] = torch.inf
    assert duplicates(features) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "cone"), [(1, 0.0), (2, 0.0), (5, 3.0), (64, 0.0), (64, 30.0)])
def test_the_same_pairs_as_by_looking_at_all(seed, size, cone):
    """Copies that differ by 0 to 1.3 times the limit in any direction, chains of them, and far photos."""
    generator = torch.Generator().manual_seed(seed)
    features = drawn(40, size, seed=seed, cone=cone)
    for _ in range(2):
        shift = drawn(len(features), size, seed=seed + 10)
        length = 1.3e-3 * torch.rand(len(features), 1, dtype=torch.float64, generator=generator)
        features = torch.cat([features, features + length * shift])
    features = features[torch.randperm(len(features), generator=generator)]
    expected = by_looking(features)
    assert duplicates(features) == expected
    assert expected


@pytest.mark.parametrize("axis", range(3))
def test_copies_on_both_sides_of_a_cells_border_are_found(axis, monkeypatch):
    """Along the directions of the cells themselves, so that some pairs lie in every two neighbouring cells."""
    monkeypatch.setattr(module, "_projected", lambda values: np.repeat(values, 4, axis=1)[:, [0, 4, 8, 0]])
    corner = module.CELL * torch.tensor([7.0, -3.0, 0.0], dtype=torch.float64)
    steps = torch.cartesian_prod(*[torch.tensor([-4e-4, 4e-4], dtype=torch.float64)] * 3)
    features = corner.roll(axis) + steps
    assert duplicates(features) == by_looking(features)
    assert len(duplicates(features)) == 12, "the edges of a cube"


def test_the_number_of_pairs_that_are_compared_grows_no_faster_than_the_photos(monkeypatch):
    looked_at = 0
    original = module._neighbours

    def counted(places):
        nonlocal looked_at
        for some, others in original(places):
            looked_at += len(some)
            yield some, others

    monkeypatch.setattr(module, "_neighbours", counted)
    features = drawn(16_000, 64, seed=0, cone=1.0)
    features[-8_000:-7_990] = features[:10]
    assert duplicates(features) == [(i, 8_000 + i) for i in range(10)]
    assert looked_at < 16_000
