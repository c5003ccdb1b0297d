"""The losses as functions of tensors, and `Objective`, which backpropagates the one that a method asks for.

Axes: B images of a batch, C classes, S soft descriptors of a step, D feature size. Features are L2-normalised, logits
are cosines times logit scale, targets are probabilities. Sources: label smoothing and adaptive margin as in
Chris210634/word_soups (source/losses.py, source/trainer.py), the margin after CLIPood (arXiv 2302.00864); distillation
from the teacher is the diversity loss of arXiv 2311.13612; KgCoOp arXiv 2303.13283; ProGrad arXiv 2205.14865; ProDA
arXiv 2205.03340.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.finetune.params import CrossEntropyLoss, KgcoopLoss, LossParams, ProdaLoss, ProgradLoss
from wsoup.finetune.passes import Passes


class Objective:
    """A loss and the features it is computed from.

    Cross entropy scores a batch against all C classes. ProGrad and ProDA score it against its own classes only, to save
    memory as the authors' code does: then `in_batch` is true, and image i is of column i. `needs_teacher` says whether
    the pretrained model's image features are used.

    Args:
        passes: computes the text features.
        loss: the kind of loss and its weights.
        logit_scale: of the cosines.
        parameters: what is trained.
        scaler: loss scaling, for float16.
    """

    def __init__(
        self,
        passes: Passes,
        *,
        loss: LossParams,
        logit_scale: float,
        parameters: Sequence[torch.nn.Parameter],
        scaler: torch.amp.GradScaler,
    ) -> None:
        self.passes, self.loss, self.scale, self.scaler = passes, loss, logit_scale, scaler
        self.parameters = list(parameters)
        self.in_batch = isinstance(loss, ProgradLoss | ProdaLoss)
        self.needs_teacher = isinstance(loss, ProgradLoss) or (isinstance(loss, CrossEntropyLoss) and bool(loss.weight))

    def backward(
        self, images: Tensor, teacher: Tensor | None, labels: Tensor, *, iteration: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss and put its gradients into the parameters.

        Args:
            images: (B, D) of the student, with gradient if its image tower is trained.
            teacher: (B, D) of the pretrained model, or None if the loss does not use it.
            labels: (B,) on the CPU, distinct if the loss is `in_batch`.
            iteration: selects the member of the soup, iteration mod M, or the soft descriptors.

        Returns:
            Loss (), and logits (B, C), or (B, B) if `in_batch`.
        """
        member, classes, labels = iteration % self.passes.members, labels, labels.to(images.device, non_blocking=True)
        match self.loss:
            case CrossEntropyLoss():
                value, logits = self._cross_entropy(self.loss, images, teacher, labels, member)
            case KgcoopLoss():
                texts = self.passes.texts(member)
                logits = self.scale * images @ texts.T
                distance = anchor(texts, self.passes.teacher_texts(member))
                value = F.cross_entropy(logits, labels) + self.loss.weight * distance
            case ProdaLoss():
                value, logits = self._proda(self.loss, images, classes, iteration)
            case ProgradLoss():
                assert teacher is not None
                texts = self.passes.texts(member, classes=classes)
                zero_shot = self.scale * teacher @ self.passes.teacher_texts(member)[labels].T
                return self._prograd(self.loss, self.scale * images @ texts.T, zero_shot=zero_shot)
        self.scaler.scale(value).backward()
        return value.detach(), logits.detach()

    def _cross_entropy(
        self, loss: CrossEntropyLoss, images: Tensor, teacher: Tensor | None, labels: Tensor, member: int
    ) -> tuple[Tensor, Tensor]:
        texts = self.passes.texts(member)
        logits = self.scale * images @ texts.T
        targets = smooth_targets(labels, n_classes=len(texts), label_smoothing=loss.label_smoothing or 0.0)
        if loss.weight and loss.teacher_logit_scale and teacher is not None:
            predicted = (loss.teacher_logit_scale * teacher @ self.passes.teacher_texts(member).T).softmax(dim=-1)
            targets = (1 - loss.weight) * targets + loss.weight * predicted
        with_margin = logits
        if loss.margin:
            with_margin = logits + self.scale * adaptive_margin(texts, labels=labels, margin=loss.margin)
        return cross_entropy(with_margin, targets), logits

    def _proda(self, loss: ProdaLoss, images: Tensor, classes: Tensor, iteration: int) -> tuple[Tensor, Tensor]:
        members = [(iteration * loss.per_step + i) % self.passes.members for i in range(loss.per_step)]
        texts = torch.stack([self.passes.texts(member, classes=classes) for member in members], dim=1)  # (B, S, D)
        value = gaussian_bound(images, texts, logit_scale=self.scale) + loss.orthogonality * prompt_overlap(texts)
        return value, self.scale * images @ texts.mean(dim=1).T

    def _prograd(self, loss: ProgradLoss, logits: Tensor, *, zero_shot: Tensor) -> tuple[Tensor, Tensor]:
        """From the logits (B, B) of the student and of the pretrained model."""
        task = F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))
        general = F.kl_div(F.log_softmax(logits, dim=-1), zero_shot.softmax(dim=-1), reduction="batchmean")
        general_gradients = torch.autograd.grad(self.scaler.scale(general), self.parameters, retain_graph=True)
        task_gradients = torch.autograd.grad(self.scaler.scale(task), self.parameters)
        gradients = without_conflict(task_gradients, general=general_gradients, weight=loss.weight)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        return task.detach(), logits.detach()


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch of - sum_c target_c log softmax(logits)_c: (B, C), (B, C) -> ()."""
    return -(targets * F.log_softmax(logits, dim=-1)).sum(dim=-1).mean()


def smooth_targets(labels: Tensor, *, n_classes: int, label_smoothing: float) -> Tensor:
    """1 - e for the label and e / (C - 1) for every other class: (B,) -> (B, C); 1 if there is one class."""
    if n_classes == 1:
        return torch.ones(len(labels), 1, device=labels.device)
    targets = torch.full((len(labels), n_classes), label_smoothing / (n_classes - 1), device=labels.device)
    return targets.scatter_(1, labels[:, None], 1 - label_smoothing)


def adaptive_margin(text_features: Tensor, *, labels: Tensor, margin: float) -> Tensor:
    """(B, C) to add to the cosines: margin x (1 - cosine of the true and the other class's text), without gradient."""
    texts = text_features.detach()
    return margin * (1 - texts[labels] @ texts.T)


def anchor(text_features: Tensor, initial: Tensor) -> Tensor:
    """KgCoOp's distance as in the authors' code: 1 - mean cosine of all pairs of text and initial text: (C, D)."""
    return 1 - text_features.mean(dim=0) @ initial.mean(dim=0)


def without_conflict(task: Sequence[Tensor], *, general: Sequence[Tensor], weight: float) -> list[Tensor]:
    """ProGrad: if a parameter's task gradient opposes the general one, remove that component, times `weight`.

    Args:
        task: gradients of the task loss.
        general: gradients of the KL to the zero-shot prediction, of the same shapes.
        weight: 1 makes the two orthogonal.
    """
    projected = []
    for g, k in zip(task, general, strict=True):
        dot = (g * k).sum()
        square = (k * k).sum()
        conflict = (dot < 0) & (square > 0)
        projected.append(torch.where(conflict, g - weight * dot / square.clamp(min=torch.finfo(k.dtype).tiny) * k, g))
    return projected


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
    variance = (own[:, None] + other - 2 * cross) / count
    logits = logit_scale * image_features @ F.normalize(mean, dim=-1).T + 0.5 * logit_scale**2 * variance
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def prompt_overlap(text_features: Tensor) -> Tensor:
    """ProDA's orthogonality: mean |cosine| of different prompts' deviations from the mean prompt: (B, S, D) -> ()."""
    deviation = F.normalize((text_features - text_features.mean(dim=1, keepdim=True)).mean(dim=0), dim=-1)  # (S, D)
    others = ~torch.eye(len(deviation), dtype=torch.bool, device=deviation.device)
    return (deviation @ deviation.T)[others].abs().mean() if len(deviation) > 1 else deviation.sum() * 0


def members_divergence(probabilities: Tensor) -> float:
    """Mean KL(p_i || p_j) in nats over ordered pairs of members and over images: (M, B, C) -> number; 0 if M is 1."""
    log = probabilities.clamp(min=1e-12).log()
    m = len(probabilities)
    if m == 1:
        return 0.0
    own = (probabilities * log).sum(dim=(0, 2)) * m
    cross = (probabilities.sum(dim=0) * log.sum(dim=0)).sum(dim=-1)
    return float((own - cross).mean() / (m * (m - 1)))
