"""Packed products: the same results as torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from wsoup.core.packed import Linear, has_onednn

pytestmark = pytest.mark.skipif(not has_onednn(torch.float32), reason="no oneDNN")


def test_the_result_is_torchs():
    generator = torch.Generator().manual_seed(0)
    x, residual, weight, bias = (torch.randn(s, generator=generator) for s in ((5, 16), (5, 8), (8, 16), (8,)))
    packed, plain = Linear(weight, bias, dtype=torch.float32), F.linear(x, weight, bias)
    acts = {
        "none": plain,
        "swish": F.silu(plain),
        "gelu": F.gelu(plain),
        "gelu_tanh": F.gelu(plain, approximate="tanh"),
    }
    for name, expected in acts.items():
        torch.testing.assert_close(packed(x, act=name), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed.add_to(residual, x), residual + plain, rtol=1e-5, atol=1e-5)


def test_no_rows_and_no_outputs():
    assert Linear(torch.ones(3, 4), torch.ones(3), dtype=torch.float32)(torch.ones(0, 4)).shape == (0, 3)
    assert Linear(torch.empty(0, 4), None, dtype=torch.float32)(torch.ones(2, 4)).shape == (2, 0)
