"""Section `finetune`: methods, each what is trained x which loss x which texts, and what they share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from wsoup.core.arguments import Flag
from wsoup.core.params.section import Fraction, Name, NonNegativeInt, PositiveInt, Section

Some = Annotated[PositiveInt, Field(le=10_000)]
"""Tokens, blocks, members; the model itself sets bounds far below this."""
Iterations = Annotated[PositiveInt, Field(le=100_000_000)]
Images = Annotated[PositiveInt, Field(le=65_536)]
Positive = Annotated[float, Field(gt=0, le=1e15)]
NonNegative = Annotated[float, Field(ge=0, le=1e15)]
"""Numbers whose products still fit into float32."""


class AnyTune(Section):
    """What every `tune` says of itself."""

    tunes_images: ClassVar[bool] = True
    """Whether image features change, so that test images are read again."""

    @property
    def inside_images(self) -> bool:
        """Whether something inside the image tower is trained, which must then be a ViT."""
        return self.tunes_images


class TextTune(AnyTune):
    """What leaves image features as they are."""

    tunes_images = False


class PromptTune(TextTune):
    """CoOp: the first `tokens` tokens of the template."""

    kind: Literal["prompt"]
    tokens: Some
    """How many tokens of the template are learnt."""


class LastBlocksTune(AnyTune):
    """The last blocks of both towers, their final norms and projections, and a text prompt (0 tokens: none)."""

    kind: Literal["last_blocks"]
    blocks: Some
    """How many of the last blocks."""
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]
    """Learnt tokens of the template; 0: none."""


class SoftDescriptorsTune(TextTune):
    """`members` soft descriptors of `tokens` tokens each, and a text prompt (0 tokens: none).

    ProDA trains all of them together, and a prompt. With cross entropy they are a CoOp ensemble: each is trained by
    itself for its share of the iterations, from the beginning, and nothing but the descriptor is kept.
    """

    kind: Literal["soft_descriptors"]
    members: Some
    """How many soft descriptors."""
    tokens: Some
    """Tokens of each."""
    start: Literal["random", "words", "soup"] = "random"
    """`random` tokens; random common `words` and a period, which is learnt and stands for the prompt's own (as the
    authors'); or the tokens of the first members of the method's `soup`, cut or begun again to fit."""
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]
    """Learnt tokens of the template; 0: none."""
    blocks: Annotated[NonNegativeInt, Field(le=10_000)] = 0
    """Last blocks of both towers, with final norms and projections, that learn beside each descriptor and are put back
    after it; 0: none. The authors' script of the CoOp ensemble leaves 3 open (argparse_parameters.py:37)."""

    @property
    def inside_images(self) -> bool:
        return bool(self.blocks)


class VisualPromptTune(AnyTune):
    """VPT: shallow (depth 1) or deep."""

    kind: Literal["visual_prompt"]
    tokens: Some
    """Learnt tokens beside the image's patches."""
    depth: Some
    """Blocks whose prompts are learnt: 1 is shallow."""


class MapleTune(AnyTune):
    """MaPLe: text prompts, deep where depth > 1, and a linear map from them to visual prompts."""

    kind: Literal["maple"]
    tokens: Some
    """Learnt tokens of the template, and as many beside the patches."""
    depth: Some
    """Blocks whose prompts are learnt: 1 is shallow."""


class BlocksTune(AnyTune):
    """What changes the last blocks and adds nothing before or behind them."""

    opens: Literal["both", "image_twice"] = "both"
    """`both` towers, as the method's paper says; or, as in the authors' code (trainer.py:201), the image tower alone,
    each parameter standing twice in the optimizer and so taking two steps at a time. There, what `ssf` and `adapter`
    put into the text tower stays as it was drawn."""
    blocks: Some
    """How many of the last blocks."""


class BitfitTune(BlocksTune):
    """The biases of the last blocks."""

    kind: Literal["bitfit"]


class LoraTune(BlocksTune):
    """A low-rank update of query and value in the last blocks."""

    kind: Literal["lora"]
    rank: Some
    """Rank of the update."""
    piles_up: Flag = False
    """In training, every pass adds the update to the weights for good, as the authors' code does (models.py:185);
    false: weights and update are added anew each time. The finished update is added once, either way."""


class SsfTune(BlocksTune):
    """Scale and shift after both norms, attention and feed-forward of the last blocks."""

    kind: Literal["ssf"]


class AdapterTune(BlocksTune):
    """A residual bottleneck after the feed-forward part of the last blocks; width / reduction wide."""

    kind: Literal["adapter"]
    reduction: Some
    """The bottleneck is width / reduction wide."""
    ratio: Fraction
    """What the bottleneck's output is multiplied with before it is added."""
    mix: Literal["add", "blend"] = "add"
    """`add` ratio x bottleneck, which starts at zero and so at the pretrained prediction; or `blend` it, drawn at
    random, with (1 - ratio) x the input (the authors' code, models.py:121)."""


class ImageAdapterTune(AnyTune):
    """CLIP-Adapter: a bottleneck on the image features, mixed in at `ratio`."""

    kind: Literal["image_adapter"]
    reduction: Some
    """The bottleneck is width / reduction wide."""
    ratio: Fraction
    """Share of the bottleneck in the feature."""

    @property
    def inside_images(self) -> bool:
        return False


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


class ContrastiveLoss(Section):
    """CLIP's loss over the batch; `balance` is the share of images-to-texts (1: only that, as the authors')."""

    kind: Literal["contrastive"]
    balance: Fraction
    """Share of images-to-texts; 1: only that."""


