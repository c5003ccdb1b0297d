"""The losses, on tensors. Axes: B images of a batch, C classes, S soft descriptors of a step, D feature size.

Features are L2-normalised, logits are cosines times logit scale, targets are probabilities. Sources: label smoothing
and adaptive margin as in Chris210634/word_soups (source/losses.py, source/trainer.py), the margin after CLIPood (arXiv
2302.00864); the teacher's share is the diversity loss of arXiv 2311.13612; KgCoOp arXiv 2303.13283; ProGrad arXiv
2205.14865; ProDA arXiv 2205.03340.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch of - sum_c target_c log softmax(logits)_c: (B, C), (B, C) -> ()."""
    return -(targets * F.log_softmax(logits, dim=-1)).sum(dim=-1).mean()


def smooth_targets(labels: Tensor, *, n_classes: int, label_smoothing: float) -> Tensor:
    """1 - e on the label and e / (C - 1) on each other class: (B,) -> (B, C); with one class 1."""
    if n_classes == 1:
        return torch.ones(len(labels), 1, device=labels.device)
    targets = torch.full((len(labels), n_classes), label_smoothing / (n_classes - 1), device=labels.device)
    return targets.scatter_(1, labels[:, None], 1 - label_smoothing)


def taught_targets(targets: Tensor, *, teacher: Tensor, weight: float) -> Tensor:
    """(1 - lambda) targets + lambda teacher: (B, C) probabilities each."""
    return (1 - weight) * targets + weight * teacher


def adaptive_margin(text_features: Tensor, *, labels: Tensor, margin: float) -> Tensor:
    """What is added to the cosines, (B, C): margin x (1 - cosine of own and other class's text), without gradient."""
    texts = text_features.detach()
    return margin * (1 - texts[labels] @ texts.T)


def contrastive(image_features: Tensor, text_features: Tensor, *, logit_scale: float, balance: float) -> Tensor:
    """CLIP's loss over a batch of distinct classes; `balance` is the share of images-to-texts: (B, D), (B, D) -> ()."""
    logits = logit_scale * image_features @ text_features.T
    own = torch.arange(len(logits), device=logits.device)
    return balance * F.cross_entropy(logits, own) + (1 - balance) * F.cross_entropy(logits.T, own)


def anchor(text_features: Tensor, initial: Tensor, *, pairs: str) -> Tensor:
    """KgCoOp's distance: 1 - mean cosine of texts with initial ones: (C, D), (C, D) -> ().

    `pairs`: each class's "own" text before and after, or those of "all" pairs of classes (the authors' code).
    """
    if pairs == "all":
        return 1 - text_features.mean(dim=0) @ initial.mean(dim=0)
    return 1 - (text_features * initial).sum(dim=-1).mean()


def kl_divergence(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean over the batch of KL(teacher || softmax(logits)): (B, C), (B, C) probabilities -> ()."""
    return F.kl_div(F.log_softmax(logits, dim=-1), teacher, reduction="batchmean")


def without_conflict(task: Sequence[Tensor], *, general: Sequence[Tensor], weight: float) -> list[Tensor]:
    """ProGrad: where a parameter's task gradient points against the general one, take that component (x weight) out.

    Args:
        task: gradients of the task loss.
        general: gradients of KL to the zero-shot prediction, of the same shapes.
        weight: 1 leaves a right angle.
    """
    kept = []
    for g, k in zip(task, general, strict=True):
        along = (g * k).sum()
        square = (k * k).sum()
        conflict = (along < 0) & (square > 0)
        kept.append(torch.where(conflict, g - weight * along / square.clamp(min=torch.finfo(k.dtype).tiny) * k, g))
    return kept


def gaussian_bound(image_features: Tensor, text_features: Tensor, *, logit_scale: float) -> Tensor:
    """ProDA's upper bound over a batch of distinct classes, whose texts are Gaussian over the prompts.

    The covariance of classes i and k has entries in matching dimensions only, and divides by S + 1 (the authors' and
    ProDA's code). Logit k of image x of class y:
    scale <x, mean_k / ||mean_k||> + scale^2 / 2 sum_d x_d^2 (S_yy + S_kk - 2 S_yk)_d.

    Args:
        image_features: (B, D).
        text_features: (B, S, D), of the classes of the batch.
        logit_scale: of the cosines.
    """
    mean = text_features.mean(dim=1)  # (B, D)
    away = text_features - mean[:, None]  # (B, S, D)
    squares = image_features**2  # (B, D)
    count = away.shape[1] + 1
    own = torch.einsum("bd,bsd->b", squares, away**2)
    other = torch.einsum("bd,ksd->bk", squares, away**2)
    cross = torch.einsum("bsd,ksd->bk", squares[:, None] * away, away)
    variance = (own[:, None] + other - 2 * cross) / count
    logits = logit_scale * image_features @ F.normalize(mean, dim=-1).T + 0.5 * logit_scale**2 * variance
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def prompt_overlap(text_features: Tensor) -> Tensor:
    """ProDA's orthogonality: mean |cosine| of two different prompts' mean deviation from the mean prompt: (B, S, D)."""
    away = F.normalize((text_features - text_features.mean(dim=1, keepdim=True)).mean(dim=0), dim=-1)  # (S, D)
    others = ~torch.eye(len(away), dtype=torch.bool, device=away.device)
    return (away @ away.T)[others].abs().mean() if len(away) > 1 else away.sum() * 0


def members_divergence(probabilities: Tensor) -> float:
    """Mean KL(p_i || p_j) in nats over ordered pairs of different members and over images: (M, B, C); 0 if M is 1."""
    log = probabilities.clamp(min=1e-12).log()
    m = len(probabilities)
    if m == 1:
        return 0.0
    own = (probabilities * log).sum(dim=(0, 2)) * m
    cross = (probabilities.sum(dim=0) * log.sum(dim=0)).sum(dim=-1)
    return float((own - cross).mean() / (m * (m - 1)))
