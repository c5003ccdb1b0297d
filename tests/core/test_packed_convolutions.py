"""Packed convolutions: the same results, and the original tower is unchanged."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from wsoup.core.packed import _PackedConvolution, folded, has_onednn

pytestmark = pytest.mark.skipif(not has_onednn(torch.float32), reason="no oneDNN")


class Residual(nn.Module):
    """Every case that is fused (norm, activation, sum, strides, groups), and some that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.act = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        self.grouped, self.gelu = nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.GELU()
        self.down, self.down_norm = nn.Conv2d(8, 16, 1, stride=2), nn.BatchNorm2d(16)
        self.last, self.last_norm = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.twice, self.silu = nn.Conv2d(16, 16, 1), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.first(x)))
        y = self.last_norm(self.last(self.gelu(self.grouped(x))))
        y += self.down_norm(self.down(x))
        y = self.act(y)
        z = self.twice(y)
        return self.silu(self.twice(z)) + z * z


def random(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
            nn.init.normal_(part.weight, generator=generator)
            nn.init.normal_(part.bias, generator=generator)
    return module.eval().requires_grad_(False)


@pytest.mark.parametrize("batch", [1, 5])
def test_a_folded_tower_has_the_same_result(batch):
    tower, x = random(Residual()), torch.randn(batch, 3, 12, 10)
    before = {name: value.clone() for name, value in tower.state_dict().items()}
    fast = folded(tower)
    torch.testing.assert_close(fast(x), tower(x), rtol=1e-5, atol=1e-5)
    assert sum(isinstance(part, _PackedConvolution) for part in fast.modules()) == 6, "one for each call"
    assert not [part for part in fast.modules() if isinstance(part, nn.Conv2d | nn.BatchNorm2d)]
    for name, value in tower.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_a_tower_that_cannot_be_traced_is_folded_part_by_part():
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.lone = Residual(), nn.Conv2d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) if x.sum() > 0 else self.inner(self.lone(x))

    tower = random(Branches())
    fast, x = folded(tower), torch.randn(2, 3, 8, 8)
    assert type(fast) is Branches
    assert fast.lone is tower.lone
    for sign in (1, -1):
        torch.testing.assert_close(fast(sign * x.abs()), tower(sign * x.abs()), rtol=1e-5, atol=1e-5)


def test_modules_that_cannot_be_folded_are_unchanged():
    few, training, hooked = random(nn.Sequential(nn.Conv2d(3, 3, 1))), Residual(), random(Residual())
    hooked.norm.register_forward_hook(lambda *_: None)
    assert folded(few) is few
    assert folded(hooked) is hooked
    assert folded(random(Residual()).to(torch.float64)).first.weight.dtype == torch.float64
    assert [part for part in folded(training.train()).modules() if type(part) is nn.BatchNorm2d], "it still learns"
    odd = nn.Sequential(*[nn.Conv2d(3, 3, 3, padding="same") for _ in range(4)])
    assert folded(odd) is odd
