"""With which loss: the settings of every kind of `loss`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from wsoup.params.section import Count, Fraction, NonNegative, Positive, Section


class CrossEntropyLoss(Section):
    """Cross entropy over all classes, optionally with label smoothing, CLIPood's adaptive margin and a teacher.

    With `lambda` the target is (1 - lambda) x one-hot + lambda x the pretrained model's prediction for the same image
    and the same member of the soup, at logit scale `teacher_logit_scale`: the diversity loss of the paper, or with the
    class_name soup a regulariser towards initialisation.
    """

    written = frozenset({"label_smoothing", "margin", "weight", "teacher_logit_scale"})
    kind: Literal["cross_entropy"]
    label_smoothing: Fraction | None = None
    """Share of the target spread over all classes."""
    margin: NonNegative | None = None
    """CLIPood's adaptive margin between classes."""
    weight: Fraction | None = Field(default=None, alias="lambda")
    """lambda: weight of the pretrained model's own prediction in the target (the paper: 0.25)."""
    teacher_logit_scale: Positive | None = None
    """Logit scale of that prediction (the paper's tau0: 10)."""

    @model_validator(mode="after")
    def _teacher_has_scale(self) -> CrossEntropyLoss:
        if self.weight and self.teacher_logit_scale is None:
            raise ValueError("lambda needs teacher_logit_scale (the paper's tau0 is 10)")
        return self


class KgcoopLoss(Section):
    """Cross entropy + weight x (1 - mean cosine of class texts with initial ones, over all pairs as the authors')."""

    kind: Literal["kgcoop"]
    weight: NonNegative
    """Weight of the distance from the initial class texts."""


class ProgradLoss(Section):
    """Cross entropy over the batch's classes, its gradient projected where it opposes that of the KL to zero-shot."""

    kind: Literal["prograd"]
    weight: NonNegative
    """Share of the conflicting component to remove."""


class ProdaLoss(Section):
    """ProDA's Gaussian upper bound over `per_step` soft descriptors, + orthogonality x their mean cosine."""

    kind: Literal["proda"]
    per_step: Count
    """Soft descriptors in one step."""
    orthogonality: NonNegative
    """Weight of the descriptors' mean cosine."""


class ProlipLoss(Section):
    """Cross entropy + weight x the squared distance of all that is trained from where it began (arXiv 2410.05270)."""

    kind: Literal["prolip"]
    weight: NonNegative
    """Weight of the squared distance (ProLIP without validation images: 1 / shots)."""


class PromptsrcLoss(Section):
    """Cross entropy + distances from the pretrained model: of image features, of class texts, and of logits.

    Class texts are compared with the mean of the pretrained model's over prompt templates (arXiv 2307.06948).
    """

    kind: Literal["promptsrc"]
    image_weight: NonNegative
    """Weight of the mean absolute difference of image features (PromptSRC: 10)."""
    text_weight: NonNegative
    """Weight of that of class texts (PromptSRC: 25)."""
    templates: Annotated[Count, Field(le=80)]
    """How many of OpenAI's 80 templates, from the first on, the pretrained class texts are the mean of (PromptSRC:
    60)."""


LossParams = CrossEntropyLoss | KgcoopLoss | ProgradLoss | ProdaLoss | ProlipLoss | PromptsrcLoss
