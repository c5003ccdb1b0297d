"""`Objective`: the loss that a method asks for, with its gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.finetune import losses
from wsoup.finetune.loss_params import (
    CrossEntropyLoss,
    KgcoopLoss,
    LossParams,
    ProdaLoss,
    ProgradLoss,
    ProlipLoss,
    PromptsrcLoss,
)
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
        parameters: what is trained, at its initial values.
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
        self.passes = passes
        self.loss = loss
        self.scale = logit_scale
        self.scaler = scaler
        self.parameters = list(parameters)
        self.start: list[Tensor] = []
        if isinstance(loss, ProlipLoss):
            self.start = [parameter.detach().clone() for parameter in self.parameters]
        self.in_batch = isinstance(loss, ProgradLoss | ProdaLoss)
        self.needs_teacher = isinstance(loss, ProgradLoss | PromptsrcLoss)
        if isinstance(loss, CrossEntropyLoss) and loss.weight:
            self.needs_teacher = True

    def backward(
        self, images: Tensor, teacher: Tensor | None, labels: Tensor, *, text_index: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss and its gradients with respect to the parameters.

        Args:
            images: (B, D) of the student, with gradient if its image tower is trained.
            teacher: (B, D) of the pretrained model, or None if the loss does not use it.
            labels: (B,) on the CPU, distinct if the loss is `in_batch`.
            text_index: selects the member of the soup or the soft descriptor, text_index mod M; ProDA takes several.

        Returns:
            Loss (), and logits (B, C), or (B, B) if `in_batch`.
        """
        member = text_index % self.passes.members
        classes = labels  # which text features are computed is decided on the CPU
        labels = labels.to(images.device, non_blocking=True)
        match self.loss:
            case CrossEntropyLoss():
                value, logits = self._cross_entropy(self.loss, images, teacher, labels, member)
            case KgcoopLoss():
                texts = self.passes.texts(member)
                logits = self.scale * images @ texts.T
                distance = losses.anchor(texts, self.passes.teacher_texts(member))
                value = F.cross_entropy(logits, labels) + self.loss.weight * distance
            case ProlipLoss():
                logits = self.scale * images @ self.passes.texts(member).T
                distance = losses.squared_distance(self.parameters, start=self.start)
                value = F.cross_entropy(logits, labels) + self.loss.weight * distance
            case PromptsrcLoss():
                assert teacher is not None
                value, logits = self._promptsrc(self.loss, images, teacher, labels, member)
            case ProdaLoss():
                value, logits = self._proda(self.loss, images, classes, text_index)
            case ProgradLoss():
                assert teacher is not None
                texts = self.passes.texts(member, classes=classes)
                logits = self.scale * images @ texts.T
                teacher_texts = self.passes.teacher_texts(member)[labels]
                zero_shot = self.scale * teacher @ teacher_texts.T
                # ProGrad takes two gradients and combines them, so there is no one value to go back from.
                return self._prograd(self.loss, logits, zero_shot=zero_shot)
        self.scaler.scale(value).backward()
        return value.detach(), logits.detach()

    def _cross_entropy(
        self, loss: CrossEntropyLoss, images: Tensor, teacher: Tensor | None, labels: Tensor, member: int
    ) -> tuple[Tensor, Tensor]:
        texts = self.passes.texts(member)
        logits = self.scale * images @ texts.T
        targets = losses.smooth_targets(labels, n_classes=len(texts), label_smoothing=loss.label_smoothing or 0.0)
        if loss.weight and loss.teacher_logit_scale and teacher is not None:
            teacher_texts = self.passes.teacher_texts(member)
            teacher_logits = loss.teacher_logit_scale * teacher @ teacher_texts.T
            targets = (1 - loss.weight) * targets + loss.weight * teacher_logits.softmax(dim=-1)
        with_margin = logits
        if loss.margin:
            with_margin = logits + self.scale * losses.adaptive_margin(texts, labels=labels, margin=loss.margin)
        # The margin makes training harder; predictions, which the log counts, are without it.
        return losses.cross_entropy(with_margin, targets), logits

    def _promptsrc(
        self, loss: PromptsrcLoss, images: Tensor, teacher: Tensor, labels: Tensor, member: int
    ) -> tuple[Tensor, Tensor]:
        texts = self.passes.texts(member)
        frozen = self.passes.template_texts(loss.templates)
        logits = self.scale * images @ texts.T
        value = F.cross_entropy(logits, labels)
        value = value + loss.image_weight * losses.absolute_distance(images, teacher)
        value = value + loss.text_weight * losses.absolute_distance(texts, frozen)
        zero_shot = self.scale * teacher @ frozen.T
        return value + losses.divergence_of_logits(logits, zero_shot=zero_shot), logits

    def _proda(self, loss: ProdaLoss, images: Tensor, classes: Tensor, text_index: int) -> tuple[Tensor, Tensor]:
        """The loss over the next `per_step` members, and logits of their mean."""
        first = text_index * loss.per_step
        of_members = []
        for i in range(first, first + loss.per_step):
            member = i % self.passes.members
            of_members.append(self.passes.texts(member, classes=classes))
        texts = torch.stack(of_members, dim=1)  # (B, S, D)
        bound = losses.gaussian_bound(images, texts, logit_scale=self.scale)
        value = bound + loss.orthogonality * losses.prompt_overlap(texts)
        mean_texts = texts.mean(dim=1)
        return value, self.scale * images @ mean_texts.T

    def _prograd(self, loss: ProgradLoss, logits: Tensor, *, zero_shot: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and its gradients, from the logits (B, B) of the student and of the pretrained model."""
        task = F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))
        log_p = F.log_softmax(logits, dim=-1)
        general = F.kl_div(log_p, zero_shot.softmax(dim=-1), reduction="batchmean")
        # The graph is kept for the second loss: both go back through the same features.
        general_gradients = torch.autograd.grad(self.scaler.scale(general), self.parameters, retain_graph=True)
        task_gradients = torch.autograd.grad(self.scaler.scale(task), self.parameters)
        gradients = losses.without_conflict(task_gradients, general=general_gradients, weight=loss.weight)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        return task.detach(), logits.detach()
