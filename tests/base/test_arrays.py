"""Features of users: rows of length 1, of whatever array they come in."""

from __future__ import annotations

import pytest
import torch

from wsoup.base.arrays import rows, unit_rows
from wsoup.base.errors import DataError


def test_rows_of_length_1_are_left_as_they_are_and_others_normalised():
    """Half precision is off by less than a thousandth."""
    ones = torch.eye(3) * torch.tensor([1.0, 1.0005, 0.9995])
    assert torch.equal(unit_rows(ones, name="x"), ones)
    with pytest.warns(UserWarning, match=r"x are not of length 1 \(off by up to 0\.01\)"):
        assert torch.equal(unit_rows(1.01 * torch.eye(3), name="x"), torch.eye(3))
    with pytest.warns(UserWarning, match="not of length 1"):
        assert torch.allclose(unit_rows(1e25 * torch.ones(1, 4), name="x"), torch.full((1, 4), 0.5))


def test_up_to_three_rows_are_named():
    wrong = torch.ones(9, 2)
    wrong[1:6, 0] = float("nan")
    with pytest.raises(DataError, match=r"x has NaN or infinity in rows 1, 2, 3 and 2 more; leave these images out"):
        rows(wrong, name="x")
    zeros = torch.eye(2) * torch.tensor([1.0, 0.0])
    assert torch.equal(rows(zeros, name="x"), zeros), "a row of zeros is refused where features are normalised"
    with pytest.raises(DataError, match=r"x holds nothing but zeros in rows 1; "):
        unit_rows(zeros, name="x")
