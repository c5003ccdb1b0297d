"""One typed model per section of params.yaml.

Every key is checked before any work starts: an unknown key is refused with the nearest known one, a wrong type or
range with the value and where it stands. There are no hidden defaults: a key that changes results is in the file;
optional keys (``null`` or absent) mean "as the model or the layout says".
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wsoup.errors import MissingError, ParamsError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""A name that serves in stage and file names: letters, digits, dash and underscore."""
PositiveInt = Annotated[int, Field(ge=1, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Role = Literal["source", "xd", "dg"]


class Section(BaseModel):
    """Base of all sections: no unknown keys, no change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class EncoderParams(Section):
    """The open_clip model whose image and text towers are used."""

    model: str
    pretrained: str | None = None
    config: str | None = None
    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    interpolation: Literal["bicubic", "bilinear"] | None = None
    precision: Literal["fp32", "bf16", "fp16", "reference"]
    watch: str


class DatasetParams(Section):
    """One dataset: where it lies, how it is laid out, and what part it plays."""

    role: Role
    layout: str
    root: str
    watch: str
    template: str
    test_split: str = "test"
    classes: Literal["all", "base", "new"] = "all"
    class_names: str | None = None
    gpt_descriptors: str | None = None
    fewshot_pickles: str | None = None
    verify: bool = False
    download: bool = False

    @model_validator(mode="after")
    def _template_has_one_placeholder(self) -> DatasetParams:
        if self.template.count("{}") + self.template.count("{c}") != 1:
            raise ValueError(f"template {self.template!r} must hold exactly one placeholder, {{}} or {{c}}")
        return self


class FewshotParams(Section):
    """The few-shot training images that soups are selected on."""

    shots: PositiveInt


class EmbedParams(Section):
    """Image features."""

    batch_size: PositiveInt
    on_bad_image: Literal["stop", "skip"]


class WordPoolParams(Section):
    """Words: the most common ones of wordfreq (path null), or the first `count` lines of a text file."""

    path: str | None = None
    count: PositiveInt


class DescriptorPoolParams(Section):
    """Descriptors: one a line in a text file, or JSON files of {class: [descriptor, ...]}."""

    paths: Annotated[list[str], Field(min_length=1)]


class CandidatesParams(Section):
    """The two pools."""

    words: WordPoolParams
    descriptors: DescriptorPoolParams
    watch: str


class ScoreParams(Section):
    """How the pools are scored: candidates in one shard of the resume cache, final period left off or not."""

    shard_size: PositiveInt
    search_period: bool


class DescriptorSoupParams(Section):
    """Algorithm 1."""

    m: PositiveInt


class WordSoupParams(Section):
    """Algorithm 2, in the paper's symbols."""

    k0: PositiveInt
    k1: PositiveInt
    patience: PositiveInt
    m: PositiveInt
    max_words: PositiveInt
    search_period: bool

    @model_validator(mode="after")
    def _k0_within_k1(self) -> WordSoupParams:
        if self.k0 > self.k1:
            raise ValueError(f"k0 ({self.k0}) must not exceed k1 ({self.k1}): first words come from the top k0 of k1")
        return self


# ------------------------------------------------------------------------------------------------------ finetune


class PromptTune(Section):
    """CoOp: the first `tokens` tokens of the template."""

    kind: Literal["prompt"]
    tokens: PositiveInt


class LastBlocksTune(Section):
    """The last blocks of both towers, their final norms and projections, and a text prompt (0 tokens: none)."""

    kind: Literal["last_blocks"]
    blocks: PositiveInt
    prompt_tokens: Annotated[int, Field(ge=0, strict=True)]


class SoftDescriptorsTune(Section):
    """`members` soft descriptors of `tokens` random words each: a CoOp ensemble, ProDA."""

    kind: Literal["soft_descriptors"]
    members: PositiveInt
    tokens: PositiveInt


class VisualPromptTune(Section):
    """VPT: shallow (depth 1) or deep."""

    kind: Literal["visual_prompt"]
    tokens: PositiveInt
    depth: PositiveInt


class MapleTune(Section):
    """MaPLe: text prompts, deep where depth > 1, and a linear map from them to visual prompts."""

    kind: Literal["maple"]
    tokens: PositiveInt
    depth: PositiveInt


class BitfitTune(Section):
    """The biases of the last blocks."""

    kind: Literal["bitfit"]
    blocks: PositiveInt


class LoraTune(Section):
    """A low-rank update of query and value in the last blocks."""

    kind: Literal["lora"]
    blocks: PositiveInt
    rank: PositiveInt


class SsfTune(Section):
    """Scale and shift after both norms, attention and feed-forward of the last blocks."""

    kind: Literal["ssf"]
    blocks: PositiveInt


class AdapterTune(Section):
    """A residual bottleneck after the feed-forward part of the last blocks; width / reduction wide."""

    kind: Literal["adapter"]
    blocks: PositiveInt
    reduction: PositiveInt
    ratio: Fraction


class ImageAdapterTune(Section):
    """CLIP-Adapter: a bottleneck on the image features, mixed in at `ratio`."""

    kind: Literal["image_adapter"]
    reduction: PositiveInt
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
    margin: Annotated[float, Field(ge=0)] | None = None
    weight: Fraction | None = Field(default=None, alias="lambda")
    teacher_logit_scale: Annotated[float, Field(gt=0)] | None = None

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
    weight: Annotated[float, Field(ge=0)]


class ProgradLoss(Section):
    """Contrastive; its gradient loses `weight` of what conflicts with that of KL to the zero-shot prediction."""

    kind: Literal["prograd"]
    weight: Annotated[float, Field(ge=0)]


class ProdaLoss(Section):
    """ProDA's Gaussian upper bound over `per_step` soft descriptors, + orthogonality x their mean cosine."""

    kind: Literal["proda"]
    per_step: PositiveInt
    orthogonality: Annotated[float, Field(ge=0)]


LossParams = CrossEntropyLoss | ContrastiveLoss | KgcoopLoss | ProgradLoss | ProdaLoss


class MethodParams(Section):
    """One finetuned method: what is trained, with which loss, on which texts."""

    tune: Annotated[TuneParams, Field(discriminator="kind")]
    loss: Annotated[LossParams, Field(discriminator="kind")]
    soup: Literal["class_name", "descriptor", "word"]
    members: PositiveInt | None = None
    learning_rate: Annotated[float, Field(gt=0)]
    prompt_factor: Annotated[float, Field(gt=0)]
    iterations: PositiveInt | None = None
    batch_size: PositiveInt | None = None

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

    iterations: PositiveInt
    batch_size: PositiveInt
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: Annotated[float, Field(ge=0)]
    logit_scale: Annotated[float, Field(gt=0)]
    ema: Annotated[float, Field(ge=0, lt=1)]
    augment: AugmentParams | None
    log_every: PositiveInt
    methods: dict[Name, MethodParams]


# ------------------------------------------------------------------------------------------- evaluate and report


class SurveyParams(Section):
    """Unselected texts on every dataset, and the soup that the targets would select: a bound, never a result."""

    descriptors: PositiveInt
    chains: PositiveInt
    chain_length: PositiveInt
    m: PositiveInt


class EvaluateParams(Section):
    """Which rows are evaluated: sizes of soups and draws, and token offsets."""

    m: Annotated[list[PositiveInt], Field(min_length=1)]
    baseline_m: PositiveInt
    tuned_baseline_m: PositiveInt
    offsets: Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1)]
    ensemble: bool
    survey: SurveyParams

    @model_validator(mode="after")
    def _each_once(self) -> EvaluateParams:
        for key, values in (("m", self.m), ("offsets", self.offsets)):
            if values != sorted(set(values)):
                raise ValueError(f"{key} {values} must rise: each value once, in order")
        return self


