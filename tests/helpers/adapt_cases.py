"""Piles of unlabelled images around class centres, and texts close to those centres."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize


@dataclass(frozen=True)
class Pile:
    """Images (N, D), class texts (D, C), and labels for evaluation only."""

    features: Tensor
    texts: Tensor
    labels: Tensor


def pile(
    *, counts: tuple[int, ...] = (60,) * 5, size: int = 32, off: float = 0.6, noise: float = 0.14, seed: int = 0
) -> Pile:
    """Clusters around a common direction, and texts that deviate from them by `off`."""
    draw = torch.Generator().manual_seed(seed)
    own = normalize(torch.randn(len(counts), size, generator=draw), dim=1)
    common = normalize(torch.randn(1, size, generator=draw), dim=1)
    labels = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
    labels = labels[torch.randperm(len(labels), generator=draw)]
    features = normalize(own[labels] * 0.6 + common + noise * torch.randn(len(labels), size, generator=draw), dim=1)
    texts = normalize(own + off * normalize(torch.randn(len(counts), size, generator=draw), dim=1), dim=1)
    return Pile(features, texts.T.contiguous(), labels)


def right(classifier: Tensor, bias: Tensor, images: Pile) -> int:
    """Number of images classified correctly."""
    return int(((images.features @ classifier + bias).argmax(dim=1) == images.labels).sum())


def with_foreign_images(images: Pile, *, n_images: int, seed: int = 0) -> Pile:
    """The pile and images of two things that are no class (label -1), in directions that no text speaks of."""
    draw = torch.Generator().manual_seed(seed)
    n_features = images.features.shape[1]
    spanned, _ = torch.linalg.qr(images.texts)
    things = torch.randn(2, n_features, generator=draw)
    things = normalize(things - things @ spanned @ spanned.T, dim=1)
    which = torch.randint(2, (n_images,), generator=draw)
    noise = 0.14 * torch.randn(n_images, n_features, generator=draw)
    foreign = normalize(2 * things[which] + images.features.mean(dim=0) + noise, dim=1)
    labels = torch.full((n_images,), -1)
    return Pile(torch.cat([images.features, foreign]), images.texts, torch.cat([images.labels, labels]))