class KgcoopLoss(Section):
    """Cross entropy + weight x (1 - mean cosine of each class text with its initial one)."""

    kind: Literal["kgcoop"]
    weight: NonNegative
    """Of the distance from the initial class texts."""
    pairs: Literal["own", "all"] = "own"
    """Whose cosines: each class's `own` text before and after, as the method's paper says, or those of `all` pairs of
    classes (the authors' code, trainer.py:449)."""


class ProgradLoss(Section):
    """Contrastive; its gradient loses `weight` of what conflicts with that of KL to the zero-shot prediction."""

    kind: Literal["prograd"]
    weight: NonNegative
    """Share of the conflicting gradient that is taken away."""


class ProdaLoss(Section):
    """ProDA's Gaussian upper bound over `per_step` soft descriptors, + orthogonality x their mean cosine."""

    kind: Literal["proda"]
    per_step: Some
    """Soft descriptors in one step."""
    orthogonality: NonNegative
    """Weight of their mean cosine."""


LossParams = CrossEntropyLoss | ContrastiveLoss | KgcoopLoss | ProgradLoss | ProdaLoss


class SnapshotParams(Section):
    """Accuracy during training (the paper's figure of diversity): how often the averaged weights are copied and scored.

    Every copy is as large as what is trained, and encodes all class prompts again with the method's texts; methods that
    train the image tower also read the images again. `wsoup plan` counts both.
    """

    every: Iterations
    """Iterations between two copies (the paper: 50); the first and the last iteration have one, too."""
    images: Annotated[PositiveInt, Field(le=1_000_000)]
    """Of each dataset's test images, drawn once: the same for all copies, seeds and methods."""


class MethodParams(Section):
    """One finetuned method: what is trained, with which loss, on which texts."""

    tune: Annotated[TuneParams, Field(discriminator="kind")]
    """What is trained."""
    loss: Annotated[LossParams, Field(discriminator="kind")]
    """With which loss."""
    soup: Name
    """On which texts: class_name, or a name under soups."""
    members: Some | None = None
    """Only the soup's first members; null: all."""
    learning_rate: Positive
    """Step size of SGD."""
    prompt_factor: Positive
    """Text prompts learn this many times faster."""
    iterations: Iterations | None = None
    """Steps of SGD; null: as finetune.iterations."""
    batch_size: Images | None = None
    """Distinct classes in a step; null: as finetune.batch_size."""
    snapshots: SnapshotParams | None = None
    """Accuracy on some images of every dataset during training; null: only that of the end."""

    @model_validator(mode="after")
    def _parts_fit(self) -> MethodParams:
        soft = self.tune if isinstance(self.tune, SoftDescriptorsTune) else None
        from_soup = soft is not None and soft.start == "soup"
        if soft and not from_soup and self.soup != "class_name":
            raise ValueError(
                f"tune soft_descriptors learns its own texts: soup must be class_name, not {self.soup!r}; "
                "start: soup begins with a soup's"
            )
        if from_soup and self.soup == "class_name":
            raise ValueError("tune soft_descriptors with start: soup needs a soup to begin with, not class_name")
        if isinstance(self.loss, ProdaLoss) and (soft is None or self.loss.per_step > soft.members):
            raise ValueError("loss proda needs tune soft_descriptors with at least per_step members")
        taught = bool(getattr(self.loss, "weight", None))
        if soft and not (isinstance(self.loss, ProdaLoss | CrossEntropyLoss) and (from_soup or not taught)):
            raise ValueError(
                "tune soft_descriptors takes loss proda or cross_entropy without lambda (with start: soup also with it)"
            )
        return self


class AugmentParams(Section):
    """RandomResizedCrop, which keeps this share of the area at least and at most, and a horizontal flip."""

    crop: tuple[Fraction, Fraction]
    """RandomResizedCrop: smallest and largest share of the area (the paper: [0.08, 1.0])."""
    flip: Flag
    """Mirror half of the images, at random (the paper: true)."""

    @model_validator(mode="after")
    def _ordered(self) -> AugmentParams:
        if not 0 < self.crop[0] <= self.crop[1]:
            raise ValueError(f"crop {list(self.crop)} must be [smallest, largest] share of the area, above 0")
        return self


class FinetuneParams(Section):
    """What all finetuned methods share, and the methods by name. `augment` null: the plain preprocessing."""

    iterations: Iterations
    """Steps of SGD (the paper: 750)."""
    batch_size: Images
    """Distinct classes with one image each in a step; all classes where there are fewer."""
    batches: Literal["distinct", "wrapped"] = "distinct"
    """Where a round of all classes ends within a batch: `distinct` leaves the rest of the round out; `wrapped` goes on
    in the same batch, as the authors' sampler does (samplers.py:126), so that a class may come twice."""
    momentum: Annotated[float, Field(ge=0, lt=1)]
    """Momentum of SGD."""
    weight_decay: NonNegative
    """Weight decay of SGD."""
    logit_scale: Positive
    """On cosines in training (the paper's temperature: 60)."""
    ema: Annotated[float, Field(ge=0, lt=1)]
    """The averaged weights are evaluated: average = ema x average + (1 - ema) x weights (the paper: 0.995)."""
    augment: AugmentParams | None
    """How training images are varied; null: the plain preprocessing."""
    log_every: Iterations
    """Iterations between two lines of log.csv."""
    methods: dict[Name, MethodParams]
    """What is trained x which loss x which texts, by name."""