class LandscapeParams(Section):
    """The plane of two initialisations and a tuned prompt: grid steps between neighbouring corners, and beyond them."""

    steps: PositiveInt
    margin: Annotated[int, Field(ge=0, strict=True)]
    methods: list[Name]


class ReportParams(Section):
    """How results are shown."""

    bootstrap_samples: PositiveInt
    confidence: Annotated[float, Field(gt=0, lt=1)]
    gallery: Annotated[int, Field(ge=0, strict=True)]


# ----------------------------------------------------------------------------------------------------- all of it


class Params(Section):
    """All of params.yaml."""

    source: Name
    seeds: Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1)]
    encoder: EncoderParams
    datasets: Annotated[dict[Name, DatasetParams], Field(min_length=1)]
    fewshot: FewshotParams
    embed: EmbedParams
    candidates: CandidatesParams
    score: ScoreParams
    descriptor_soup: DescriptorSoupParams
    word_soup: WordSoupParams
    finetune: FinetuneParams
    evaluate: EvaluateParams
    landscape: LandscapeParams
    report: ReportParams

    @model_validator(mode="after")
    def _parts_agree(self) -> Params:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} holds a seed twice")
        if self.source not in self.datasets:
            raise ValueError(f"source {self.source!r} is not among the datasets: {', '.join(self.datasets)}")
        sources = [name for name, dataset in self.datasets.items() if dataset.role == "source"]
        if sources != [self.source]:
            raise ValueError(
                f"exactly one dataset has role: source, and it is {self.source!r} (the key `source`); "
                f"found role: source on {sources or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _landscapes_are_of_trained_prompts(self) -> Params:
        known = self.finetune.methods
        for name in self.landscape.methods:
            if name not in known:
                raise ValueError(f"landscape.methods: {name!r} is not among finetune.methods: {', '.join(known)}")
            if not isinstance(known[name].tune, PromptTune):
                raise ValueError(
                    f"landscape.methods: {name!r} has tune.kind {known[name].tune.kind}; the plane is of a trained "
                    "prompt: list methods with tune.kind prompt"
                )
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and check params.yaml.

    Raises:
        MissingError: no such file.
        ParamsError: not YAML, an unknown key (the nearest known one is named), a wrong type or a value out of range;
            all problems in one line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; write one with `wsoup profile demo > params.yaml`") from None
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ParamsError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, Mapping):
        raise ParamsError(f"{path} must hold sections (key: value), found {type(raw).__name__}")
    return parse_params(raw, origin=str(path))


