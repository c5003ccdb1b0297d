"""Few-shot images with weakly informative texts, for tests of heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import Setting


def unit(values: Tensor) -> Tensor:
    return values / values.norm(dim=-1, keepdim=True)


def few_shots(*, counts=(3, 3, 3, 3), size=6, seed=0, scale=20.0) -> FewShot:
    """Images around class centres in random order, with weakly informative texts."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
    labels = labels[torch.randperm(len(labels), generator=draw)]
    centres = torch.randn(len(counts), size, generator=draw, dtype=torch.float64)
    noise = torch.randn(len(labels), size, generator=draw, dtype=torch.float64)
    texts = unit(centres + torch.randn(len(counts), size, generator=draw, dtype=torch.float64))
    return FewShot(unit(centres[labels] + 0.7 * noise), labels, texts.T.contiguous(), scale)


def left_out_logits(kind: type[Setting], shots: FewShot) -> dict[Setting, Tensor]:
    """Setting -> (n, C) logits by heads that have not seen an image's fold; NaN where an image is in none."""
    left_out = kind.left_out(shots)
    tables = {}
    for setting in kind.settings():
        tables[setting] = torch.full((len(shots.labels), shots.n_classes), torch.nan).double()
        for rows, logits in left_out.logits(setting):
            assert tables[setting][rows].isnan().all(), "an image comes once"
            tables[setting][rows] = logits
    return tables


def on_a_circle(*degrees: float) -> Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def in_cone(shots: FewShot, *, cone: float) -> FewShot:
    """A vector of a length added to all photos and another to all texts, whose own answers stay as they are.

    Features and texts have two more numbers.
    """
    length = math.sqrt(1 + cone**2)
    photos, texts = torch.zeros(len(shots.labels), 2).double(), torch.zeros(2, shots.n_classes).double()
    photos[:, 0], texts[1] = cone, cone
    return FewShot(
        torch.cat([shots.features, photos], dim=1) / length,
        shots.labels,
        torch.cat([shots.texts, texts]) / length,
        shots.logit_scale * length**2,
    )
