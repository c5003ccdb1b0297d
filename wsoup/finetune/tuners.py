"""What is trained. Each method adds its parameters to a student and opens them for training.

To add a method: a section in `wsoup.params`, a case in `attach`. All of them work on any ViT CLIP of open_clip,
those of OUTSIDE_IMAGES with any image tower.

Start exactly at the pretrained prediction: prompt, last_blocks, bitfit, lora, adapter (its output starts at zero).
Do not, as in their papers: visual_prompt and maple (random visual prompts), ssf (scales drawn around one),
image_adapter (a random bottleneck mixed in), soft_descriptors (random words).

Differs from the authors' code (Chris210634/word_soups), which opens the visual blocks twice and the text blocks never
in bitfit, lora, ssf and adapter, edits the frozen weight in place in lora, and mixes the adapter in as
0.2 adapter(x) + 0.8 x, so that an untrained one already shifts the features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from wsoup.core.errors import ModelError, ParamsError
from wsoup.finetune.params import (
    AdapterTune,
    BitfitTune,
    ImageAdapterTune,
    LastBlocksTune,
    LoraTune,
    MapleTune,
    PromptTune,
    SoftDescriptorsTune,
    SsfTune,
    TuneParams,
    VisualPromptTune,
)
from wsoup.finetune.student import Student
from wsoup.params.base.datasets import DatasetParams

Tokenizer = Callable[[Sequence[str]], Tensor]
PROMPT_STD = 0.02
"""Standard deviation of random prompts (MaPLe and the authors' code)."""
LORA_SCALE = 0.2
"""What a low-rank update is multiplied with (the authors' code)."""
OUTSIDE_IMAGES = ("prompt", "soft_descriptors", "image_adapter")
"""Kinds that change nothing inside the image tower, which may then be any: a ResNet, a ConvNeXt, one of timm."""
TEXT_PROMPTS = ("soft_prompt", "deep_prompts", "soft_descriptors")
"""Parameters that train at `prompt_factor` times the learning rate."""


def make_student(
    model: nn.Module,
    *,
    tokenizer: Tokenizer,
    tune: TuneParams,
    template: str,
    generator: torch.Generator,
    soup: Sequence[str] = (),
) -> Student:
    """A student of `model`, ready for training.

    Args:
        model: open_clip model, frozen.
        tokenizer: its tokenizer.
        tune: what is trained.
        template: of the source dataset; a soft prompt starts as the embeddings of its first tokens.
        generator: for random starting values, on the CPU.
        soup: texts that soft descriptors start from; without them they start as random words, whatever `tune` says.

    Raises:
        ModelError: the model is not a ViT CLIP of open_clip (for OUTSIDE_IMAGES: its text tower is another), or has
            fewer blocks than are to be trained.
        ParamsError: the template has fewer tokens before its placeholder than the prompt.
    """
    blocks = getattr(tune, "blocks", 0)
    inside_images = tune.kind not in OUTSIDE_IMAGES
    student = Student(model, blocks=blocks, tokenizer=tokenizer, inside_images=inside_images)
    most = min(len(student.image_blocks), len(student.text_blocks))
    if inside_images and max(blocks, getattr(tune, "depth", 0)) > most:
        raise ModelError(f"finetune: {tune.kind} asks for more blocks than the {most} of the smaller tower; lower it")

    def prompt(n: int) -> nn.Parameter:
        return nn.Parameter(_first_embeddings(student, n, tokenizer=tokenizer, template=template))

    with torch.random.fork_rng(devices=[]):  # so that torch's own initialisers draw from the named generator
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        attach(student, tune, prompt=prompt)
    if soup and getattr(tune, "start", None) == "soup":
        start_from(student, soup, tokenizer=tokenizer)
    student.trained_names = tuple(name for name, p in student.named_parameters() if p.requires_grad)
    return student.to(next(model.parameters()).device).eval()


def start_from(student: Student, soup: Sequence[str], *, tokenizer: Tokenizer) -> None:
    """Lay the token embeddings of a soup's first members over the student's soft descriptors.

    Raises:
        ParamsError: the soup has fewer members than there are soft descriptors, or one of them is empty.
    """
    soft, weight = student.soft_descriptors, student.text_tower.token_embedding.weight
    if len(soup) < len(soft):
        raise ParamsError(f"tune.members is {len(soft)}, the soup to start from has {len(soup)}; lower it")
    for parameter, tokens in zip(soft, tokenizer(list(soup[: len(soft)])), strict=True):
        own = tokens[1 : int(tokens.argmax())]
        if not len(own):
            raise ParamsError("a member of the soup to start from is empty: soft descriptors need tokens")
        chosen = own[torch.arange(len(parameter)) % len(own)]
        with torch.no_grad():
            parameter.copy_(weight[chosen.to(weight.device)])


def check_templates(
    tune: TuneParams, datasets: Mapping[str, DatasetParams], *, source: str, tokenizer: Tokenizer
) -> None:
    """Raise ParamsError where a dataset's template begins with other tokens than those that a text prompt replaces."""
    n = tune.tokens if isinstance(tune, PromptTune | MapleTune) else getattr(tune, "prompt_tokens", 0)
    beginnings = {name: tokenizer([d.template.split("{", 1)[0].strip()])[0, : n + 1] for name, d in datasets.items()}
    for name, tokens in beginnings.items():
        if not torch.equal(tokens, beginnings[source]):
            raise ParamsError(
                f"datasets.{name}.template {datasets[name].template!r} must begin with the same {n} tokens as that of "
                f"{source}, {datasets[source].template!r}: a trained prompt takes their place"
            )


def attach(student: Student, tune: TuneParams, *, prompt: Callable[[int], nn.Parameter]) -> None:
    """Add what `tune` trains to the student; `prompt(n)` gives the embeddings of the template's first n tokens."""
    width = student.text_tower.token_embedding.weight.shape[1]
    image_width = len(student.visual.class_embedding) if len(student.image_blocks) else 0
    student.tunes_images = tune.kind not in ("prompt", "soft_descriptors")
    match tune:
        case PromptTune():  # CoOp, arXiv 2109.01134
            student.soft_prompt = prompt(tune.tokens)
        case LastBlocksTune():
            towers = (
                student.visual.ln_post,
                student.visual.proj,
                student.text_tower.ln_final,
                student.text_tower.text_projection,
            )
            _open(*_last(student, tune.blocks), *towers)
            if tune.prompt_tokens:
                student.soft_prompt = prompt(tune.prompt_tokens)
        case SoftDescriptorsTune():  # a CoOp ensemble; ProDA, arXiv 2205.03340
            student.soft_descriptors.extend(_random_words(student, n=tune.tokens) for _ in range(tune.members))
            if tune.prompt_tokens:
                student.soft_prompt = prompt(tune.prompt_tokens)
        case VisualPromptTune():  # VPT, arXiv 2203.12119
            student.visual_prompts = nn.Parameter(PROMPT_STD * torch.randn(tune.depth, tune.tokens, image_width))
        case MapleTune():  # arXiv 2210.03117
            student.soft_prompt = prompt(tune.tokens)
            if tune.depth > 1:
                student.deep_prompts = nn.Parameter(PROMPT_STD * torch.randn(tune.depth - 1, tune.tokens, width))
            student.projector = nn.Linear(width, image_width)
        case BitfitTune():  # arXiv 2106.10199
            _open(
                *(p for b in _last(student, tune.blocks) for name, p in b.named_parameters() if name.endswith("bias"))
            )
        case LoraTune():  # arXiv 2106.09685
            for block in _last(student, tune.blocks):
                update = LowRank(block.attn.embed_dim, rank=tune.rank).to(block.attn.in_proj_weight.device)
                parametrize.register_parametrization(block.attn, "in_proj_weight", update)
        case SsfTune():  # arXiv 2210.08823
            for block in _last(student, tune.blocks):
                for module in (block.ln_1, block.attn.out_proj, block.ln_2, block.mlp.c_proj):
                    drawn = 1 + 0.02 * torch.randn_like(module.bias, device="cpu")  # the same on every device
                    scale = nn.Parameter(drawn.to(module.bias.device))
                    parametrize.register_parametrization(module, "weight", Scaled(scale))
                    parametrize.register_parametrization(module, "bias", ScaledShifted(scale))
        case AdapterTune():  # Houlsby et al., arXiv 1902.00751
            for block in _last(student, tune.blocks):
                block.mlp.add_module("adapter", Bottleneck(block.attn.embed_dim, tune.reduction, ratio=tune.ratio))
        case ImageAdapterTune():  # CLIP-Adapter, arXiv 2110.04544
            student.image_adapter = ImageAdapter(_feature_size(student), tune.reduction, ratio=tune.ratio)


def _feature_size(student: Student) -> int:
    """D, told from the text tower, which every model has alike."""
    projection = student.text_tower.text_projection
    if projection is None:
        return int(student.text_tower.ln_final.normalized_shape[0])
    return int(projection.out_features if isinstance(projection, nn.Linear) else projection.shape[1])


def _last(student: Student, blocks: int) -> list[Any]:
    """The last blocks of both towers."""
    return [*student.image_blocks[-blocks:], *student.text_blocks[-blocks:]]


def _open(*parts: nn.Module | Tensor | None) -> None:
    for part in parts:
        if part is not None:
            part.requires_grad_(True)


def _first_embeddings(student: Student, n: int, *, tokenizer: Tokenizer, template: str) -> Tensor:
    """Token embeddings (n, width) of the first n tokens of the template, which its class names may not reach into."""
    before = template.split("{", 1)[0].strip()
    tokens = tokenizer([before])[0]
    if int(tokens.argmax()) - 1 < n:
        raise ParamsError(
            f"template {template!r} has {int(tokens.argmax()) - 1} tokens before the class name, the prompt to train "
            f"has {n}; train fewer tokens or choose another template"
        )
    weight = student.text_tower.token_embedding.weight
    return weight[tokens[1 : 1 + n].to(weight.device)].detach().clone()


def _random_words(student: Student, *, n: int) -> nn.Parameter:
    """Embeddings (n, width) of random tokens; the last two of the vocabulary, start and end of text, are left out."""
    weight = student.text_tower.token_embedding.weight
    return nn.Parameter(weight[torch.randint(len(weight) - 2, (n,)).to(weight.device)].detach().clone())


# ----------------------------------------------------------------------------------------------- what is added


class LowRank(nn.Module):
    """W -> W + scale * (B A) on the query and value rows of a packed (3 width, width) projection; B starts at zero."""

    def __init__(self, width: int, *, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(PROMPT_STD * torch.randn(2, rank, width))
        self.up = nn.Parameter(torch.zeros(2, width, rank))

    def forward(self, weight: Tensor) -> Tensor:
        query, value = LORA_SCALE * (self.up @ self.down)  # (width, width) each
        return weight + torch.cat([query, torch.zeros_like(query), value])


class Scaled(nn.Module):
    """The weight of a layer whose output is scaled: rows of a matrix, or the gain of a norm."""

    def __init__(self, scale: nn.Parameter) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        return weight * (self.scale[:, None] if weight.ndim == 2 else self.scale)


class ScaledShifted(nn.Module):
    """The bias of a layer whose output is scaled and shifted."""

    def __init__(self, scale: nn.Parameter) -> None:
        super().__init__()
        drawn = 0.02 * torch.randn_like(scale, device="cpu")
        self.scale, self.shift = scale, nn.Parameter(drawn.to(scale.device))

    def forward(self, bias: Tensor) -> Tensor:
        return bias * self.scale + self.shift


class Bottleneck(nn.Module):
    """x + ratio * up(relu(down(x))), without biases; `up` starts at zero."""

    def __init__(self, width: int, reduction: int, *, ratio: float) -> None:
        super().__init__()
        self.down = nn.Linear(width, max(1, width // reduction), bias=False)
        self.up = nn.Linear(max(1, width // reduction), width, bias=False)
        self.ratio = ratio
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ratio * self.up(F.relu(self.down(x)))


class ImageAdapter(nn.Module):
    """(1 - ratio) x + ratio * relu(up(relu(down(x)))) on image features, without biases."""

    def __init__(self, size: int, reduction: int, *, ratio: float) -> None:
        super().__init__()
        self.down = nn.Linear(size, max(1, size // reduction), bias=False)
        self.up = nn.Linear(max(1, size // reduction), size, bias=False)
        self.ratio = ratio

    def forward(self, x: Tensor) -> Tensor:
        return (1 - self.ratio) * x + self.ratio * F.relu(self.up(F.relu(self.down(x))))
