"""Section `finetune`: methods (what is trained x which loss x which texts) and their shared settings."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from wsoup.base.arguments import Flag
from wsoup.params.section import Fraction, Name, NonNegativeInt, Place, PositiveInt, Section, check_stated

Some = Annotated[PositiveInt, Field(le=10_000)]
"""Tokens, blocks or members; the model sets much lower limits."""
Iterations = Annotated[PositiveInt, Field(le=100_000_000)]
Images = Annotated[PositiveInt, Field(le=65_536)]
Positive = Annotated[float, Field(gt=0, le=1e15)]
NonNegative = Annotated[float, Field(ge=0, le=1e15)]
"""Numbers whose products fit into float32."""


class AnyTune(Section):
    """Base of every kind of `tune`."""

    tunes_images: ClassVar[bool] = True
    """Whether image features change, so that test images must be encoded again."""


class PromptTune(AnyTune):
    """CoOp: the first `tokens` tokens of the template."""

    tunes_images = False
    kind: Literal["prompt"]
    tokens: Some
    """Number of learnt tokens of the template."""


class LastBlocksTune(AnyTune):
    """The last blocks of both towers, their final norms and projections, and a text prompt (0 tokens: none)."""

    kind: Literal["last_blocks"]
    blocks: Some
    """Number of last blocks."""
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]
    """Learnt tokens of the template; 0: none."""


class SoftDescriptorsTune(AnyTune):
    """`members` soft descriptors of `tokens` tokens each, and a text prompt (0 tokens: none).

    They start as random words and a period, which is learnt and replaces the prompt's own. ProDA trains them together
    with a prompt. With cross entropy they are a CoOp ensemble: each is trained on its own, from scratch, for its share
    of the iterations, and only the descriptors are kept.
    """

    tunes_images = False
    kind: Literal["soft_descriptors"]
    members: Some
    """Number of soft descriptors."""
    tokens: Some
    """Tokens of each."""
    words: Place | None = None
    """A list of words to start from, one a line, watched as `candidates.words.watch`; those of one token are drawn.
    null: common words of the tokenizer."""
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]
    """Learnt tokens of the template; 0: none."""
    blocks: Annotated[NonNegativeInt, Field(le=10_000)] = 0
    """Last blocks of both towers, with final norms and projections, that are trained with each descriptor and restored
    after it; 0: none. The authors' CoOp ensemble trains 3 (argparse_parameters.py:37)."""


class VisualPromptTune(AnyTune):
    """VPT: shallow (depth 1) or deep."""

    kind: Literal["visual_prompt"]
    tokens: Some
    """Learnt tokens in addition to the image's patches."""
    depth: Some
    """Blocks with learnt prompts; 1 is shallow."""


class MapleTune(AnyTune):
    """MaPLe: text prompts, deep where depth > 1, and a linear map from them to visual prompts."""

    kind: Literal["maple"]
    tokens: Some
    """Learnt tokens of the template, and as many in addition to the patches."""
    depth: Some
    """Blocks with learnt prompts; 1 is shallow."""


class BlocksTune(AnyTune):
    """A `tune` inside the last blocks."""

    opens: Literal["both", "image_twice"] = "both"
    """`both` towers, as in the method's paper; or, as in the authors' code (trainer.py:201), only the image tower, with
    each parameter listed twice in the optimizer and so taking two steps at a time. Parameters that `ssf` and `adapter`
    add to the text tower then keep their initial values."""
    blocks: Some
    """Number of last blocks."""


class BitfitTune(BlocksTune):
    """The biases of the last blocks."""

    kind: Literal["bitfit"]


class LoraTune(BlocksTune):
    """A low-rank update of query and value in the last blocks."""

    kind: Literal["lora"]
    rank: Some
    """Rank of the update."""
    piles_up: Flag = False
    """During training every pass adds the update to the weights for good, as in the authors' code (models.py:185);
    false: every pass uses weights + update. Either way, the final update is added once."""


class SsfTune(BlocksTune):
    """Scale and shift after both norms, attention and feed-forward of the last blocks."""

    kind: Literal["ssf"]


class AdapterTune(BlocksTune):
    """A bottleneck of width / reduction after the feed-forward part of the last blocks, blended at `ratio`."""

    kind: Literal["adapter"]
    reduction: Some
    """The bottleneck's width is width / reduction."""
    ratio: Fraction
    """Weight of the bottleneck in the output."""


