"""Section `finetune`: methods (what is trained x which loss x which texts) and their shared settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from wsoup.base.arguments import Flag
from wsoup.finetune.loss_params import CrossEntropyLoss, LossParams, ProdaLoss
from wsoup.finetune.optimizer_params import Momentum, OptimizerParams, ScheduleParams, SgdOptimizer
from wsoup.finetune.tune_params import SoftDescriptorsTune, TuneParams
from wsoup.params.section import (
    Count,
    Fraction,
    Images,
    Iterations,
    Name,
    NonNegative,
    Positive,
    PositiveInt,
    Section,
    check_stated,
)


class SnapshotParams(Section):
    """Accuracy during training (the paper's figure of diversity), from copies of the averaged weights.

    Every copy takes the space of the trained parameters, and evaluating it encodes all class prompts again, for methods
    that train the image tower also the images.
    """

    every: Iterations
    """Iterations between two copies (the paper: 50), in addition to the first and the last one."""
    images: Annotated[PositiveInt, Field(le=1_000_000)]
    """Test images per dataset, the same for all copies, seeds and methods."""


class GaussianAverage(Section):
    """PromptSRC's average: training is divided into equal parts, and the weights after each are averaged."""

    parts: Count
    """Equal parts of training (PromptSRC: its epochs, 20)."""
    mean: NonNegative
    """The part whose weights count most (PromptSRC across datasets: 6)."""
    deviation: Positive
    """Standard deviation in parts; the larger, the more alike the weights count (PromptSRC across datasets: 10)."""


class SelectParams(Section):
    """What is chosen for a method on half of the few-shot images, after training on the other half."""

    learning_rate: Annotated[list[Positive], Field(min_length=2, max_length=50)]
    """The rates to try; the one that gets most held-out images right, with all seeds together, is trained with."""

    @model_validator(mode="after")
    def _differ(self) -> SelectParams:
        (rate, count), *_ = Counter(self.learning_rate).most_common(1)
        if count > 1:
            raise ValueError(
                f"select.learning_rate has {rate:g} {count} times, which is trained each time; list it once"
            )
        return self


class MethodParams(Section):
    """One finetuned method: what is trained, with which loss, on which texts."""

    written = frozenset({"members", "iterations", "batch_size", "average", "snapshots"})
    tune: Annotated[TuneParams, Field(discriminator="kind")]
    """What is trained."""
    loss: Annotated[LossParams, Field(discriminator="kind")]
    """With which loss."""
    soup: Name
    """With which texts: class_name, or a name under soups."""
    members: Count | None = None
    """Number of the soup's first members to use; null: all."""
    learning_rate: Positive
    """Learning rate."""
    prompt_factor: Positive
    """Factor of the learning rate for text prompts."""
    iterations: Iterations | None = None
    """Steps of SGD; null: finetune.iterations."""
    batch_size: Images | None = None
    """Distinct classes in a step; null: finetune.batch_size."""
    average: GaussianAverage | None = None
    """A Gaussian average of the weights, which is evaluated; null: the exponential one of `ema`."""
    ema: Momentum | None = None
    """As finetune.ema, for this method; 0: the last weights are evaluated. null: finetune.ema."""
    logit_scale: Positive | None = None
    """Logit scale in training; null: finetune.logit_scale."""
    optimizer: Annotated[OptimizerParams, Field(discriminator="kind")] | None = None
    """null: SGD with finetune.momentum and finetune.weight_decay."""
    schedule: ScheduleParams | None = None
    """How the learning rate changes; null: not at all."""
    select: SelectParams | None = None
    """Choose the learning rate on held-out images of the source, whatever `learning_rate` is; null: `learning_rate`."""
    snapshots: SnapshotParams | None = None
    """Accuracy on some images of every dataset during training; null: only at the end."""

    @model_validator(mode="after")
    def _optimized_as_named(self) -> MethodParams:
        rates = [self.learning_rate] if self.select is None else self.select.learning_rate
        if self.schedule is not None and self.schedule.least > min(rates):
            raise ValueError(
                f"schedule.least {self.schedule.least:g} is above learning_rate {min(rates):g}, from which the cosine "
                "falls; lower it"
            )
        takes_two_steps = getattr(self.tune, "opens", "both") == "image_twice"
        if takes_two_steps and self.optimizer is not None and not isinstance(self.optimizer, SgdOptimizer):
            raise ValueError("tune.opens: image_twice takes two steps of SGD; give optimizer kind sgd or leave it out")
        if self.average is not None and self.ema is not None:
            raise ValueError("average and ema are two averages of the weights; leave one of them out")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> MethodParams:
        soft = self.tune if isinstance(self.tune, SoftDescriptorsTune) else None
        from_soup = soft is not None and soft.start == "soup"
        if from_soup and self.soup == "class_name":
            raise ValueError("tune soft_descriptors with start: soup needs a soup to start from, not class_name")
        if soft and not from_soup and self.soup != "class_name":
            raise ValueError(
                f"tune soft_descriptors learns its own texts: soup must be class_name, not {self.soup!r}, "
                "except with start: soup"
            )
        if isinstance(self.loss, ProdaLoss) and (soft is None or self.loss.per_step > soft.members):
            raise ValueError("loss proda needs tune soft_descriptors with at least per_step members")
        # The teacher of the diversity loss predicts with the text that a descriptor started from.
        if soft and _is_taught(self) and not from_soup:
            raise ValueError("tune soft_descriptors takes cross_entropy with lambda only with start: soup")
        if soft and self.average is not None and isinstance(self.loss, CrossEntropyLoss):
            raise ValueError(
                "average: soft_descriptors with cross_entropy are trained one after the other, so parts of the whole "
                "training have no common average; leave the key out"
            )
        if soft and not isinstance(self.loss, ProdaLoss | CrossEntropyLoss):
            raise ValueError("tune soft_descriptors takes loss proda or cross_entropy")
        return self

    @model_validator(mode="after")
    def _stages_fit(self) -> MethodParams:
        if not self.tune.trains_classes:
            return self
        if not isinstance(self.loss, CrossEntropyLoss):
            raise ValueError(f"tune.first_stage: the second stage takes loss cross_entropy, not {self.loss.kind}")
        if self.average is not None:
            raise ValueError("average: the two stages of tune.first_stage have no common average; leave the key out")
        return self


def without_soup(methods: Mapping[str, MethodParams], name: str) -> str | None:
    """The method that is trained as another, but on the class name alone and without a teacher; None if none is.

    Args:
        methods: all of a run, by name.
        name: the other.
    """
    shared = _without_texts_and_teacher(methods[name])
    for other, method in methods.items():
        is_plain = method.soup == "class_name" and not _is_taught(method)
        if other != name and is_plain and _without_texts_and_teacher(method) == shared:
            return other
    return None


def _is_taught(method: MethodParams) -> bool:
    """Whether the pretrained model's prediction is part of the target."""
    return isinstance(method.loss, CrossEntropyLoss) and bool(method.loss.weight)


def _without_texts_and_teacher(method: MethodParams) -> dict[str, Any]:
    settings = method.model_dump(exclude={"soup", "members", "snapshots"})
    settings["loss"] |= {"weight": None, "teacher_logit_scale": None}
    return settings


class AugmentParams(Section):
    """RandomResizedCrop and a horizontal flip."""

    written = frozenset({"flip"})
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
    """Settings that finetuned methods share, required where there are any unless optional, and the methods by name."""

    # Those that dvc.yaml lists, and so asks for. One that is added needs a default, and no name here or there.
    written = frozenset(
        {
            "iterations",
            "batch_size",
            "batches",
            "momentum",
            "weight_decay",
            "logit_scale",
            "ema",
            "augment",
            "log_every",
        }
    )
    iterations: Iterations = 750
    """Steps of SGD (the paper: 750)."""
    batch_size: Images = 64
    """Distinct classes in a step, one image each; all classes if there are fewer."""
    batches: Literal["distinct", "wrapped"] = "distinct"
    """If a round over all classes does not fill its last batch: `distinct` drops that batch; `wrapped` fills it from
    the next round, as the authors' sampler does (samplers.py:126), so that a class may appear twice."""
    momentum: Momentum = 0.9
    """Momentum of SGD."""
    weight_decay: NonNegative = 1e-5
    """Weight decay of SGD."""
    logit_scale: Positive = 60
    """Logit scale in training (the paper's temperature: 60)."""
    ema: Momentum = 0.995
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
            check_stated(self, name="finetune", because_of="methods")
        return self
