"""What methods put into a model: low-rank updates, scales and shifts, bottlenecks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PROMPT_STD = 0.02
"""Standard deviation of random prompts and updates (MaPLe and the authors' code)."""
LORA_SCALE = 0.2
"""What a low-rank update is multiplied with (the authors' code)."""


class LowRank(nn.Module):
    """W -> W + scale * (B A) on the query and value rows of a packed (3 width, width) projection; B starts at zero.

    Attributes:
        piled: (2, width, width), earlier updates that stay (`pile_up`); None where none do.
    """

    piled: Tensor | None

    def __init__(self, width: int, *, rank: int, piles_up: bool = False) -> None:
        super().__init__()
        self.down = nn.Parameter(PROMPT_STD * torch.randn(2, rank, width))
        self.up = nn.Parameter(torch.zeros(2, width, rank))
        self.register_buffer("piled", torch.zeros(2, width, width) if piles_up else None, persistent=False)

    def forward(self, weight: Tensor) -> Tensor:
        update = LORA_SCALE * (self.up @ self.down)  # (2, width, width)
        query, value = update if self.piled is None else self.piled + update
        return weight + torch.cat([query, torch.zeros_like(query), value])

    @torch.no_grad()
    def pile_up(self) -> None:
        """Keep the update as it is now for good; once a pass."""
        if self.piled is not None:
            self.piled += LORA_SCALE * (self.up @ self.down)


class Scaled(nn.Module):
    """The weight of a layer whose output is scaled: rows of a matrix, or the gain of a norm."""

    def __init__(self, scale: nn.Parameter) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        return weight * (self.scale[:, None] if weight.ndim == 2 else self.scale)


class ScaledShifted(nn.Module):
    """The bias of a layer whose output is scaled and shifted."""

    def __init__(self, scale: nn.Parameter) -> None:
        super().__init__()
        drawn = 0.02 * torch.randn_like(scale, device="cpu")
        self.scale, self.shift = scale, nn.Parameter(drawn.to(scale.device))

    def forward(self, bias: Tensor) -> Tensor:
        return bias * self.scale + self.shift


class Bottleneck(nn.Module):
    """x + ratio * up(relu(down(x))), without biases; `up` starts at zero.

    With `blends` (1 - ratio) * x + ratio * up(relu(down(x))), where `up` starts at random; with `cut` too, on image
    features, another relu follows `up`.
    """

    def __init__(self, width: int, reduction: int, *, ratio: float, blends: bool = False, cut: bool = False) -> None:
        super().__init__()
        self.down = nn.Linear(width, max(1, width // reduction), bias=False)
        self.up = nn.Linear(max(1, width // reduction), width, bias=False)
        self.ratio, self.kept, self.cut = ratio, 1 - ratio if blends else 1.0, cut
        if not blends:
            nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.up(F.relu(self.down(x)))
        return self.kept * x + self.ratio * (F.relu(inner) if self.cut else inner)
