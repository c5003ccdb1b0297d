"""Section `finetune`: methods, each what is trained x which loss x which texts, and what they share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from wsoup.params.section import Fraction, Name, NonNegativeInt, PositiveInt, Section

Some = Annotated[PositiveInt, Field(le=10_000)]
"""Tokens, blocks, members: what the model itself bounds far below this."""
Iterations = Annotated[PositiveInt, Field(le=100_000_000)]
Images = Annotated[PositiveInt, Field(le=65_536)]
Positive = Annotated[float, Field(gt=0, le=1e15)]
NonNegative = Annotated[float, Field(ge=0, le=1e15)]
"""Numbers whose products float32 still holds."""


class PromptTune(Section):
    """CoOp: the first `tokens` tokens of the template."""

    kind: Literal["prompt"]
    tokens: Some


class LastBlocksTune(Section):
    """The last blocks of both towers, their final norms and projections, and a text prompt (0 tokens: none)."""

    kind: Literal["last_blocks"]
    blocks: Some
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]


class SoftDescriptorsTune(Section):
    """`members` soft descriptors of `tokens` random words each: a CoOp ensemble, ProDA."""

    kind: Literal["soft_descriptors"]
    members: Some
    tokens: Some


class VisualPromptTune(Section):
    """VPT: shallow (depth 1) or deep."""

    kind: Literal["visual_prompt"]
    tokens: Some
    depth: Some


class MapleTune(Section):
    """MaPLe: text prompts, deep where depth > 1, and a linear map from them to visual prompts."""

    kind: Literal["maple"]
    tokens: Some
    depth: Some


class BitfitTune(Section):
    """The biases of the last blocks."""

    kind: Literal["bitfit"]
    blocks: Some


class LoraTune(Section):
    """A low-rank update of query and value in the last blocks."""

    kind: Literal["lora"]
    blocks: Some
    rank: Some


class SsfTune(Section):
    """Scale and shift after both norms, attention and feed-forward of the last blocks."""

    kind: Literal["ssf"]
    blocks: Some


class AdapterTune(Section):
    """A residual bottleneck after the feed-forward part of the last blocks; width / reduction wide."""

    kind: Literal["adapter"]
    blocks: Some
    reduction: Some
    ratio: Fraction


class ImageAdapterTune(Section):
    """CLIP-Adapter: a bottleneck on the image features, mixed in at `ratio`."""

    kind: Literal["image_adapter"]
    reduction: Some
    ratio: Fraction


TuneParams = (
    PromptTune
    | LastBlocksTune
    | SoftDescriptorsTune
    | VisualPromptTune
    | MapleTune
    | BitfitTune
    | LoraTune
    | SsfTune
    | AdapterTune
    | ImageAdapterTune
)


class CrossEntropyLoss(Section):
    """Cross entropy over all classes, with any of label smoothing, CLIPood's adaptive margin and a teacher.

    With `lambda` the target is (1 - lambda) x one-hot + lambda x the pretrained model's prediction for the same image
    and the same member of the soup, at logit scale `teacher_logit_scale`: the diversity loss of the paper, and with the
    class_name soup a regularisation towards initialisation.
    """

    kind: Literal["cross_entropy"]
    label_smoothing: Fraction | None = None
    margin: NonNegative | None = None
    weight: Fraction | None = Field(default=None, alias="lambda")
    teacher_logit_scale: Positive | None = None

    @model_validator(mode="after")
    def _teacher_has_scale(self) -> CrossEntropyLoss:
        if self.weight and self.teacher_logit_scale is None:
            raise ValueError("lambda needs teacher_logit_scale (the paper's tau0 is 10)")
        return self


class ContrastiveLoss(Section):
    """CLIP's loss over the batch; `balance` is the share of images-to-texts (1: only that, as the authors')."""

    kind: Literal["contrastive"]
    balance: Fraction


class KgcoopLoss(Section):
    """Cross entropy + weight x (1 - mean cosine of each class text with its initial one)."""

    kind: Literal["kgcoop"]
    weight: NonNegative


class ProgradLoss(Section):
    """Contrastive; its gradient loses `weight` of what conflicts with that of KL to the zero-shot prediction."""

    kind: Literal["prograd"]
    weight: NonNegative


class ProdaLoss(Section):
    """ProDA's Gaussian upper bound over `per_step` soft descriptors, + orthogonality x their mean cosine."""

    kind: Literal["proda"]
    per_step: Some
    orthogonality: NonNegative


LossParams = CrossEntropyLoss | ContrastiveLoss | KgcoopLoss | ProgradLoss | ProdaLoss


class MethodParams(Section):
    """One finetuned method: what is trained, with which loss, on which texts."""

    tune: Annotated[TuneParams, Field(discriminator="kind")]
    loss: Annotated[LossParams, Field(discriminator="kind")]
    soup: Name
    members: Some | None = None
    learning_rate: Positive
    prompt_factor: Positive
    iterations: Iterations | None = None
    batch_size: Images | None = None

    @model_validator(mode="after")
    def _parts_fit(self) -> MethodParams:
        soft = self.tune if isinstance(self.tune, SoftDescriptorsTune) else None
        if soft and self.soup != "class_name":
            raise ValueError(f"tune soft_descriptors learns its own texts: soup must be class_name, not {self.soup!r}")
        if isinstance(self.loss, ProdaLoss) and (soft is None or self.loss.per_step > soft.members):
            raise ValueError("loss proda needs tune soft_descriptors with at least per_step members")
        if soft and not (
            isinstance(self.loss, ProdaLoss | CrossEntropyLoss) and not getattr(self.loss, "weight", None)
        ):
            raise ValueError("tune soft_descriptors takes loss proda or cross_entropy without lambda")
        return self


class AugmentParams(Section):
    """RandomResizedCrop, which keeps this share of the area at least and at most, and a horizontal flip."""

    crop: tuple[Fraction, Fraction]
    flip: bool

    @model_validator(mode="after")
    def _ordered(self) -> AugmentParams:
        if not 0 < self.crop[0] <= self.crop[1]:
            raise ValueError(f"crop {list(self.crop)} must be [smallest, largest] share of the area, above 0")
        return self


class FinetuneParams(Section):
    """What all finetuned methods share, and the methods by name. `augment` null: the plain preprocessing."""

    iterations: Iterations
    batch_size: Images
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: NonNegative
    logit_scale: Positive
    ema: Annotated[float, Field(ge=0, lt=1)]
    augment: AugmentParams | None
    log_every: Iterations
    methods: dict[Name, MethodParams]
