"""The losses as functions of tensors.

Axes: B images of a batch, C classes, S soft descriptors of a step, D feature size. Features are L2-normalised, logits
are cosines times logit scale, targets are probabilities. Sources: label smoothing and adaptive margin as in
Chris210634/word_soups (source/losses.py, source/trainer.py), the margin after CLIPood (arXiv 2302.00864); distillation
from the teacher is the diversity loss of arXiv 2311.13612; KgCoOp arXiv 2303.13283; ProGrad arXiv 2205.14865; ProDA
arXiv 2205.03340; ProLIP arXiv 2410.05270 (astra-vision/ProLIP, methods/ProLIP.py);
PromptSRC arXiv 2307.06948 (muzairkhattak/PromptSRC, trainers/promptsrc.py).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch of - sum_c target_c log softmax(logits)_c: (B, C), (B, C) -> ()."""
    log_p = F.log_softmax(logits, dim=-1)
    return -(targets * log_p).sum(dim=-1).mean()


def smooth_targets(labels: Tensor, *, n_classes: int, label_smoothing: float) -> Tensor:
    """1 - e for the label and e / (C - 1) for every other class: (B,) -> (B, C); 1 if there is one class."""
    if n_classes == 1:
        return torch.ones(len(labels), 1, device=labels.device)
    targets = torch.full((len(labels), n_classes), label_smoothing / (n_classes - 1), device=labels.device)
    return targets.scatter_(1, labels[:, None], 1 - label_smoothing)


def adaptive_margin(text_features: Tensor, *, labels: Tensor, margin: float) -> Tensor:
    """(B, C) to add to the cosines: margin x (1 - cosine of the true and the other class's text), without gradient."""
    # CLIPood's margin is a constant of the step: with a gradient, texts could make it smaller by moving together.
    texts = text_features.detach()
    cosines = texts[labels] @ texts.T
    return margin * (1 - cosines)


def anchor(text_features: Tensor, initial: Tensor) -> Tensor:
    """KgCoOp's distance as in the authors' code: 1 - mean cosine of all pairs of text and initial text: (C, D)."""
    # The mean over all pairs of cosines is the cosine product of the two means.
    return 1 - text_features.mean(dim=0) @ initial.mean(dim=0)


def without_conflict(task: Sequence[Tensor], *, general: Sequence[Tensor], weight: float) -> list[Tensor]:
    """ProGrad: if a parameter's task gradient opposes the general one, remove that component, times `weight`.

    Args:
        task: gradients of the task loss.
        general: gradients of the KL to the zero-shot prediction, of the same shapes.
        weight: 1 makes the two orthogonal.
    """
    projected = []
    for task_gradient, general_gradient in zip(task, general, strict=True):
        dot = (task_gradient * general_gradient).sum()
        square = (general_gradient * general_gradient).sum()
        conflict = (dot < 0) & (square > 0)
        # Both branches of `where` are computed, so the quotient must be finite where it is not used, too.
        smallest = torch.finfo(general_gradient.dtype).tiny
        conflicting = weight * dot / square.clamp(min=smallest) * general_gradient
        without = task_gradient - conflicting
        projected.append(torch.where(conflict, without, task_gradient))
    return projected


def squared_distance(weights: Sequence[Tensor], *, start: Sequence[Tensor]) -> Tensor:
    """ProLIP's regulariser: the squared Frobenius distance of weights from their initial values, of equal shapes."""
    distances = [((now - before) ** 2).sum() for now, before in zip(weights, start, strict=True)]
    return torch.stack(distances).sum()


def absolute_distance(features: Tensor, frozen: Tensor) -> Tensor:
    """PromptSRC's distance of features from the pretrained model's: mean |difference| of all numbers: (N, D) -> ()."""
    return (features - frozen).abs().mean()


def divergence_of_logits(logits: Tensor, *, zero_shot: Tensor) -> Tensor:
    """PromptSRC's KL of the prediction from the zero-shot one, summed and over the number of logits: (B, C) -> ()."""
    log_p = F.log_softmax(logits, dim=-1)
    log_q = F.log_softmax(zero_shot, dim=-1)
    # As in the authors' code; the usual mean over images is C times as much.
    return (log_q.exp() * (log_q - log_p)).sum() / logits.numel()


def gaussian_bound(image_features: Tensor, text_features: Tensor, *, logit_scale: float) -> Tensor:
    """ProDA's upper bound over a batch of distinct classes, whose text features are Gaussian over the prompts.

    The covariance of classes i and k is diagonal and divides by S + 1, as in the authors' and ProDA's code. Logit k of
    image x of class y:
    scale <x, mean_k / ||mean_k||> + scale^2 / 2 sum_d x_d^2 (S_yy + S_kk - 2 S_yk)_d.

    Args:
        image_features: (B, D).
        text_features: (B, S, D), of the classes of the batch.
        logit_scale: of the cosines.
    """
    mean = text_features.mean(dim=1)  # (B, D)
    deviation = text_features - mean[:, None]  # (B, S, D)
    squares = image_features**2  # (B, D)
    count = deviation.shape[1] + 1
    own = torch.einsum("bd,bsd->b", squares, deviation**2)
    other = torch.einsum("bd,ksd->bk", squares, deviation**2)
    cross = torch.einsum("bsd,ksd->bk", squares[:, None] * deviation, deviation)
    variance = (own[:, None] + other - 2 * cross) / count  # (B, B)
    cosines = logit_scale * image_features @ F.normalize(mean, dim=-1).T
    logits = cosines + 0.5 * logit_scale**2 * variance
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def prompt_overlap(text_features: Tensor) -> Tensor:
    """ProDA's orthogonality: mean |cosine| of different prompts' deviations from the mean prompt: (B, S, D) -> ()."""
    deviation = text_features - text_features.mean(dim=1, keepdim=True)
    direction = F.normalize(deviation.mean(dim=0), dim=-1)  # (S, D)
    if len(direction) == 1:
        return direction.sum() * 0  # zero, but with a gradient
    others = ~torch.eye(len(direction), dtype=torch.bool, device=direction.device)
    return (direction @ direction.T)[others].abs().mean()


def members_divergence(probabilities: Tensor) -> float:
    """Mean KL(p_i || p_j) in nats over ordered pairs of members and over images: (M, B, C) -> number; 0 if M is 1."""
    m = len(probabilities)
    if m == 1:
        return 0.0
    # Clamped, because a probability that underflows to 0 has no logarithm.
    log = probabilities.clamp(min=1e-12).log()
    # Sums over all pairs, the equal ones among them, which add nothing.
    own = (probabilities * log).sum(dim=(0, 2)) * m
    cross = (probabilities.sum(dim=0) * log.sum(dim=0)).sum(dim=-1)
    return float((own - cross).mean() / (m * (m - 1)))