class ImageAdapterTune(AnyTune):
    """CLIP-Adapter: a bottleneck on the image features, blended at `ratio`."""

    kind: Literal["image_adapter"]
    reduction: Some
    """The bottleneck's width is width / reduction."""
    ratio: Fraction
    """Weight of the bottleneck in the feature."""


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
    """Cross entropy over all classes, optionally with label smoothing, CLIPood's adaptive margin and a teacher.

    With `lambda` the target is (1 - lambda) x one-hot + lambda x the pretrained model's prediction for the same image
    and the same member of the soup, at logit scale `teacher_logit_scale`: the diversity loss of the paper, or with the
    class_name soup a regulariser towards initialisation.
    """

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
    per_step: Some
    """Soft descriptors in one step."""
    orthogonality: NonNegative
    """Weight of the descriptors' mean cosine."""


LossParams = CrossEntropyLoss | KgcoopLoss | ProgradLoss | ProdaLoss


class SnapshotParams(Section):
    """Accuracy during training (the paper's figure of diversity), from copies of the averaged weights.

    Every copy takes the space of the trained parameters, and evaluating it encodes all class prompts again, for methods
    that train the image tower also the images.
    """

    every: Iterations
    """Iterations between two copies (the paper: 50), in addition to the first and the last one."""
    images: Annotated[PositiveInt, Field(le=1_000_000)]
    """Test images per dataset, the same for all copies, seeds and methods."""


class MethodParams(Section):
    """One finetuned method: what is trained, with which loss, on which texts."""

    tune: Annotated[TuneParams, Field(discriminator="kind")]
    """What is trained."""
    loss: Annotated[LossParams, Field(discriminator="kind")]
    """With which loss."""
    soup: Name
    """With which texts: class_name, or a name under soups."""
    members: Some | None = None
    """Number of the soup's first members to use; null: all."""
    learning_rate: Positive
    """Learning rate of SGD."""
    prompt_factor: Positive
    """Factor of the learning rate for text prompts."""
    iterations: Iterations | None = None
    """Steps of SGD; null: finetune.iterations."""
    batch_size: Images | None = None
    """Distinct classes in a step; null: finetune.batch_size."""
    snapshots: SnapshotParams | None = None
    """Accuracy on some images of every dataset during training; null: only at the end."""

    @model_validator(mode="after")
    def _parts_fit(self) -> MethodParams:
        soft = self.tune if isinstance(self.tune, SoftDescriptorsTune) else None
        if soft and self.soup != "class_name":
            raise ValueError(f"tune soft_descriptors learns its own texts: soup must be class_name, not {self.soup!r}")
        if isinstance(self.loss, ProdaLoss) and (soft is None or self.loss.per_step > soft.members):
            raise ValueError("loss proda needs tune soft_descriptors with at least per_step members")
        taught = isinstance(self.loss, CrossEntropyLoss) and self.loss.weight
        if soft and (taught or not isinstance(self.loss, ProdaLoss | CrossEntropyLoss)):
            raise ValueError("tune soft_descriptors takes loss proda or cross_entropy without lambda")
        return self


class AugmentParams(Section):
    """RandomResizedCrop and a horizontal flip."""

    crop: tuple[Fraction, Fraction]
    """RandomResizedCrop: smallest and largest share of the area (the paper: [0.08, 1.0])."""
    flip: Flag = False
    """Flip each image with probability 1/2 (the paper: true)."""

    @model_validator(mode="after")
    def _ordered(self) -> AugmentParams:
        if not 0 < self.crop[0] <= self.crop[1]:
            raise ValueError(f"crop {list(self.crop)} must be [smallest, largest] share of the area, above 0")
        return self


class FinetuneParams(Section):
    """Settings shared by all finetuned methods, required where there are any, and the methods by name."""

    iterations: Iterations = 750
    """Steps of SGD (the paper: 750)."""
    batch_size: Images = 64
    """Distinct classes in a step, one image each; all classes if there are fewer."""
    batches: Literal["distinct", "wrapped"] = "distinct"
    """If a round over all classes does not fill its last batch: `distinct` drops that batch; `wrapped` fills it from
    the next round, as the authors' sampler does (samplers.py:126), so that a class may appear twice."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum of SGD."""
    weight_decay: NonNegative = 1e-5
    """Weight decay of SGD."""
    logit_scale: Positive = 60
    """Logit scale in training (the paper's temperature: 60)."""
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.995
    """average = ema x average + (1 - ema) x weights (the paper: 0.995); the average is evaluated."""
    augment: AugmentParams = AugmentParams(crop=(0.08, 1.0), flip=True)
    """Augmentation of training images."""
    log_every: Iterations = 50
    """Iterations between two rows of log.csv."""
    methods: dict[Name, MethodParams]
    """The methods by name."""

    @model_validator(mode="after")
    def _all_stated(self) -> FinetuneParams:
        if self.methods:
            check_stated(self, because_of="methods")
        return self