def parse_params(raw: Mapping[str, Any], *, origin: str) -> Params:
    """Check an already loaded mapping; `origin` names it in errors."""
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(_explain(problem, raw=raw) for problem in error.errors())
        raise ParamsError(f"{origin}: {problems}") from None


def _explain(problem: Any, *, raw: Any) -> str:
    """One pydantic error in one clause: where, what was found, what was expected."""
    location = [part for part in problem["loc"] if part != "[key]"]
    where = ".".join(str(part) for part in location) or "params"
    if problem["type"] == "extra_forbidden":
        known = _keys_at(location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys here: {', '.join(known)}"
        return f"unknown key {where!r}; {hint}"
    if problem["type"] == "missing":
        return f"key {where!r} is missing"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    return f"{where}: {problem['input']!r} is not valid: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _keys_at(location: list[Any]) -> list[str]:
    """The known keys of the section at `location`, as written in YAML."""
    model: Any = Params
    for part in location:
        fields = getattr(model, "model_fields", None)
        if fields is None:
            return []
        by_key = {field.alias or name: field.annotation for name, field in fields.items()}
        annotation = by_key.get(part)
        if annotation is None:
            continue  # a name in a dict of sections, for example a dataset
        arguments = [a for a in getattr(annotation, "__args__", ()) if hasattr(a, "model_fields")]
        model = arguments[-1] if arguments else annotation
    return [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]
