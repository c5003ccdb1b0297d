"""Packed linear layers and attention: the same results, and the original module is unchanged."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from wsoup.core.packed import Linear, packed

pytestmark = pytest.mark.skipif(packed(nn.Linear(2, 2)).__class__ is nn.Linear, reason="no oneDNN")


class Tower(nn.Module):
    """A block with self-attention, cross-attention, nested linear layers and a layer of another type."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(16, 4, batch_first=True, **options)
        self.cross = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16, bias=False))
        self.named = nn.ModuleDict({"other": nn.Bilinear(16, 16, 16), "none": nn.Identity()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(x, x, x, need_weights=False, attn_mask=None)[0]
        x = x + self.cross(x[:, :1], x, x, need_weights=False)[0]
        return self.named["other"](x, x) + self.mlp(x)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 16}])
def test_the_result_is_the_same(options, x):
    tower = Tower(**options).eval()
    fast = packed(tower)
    assert fast is not tower
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), tower(x), rtol=1e-5, atol=1e-6)


def test_batch_second_masks_and_attention_weights_use_torchs_layer(x):
    second, first = nn.MultiheadAttention(16, 4).eval(), nn.MultiheadAttention(16, 4, batch_first=True).eval()
    mask = torch.full((5, 5), float("-inf")).triu(1)
    with torch.inference_mode():
        torch.testing.assert_close(packed(second)(x, x, x), second(x, x, x))
        for options in ({"attn_mask": mask, "need_weights": False}, {"need_weights": True}, {}):
            torch.testing.assert_close(packed(first)(x, x, x, **options), first(x, x, x, **options))


def test_the_module_is_unchanged_and_shares_its_parameters(x):
    tower = Tower().eval()
    before = copy.deepcopy(tower.state_dict())
    fast = packed(tower)
    assert type(tower.mlp[0]) is nn.Linear
    assert type(tower.attn) is nn.MultiheadAttention
    assert {name: p.data_ptr() for name, p in fast.named_parameters()} == {
        name: p.data_ptr() for name, p in tower.named_parameters()
    }
    assert all(torch.equal(value, before[name]) for name, value in fast.state_dict().items())
    fast(x).sum().backward()  # with gradients the layers are torch's
    assert tower.mlp[0].weight.grad is not None


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_modules_that_cannot_be_packed_are_unchanged():
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda *_: None)
    for module in (hooked, nn.Linear(4, 4).double(), nn.Linear(4, 4, device="meta"), nn.Conv2d(3, 3, 1), nn.ReLU()):
        assert packed(module) is module
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4)))
    assert packed(scripted) is scripted


def test_other_dtypes_and_one_dimension_use_torchs_layer():
    plain = nn.Linear(4, 3).eval()
    fast = packed(plain)
    with torch.inference_mode():
        torch.testing.assert_close(fast(torch.ones(4)), plain(torch.ones(4)))
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(fast(torch.ones(2, 4).bfloat16()), plain(torch.ones(2, 4).bfloat16()))


def test_no_rows_and_no_outputs():
    with torch.inference_mode():
        assert packed(nn.Linear(4, 3))(torch.ones(0, 4)).shape == (0, 3)
    assert Linear(torch.empty(0, 4), None, dtype=torch.float32)(torch.ones(2, 4)).shape == (2, 0)
