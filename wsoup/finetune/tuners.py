"""What is trained: every kind of `tune` adds parameters to a student and opens them for training.

A new kind is a section in `params.py` and a case in `attach`. All kinds work on any ViT CLIP of open_clip; those that
train nothing inside the image tower (`inside_images` of their section) also work on other image towers.

These start exactly at the pretrained prediction: prompt, last_blocks, bitfit, lora. These do not: visual_prompt and
maple (random visual prompts), ssf (random scales around 1), adapter (as in the authors' code) and image_adapter (a
random bottleneck mixed in), soft_descriptors (random words).

The authors' code (Chris210634/word_soups) deviates from the papers in ways that keys of `tune` reproduce: `opens:
image_twice` (bitfit, lora, ssf, adapter), `piles_up` (lora), `start: words` and `blocks` (soft_descriptors).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from wsoup.base.errors import ModelError, ParamsError
from wsoup.finetune.blocks import Block
from wsoup.finetune.params import (
    AdapterTune,
    BitfitTune,
    BlocksTune,
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

Tokenizer = Callable[[Sequence[str]], Tensor]
PROMPT_STD = 0.02
"""Standard deviation of random prompts and updates (MaPLe and the authors' code)."""
LORA_SCALE = 0.2
"""Factor of a low-rank update (the authors' code)."""
COMMON_WORDS = 9_000
"""Words that `start: words` draws from; token ids are in order of frequency."""
TEXT_PROMPTS = ("soft_prompt", "deep_prompts", "soft_descriptors")
"""Parameters whose learning rate is multiplied by `prompt_factor`."""


def make_student(
    model: nn.Module,
    *,
    tokenizer: Tokenizer,
    tune: TuneParams,
    template: str,
    generator: torch.Generator,
    soup: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Student:
    """A student of `model` with everything that `tune` trains.

    Args:
        model: open_clip model, frozen.
        tokenizer: its tokenizer.
        tune: what is trained.
        template: of the source dataset; a soft prompt starts as the embeddings of its first tokens.
        generator: for random initial values, on the CPU.
        soup: texts that soft descriptors start from if `tune` says so; without them they start as random words.
        words: what `start: words` draws from; empty: common words of the tokenizer.

    Raises:
        ModelError: the model cannot be trained (see `check_model`), or has fewer blocks than are to be trained.
        ParamsError: the template has fewer tokens before its placeholder than the prompt.
    """
    blocks = getattr(tune, "blocks", 0)
    student = Student(model, blocks=blocks, tokenizer=tokenizer, inside_images=tune.inside_images)
    student.tunes_images = tune.tunes_images
    most = min(len(student.image_blocks), len(student.text_blocks))
    if tune.inside_images and max(blocks, getattr(tune, "depth", 0)) > most:
        raise ModelError(f"finetune: {tune.kind} trains more blocks than the {most} of the smaller tower; lower it")
    prompt = partial(_initial_prompt, student, tokenizer=tokenizer, template=template)
    pretrained = {name for name, _ in student.named_parameters()}
    with torch.random.fork_rng(devices=[]):  # torch's own initialisers draw from the named generator
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        attach(student, tune, tokenizer=tokenizer, prompt=prompt, words=words)
    if soup and getattr(tune, "start", None) == "soup":
        start_from_soup(student, soup, tokenizer=tokenizer)
    names = [name for name, _ in student.named_parameters() if not name.endswith(".original")]
    student.trained_names = tuple(name for name in names if student.get_parameter(name).requires_grad)
    # Pretrained weights that train beside soft descriptors are restored, so not stored.
    not_stored = pretrained if isinstance(tune, SoftDescriptorsTune) else pretrained - {*student.trained_names}
    student.stored_names = tuple(name for name in names if name not in not_stored)
    return student.to(next(model.parameters()).device).eval()


def start_from_soup(student: Student, soup: Sequence[str], *, tokenizer: Tokenizer) -> None:
    """Initialise the soft descriptors with the token embeddings of a soup's first members, cut or repeated to fit.

    Raises:
        ParamsError: the soup has fewer members than there are soft descriptors, or one of them is empty.
    """
    soft = student.soft_descriptors
    if len(soup) < len(soft):
        raise ParamsError(f"tune.members is {len(soft)}, the soup to start from has {len(soup)}; lower it")
    for i, tokens in enumerate(tokenizer(list(soup[: len(soft)]))):
        words = tokens[1 : int(tokens.argmax())]
        if not len(words):
            raise ParamsError("a member of the soup to start from is empty: soft descriptors need tokens")
        with torch.no_grad():
            soft[i] = student.embeddings(words[torch.arange(soft.shape[1]) % len(words)])


def check_templates(tune: TuneParams, templates: Mapping[str, str], *, source: str, tokenizer: Tokenizer) -> None:
    """Raise ParamsError unless all templates begin with the same tokens as the source's, which a prompt replaces."""
    n = tune.tokens if isinstance(tune, PromptTune | MapleTune) else getattr(tune, "prompt_tokens", 0)
    beginnings = {name: tokenizer([t.split("{", 1)[0].strip()])[0, : n + 1] for name, t in templates.items()}
    for name, tokens in beginnings.items():
        if not torch.equal(tokens, beginnings[source]):
            raise ParamsError(
                f"datasets.{name}.template {templates[name]!r} must begin with the same {n} tokens as that of "
                f"{source}, {templates[source]!r}: a trained prompt replaces them"
            )


def attach(
    student: Student,
    tune: TuneParams,
    *,
    tokenizer: Tokenizer,
    prompt: Callable[[int], nn.Parameter],
    words: Sequence[str],
) -> None:
    """Add what `tune` trains to the student; `prompt(n)` returns the embeddings of the template's first n tokens."""
    width = student.text_tower.token_embedding.weight.shape[1]
    image_width = len(student.visual.class_embedding) if len(student.image_blocks) else 0
    if n_prompt := getattr(tune, "prompt_tokens", 0):
        student.soft_prompt = prompt(n_prompt)
    match tune:
        case PromptTune():  # CoOp, arXiv 2109.01134
            student.soft_prompt = prompt(tune.tokens)
        case LastBlocksTune():
            _unfreeze_last(student, tune.blocks)
        case SoftDescriptorsTune():  # a CoOp ensemble; ProDA, arXiv 2205.03340
            member = _random_tokens
            if tune.start == "words":
                member = partial(_random_words, words=_one_token(words, tokenizer=tokenizer))
            student.soft_descriptors = nn.Parameter(
                torch.stack([member(student, n=tune.tokens) for _ in range(tune.members)])
            )
            student.keeps_period = tune.start != "words"
            if tune.blocks:
                _unfreeze_last(student, tune.blocks)
        case VisualPromptTune():  # VPT, arXiv 2203.12119
            student.visual_prompts = nn.Parameter(PROMPT_STD * torch.randn(tune.depth, tune.tokens, image_width))
        case MapleTune():  # arXiv 2210.03117
            student.soft_prompt = prompt(tune.tokens)
            if tune.depth > 1:
                student.deep_prompts = nn.Parameter(PROMPT_STD * torch.randn(tune.depth - 1, tune.tokens, width))
            student.projector = nn.Linear(width, image_width)
        case BlocksTune():
            for block in (*student.image_blocks[-tune.blocks :], *student.text_blocks[-tune.blocks :]):
                _adapt_block(block, tune)
            if tune.opens == "image_twice":
                student.text_blocks[-tune.blocks :].requires_grad_(False)
        case ImageAdapterTune():  # CLIP-Adapter, arXiv 2110.04544
            size = _feature_size(student)
            student.image_adapter = Bottleneck(size, tune.reduction, ratio=tune.ratio, rectifies=True)


def _adapt_block(block: Block, tune: BitfitTune | LoraTune | SsfTune | AdapterTune) -> None:
    """Unfreeze or add what `tune` trains in one block."""
    width = block.attn.embed_dim
    match tune:
        case BitfitTune():  # arXiv 2106.10199
            _unfreeze(*(p for name, p in block.named_parameters() if name.endswith("bias")))
        case LoraTune():  # arXiv 2106.09685
            update = LowRank(width, rank=tune.rank, piles_up=tune.piles_up)
            update.to(block.attn.in_proj_weight.device)  # registering it computes the weight
            parametrize.register_parametrization(block.attn, "in_proj_weight", update)
        case SsfTune():  # arXiv 2210.08823
            layers: tuple[nn.LayerNorm | nn.Linear, ...]
            layers = (block.ln_1, block.attn.out_proj, block.ln_2, block.mlp.c_proj)
            for module in layers:
                noise = [0.02 * torch.randn_like(module.bias, device="cpu") for _ in range(2)]  # same on every device
                scale, shift = (nn.Parameter(x.to(module.bias.device)) for x in (1 + noise[0], noise[1]))
                parametrize.register_parametrization(module, "weight", ScaleShift(scale))
                parametrize.register_parametrization(module, "bias", ScaleShift(scale, shift=shift))
        case AdapterTune():  # Houlsby et al., arXiv 1902.00751
            block.mlp.add_module("adapter", Bottleneck(width, tune.reduction, ratio=tune.ratio))


def _feature_size(student: Student) -> int:
    """D, from the text tower, whose structure is known whatever the image tower is."""
    projection = student.text_tower.text_projection
    if projection is None:
        return int(student.text_tower.ln_final.normalized_shape[0])
    return int(projection.out_features if isinstance(projection, nn.Linear) else projection.shape[1])


def _unfreeze_last(student: Student, blocks: int) -> None:
    """Unfreeze the last blocks of both towers, their final norms and projections."""
    visual, text = student.visual, student.text_tower
    _unfreeze(*student.image_blocks[-blocks:], *student.text_blocks[-blocks:])
    _unfreeze(visual.ln_post, visual.proj, text.ln_final, text.text_projection)


def _unfreeze(*parts: nn.Module | Tensor | None) -> None:
    for part in parts:
        if part is not None:
            part.requires_grad_(True)


def _initial_prompt(student: Student, n: int, *, tokenizer: Tokenizer, template: str) -> nn.Parameter:
    """Embeddings (n, width) of the first n tokens of the template, which must come before the class name."""
    tokens = tokenizer([template.split("{", 1)[0].strip()])[0]
    if int(tokens.argmax()) - 1 < n:
        raise ParamsError(
            f"template {template!r} has {int(tokens.argmax()) - 1} tokens before the class name, fewer than the {n} of "
            "the prompt; train fewer tokens or choose another template"
        )
    return nn.Parameter(student.embeddings(tokens[1 : 1 + n]))


def _random_tokens(student: Student, *, n: int) -> Tensor:
    """Embeddings (n, width) of random tokens except the last two, start and end of text."""
    vocabulary = student.text_tower.token_embedding.num_embeddings
    return student.embeddings(torch.randint(vocabulary - 2, (n,)))


def _random_words(student: Student, *, n: int, words: Tensor) -> Tensor:
    """Embeddings (n, width) of n - 1 distinct words of one token each, and of a period."""
    if len(words) < n:
        raise ModelError(f"tune.start: words needs {n} words of one token each, there are {len(words)}; use random")
    chosen = words[torch.randperm(len(words))[: n - 1]]
    return student.embeddings(torch.cat([chosen, torch.tensor([student.period])]))


def _one_token(words: Sequence[str], *, tokenizer: Tokenizer) -> Tensor:
    """Tokens of those words that are a single one; without words, of the most common ones of open_clip's tokenizer."""
    if words:
        tokens = tokenizer(list(words))
        return tokens[tokens.argmax(dim=1) == 2, 1]  # between start and end of text
    vocabulary: Mapping[int, str] = getattr(tokenizer, "decoder", {})
    whole = (i for i, text in sorted(vocabulary.items()) if text.isascii() and text.endswith("</w>"))
    return torch.tensor([i for i in whole if vocabulary[i][:-4].isalpha()][:COMMON_WORDS])


class LowRank(nn.Module):
    """W -> W + scale * (B A) on the query and value rows of a packed (3 width, width) projection; B starts at zero.

    Attributes:
        piled: (2, width, width), sum of earlier updates (`pile_up`), or None if updates do not pile up.
    """

    piled: Tensor | None

    def __init__(self, width: int, *, rank: int, piles_up: bool = False) -> None:
        super().__init__()
        self.down = nn.Parameter(PROMPT_STD * torch.randn(2, rank, width))
        self.up = nn.Parameter(torch.zeros(2, width, rank))
        self.register_buffer("piled", torch.zeros(2, width, width) if piles_up else None, persistent=False)

    def forward(self, weight: Tensor) -> Tensor:
        update = LORA_SCALE * (self.up @ self.down)  # (2, width, width)
        query, value = update if self.piled is None else self.piled + update
        return weight + torch.cat([query, torch.zeros_like(query), value])

    @torch.no_grad()
    def pile_up(self) -> None:
        """Add the current update for good; called once per pass."""
        if self.piled is not None:
            self.piled += LORA_SCALE * (self.up @ self.down)


class ScaleShift(nn.Module):
    """Weight or bias of a layer whose output is scaled and shifted: x -> scale * x by rows, + shift if it is a bias."""

    def __init__(self, scale: nn.Parameter, *, shift: nn.Parameter | None = None) -> None:
        super().__init__()
        self.scale, self.shift = scale, shift

    def forward(self, x: Tensor) -> Tensor:
        scaled = x * (self.scale[:, None] if x.ndim == 2 else self.scale)
        return scaled if self.shift is None else scaled + self.shift


class Bottleneck(nn.Module):
    """(1 - ratio) * x + ratio * up(relu(down(x))), without biases; with `rectifies`, a relu follows `up`."""

    def __init__(self, width: int, reduction: int, *, ratio: float, rectifies: bool = False) -> None:
        super().__init__()
        self.down = nn.Linear(width, max(1, width // reduction), bias=False)
        self.up = nn.Linear(max(1, width // reduction), width, bias=False)
        self.ratio, self.rectifies = ratio, rectifies

    def forward(self, x: Tensor) -> Tensor:
        inner = self.up(F.relu(self.down(x)))
        return (1 - self.ratio) * x + self.ratio * (F.relu(inner) if self.rectifies else inner)
