"""From features to gradients: which losses a method adds up, over which texts.

The cross-entropy methods score a batch against all C classes, the contrastive ones (as in the authors' code, to save
memory) against the classes of the batch, which all differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wsoup.finetune import losses
from wsoup.finetune.params import ContrastiveLoss, CrossEntropyLoss, KgcoopLoss, LossParams, ProdaLoss, ProgradLoss
from wsoup.finetune.passes import Passes


def needs_teacher_images(loss: LossParams) -> bool:
    """Whether the pretrained model's image features enter the loss."""
    return isinstance(loss, ProgradLoss) or (isinstance(loss, CrossEntropyLoss) and bool(loss.weight))


class Objective:
    """One loss of a method. `in_batch`: only the batch's own classes are scored, image i belonging to column i.

    Args:
        passes: where text features come from.
        loss: which, with its weights.
        logit_scale: of the cosines.
        parameters: what gradients are for.
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
        self.in_batch = isinstance(loss, ContrastiveLoss | ProgradLoss | ProdaLoss)

    def backward(
        self, images: Tensor, teacher: Tensor | None, labels: Tensor, *, iteration: int
    ) -> tuple[Tensor, Tensor]:
        """Put gradients into the parameters.

        Args:
            images: (B, D) of the student, with gradient where its image tower is trained.
            teacher: (B, D) of the pretrained model, or None where it is not needed.
            labels: (B,), all different.
            iteration: decides whose turn it is: member iteration mod M of the soup, or soft descriptor.

        Returns:
            Loss (), and logits (B, C), or (B, B) where only the batch's classes were scored.
        """
        member = iteration % self.passes.members
        match self.loss:
            case CrossEntropyLoss():
                value, logits = self._cross_entropy(self.loss, images, teacher, labels, member)
            case KgcoopLoss():
                texts = self.passes.texts(member)
                logits = self.scale * images @ texts.T
                value = torch.nn.functional.cross_entropy(logits, labels)
                distance = losses.anchor(texts, self.passes.teacher_texts(member), pairs=self.loss.pairs)
                value = value + self.loss.weight * distance
            case ContrastiveLoss():
                texts = self.passes.texts(member, classes=labels)
                logits = self.scale * images @ texts.T
                value = losses.contrastive(images, texts, logit_scale=self.scale, balance=self.loss.balance)
            case ProdaLoss():
                value, logits = self._proda(self.loss, images, labels, iteration)
            case ProgradLoss():
                assert teacher is not None
                return self._prograd(self.loss, images, teacher, labels, member)
        self.scaler.scale(value).backward()
        return value.detach(), logits.detach()

    def _cross_entropy(
        self, loss: CrossEntropyLoss, images: Tensor, teacher: Tensor | None, labels: Tensor, member: int
    ) -> tuple[Tensor, Tensor]:
        texts = self.passes.texts(member)
        logits = self.scale * images @ texts.T
        targets = losses.smooth_targets(labels, n_classes=len(texts), label_smoothing=loss.label_smoothing or 0.0)
        if loss.weight and loss.teacher_logit_scale and teacher is not None:
            taught = (loss.teacher_logit_scale * teacher @ self.passes.teacher_texts(member).T).softmax(dim=-1)
            targets = losses.taught_targets(targets, teacher=taught, weight=loss.weight)
        widened = logits
        if loss.margin:
            widened = logits + self.scale * losses.adaptive_margin(texts, labels=labels, margin=loss.margin)
        return losses.cross_entropy(widened, targets), logits

    def _proda(self, loss: ProdaLoss, images: Tensor, labels: Tensor, iteration: int) -> tuple[Tensor, Tensor]:
        group = [(iteration * loss.per_step + i) % self.passes.members for i in range(loss.per_step)]
        texts = torch.stack([self.passes.texts(i, classes=labels) for i in group], dim=1)  # (B, S, D)
        value = losses.gaussian_bound(images, texts, logit_scale=self.scale)
        value = value + loss.orthogonality * losses.prompt_overlap(texts)
        return value, self.scale * images @ texts.mean(dim=1).T

    def _prograd(
        self, loss: ProgradLoss, images: Tensor, teacher: Tensor, labels: Tensor, member: int
    ) -> tuple[Tensor, Tensor]:
        texts = self.passes.texts(member, classes=labels)
        logits = self.scale * images @ texts.T
        task = losses.contrastive(images, texts, logit_scale=self.scale, balance=1.0)
        zero_shot = (self.scale * teacher @ self.passes.teacher_texts(member)[labels].T).softmax(dim=-1)
        general = losses.kl_divergence(logits, zero_shot)
        general_gradients = torch.autograd.grad(self.scaler.scale(general), self.parameters, retain_graph=True)
        task_gradients = torch.autograd.grad(self.scaler.scale(task), self.parameters)
        kept = losses.without_conflict(task_gradients, general=general_gradients, weight=loss.weight)
        for parameter, gradient in zip(self.parameters, kept, strict=True):
            parameter.grad = gradient
        return task.detach(), logits.detach()
