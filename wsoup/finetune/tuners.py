"""What is trained. Each method adds its parameters to a student and opens them for training.

To add a method: a section in `params.py`, a case in `attach`. All of them work on any ViT CLIP of open_clip,
those that train nothing inside the image tower with any (`inside_images` of a section `tune`).

Start exactly at the pretrained prediction: prompt, last_blocks, bitfit, lora, adapter (its output starts at zero).
Do not, as in their papers: visual_prompt and maple (random visual prompts), ssf (scales drawn around one),
image_adapter (a random bottleneck mixed in), soft_descriptors (random words).

The authors' code (Chris210634/word_soups) trains some of these in ways of its own, which keys of `tune` ask for:
`opens: image_twice` (bitfit, lora, ssf, adapter), `piles_up` (lora), `mix: blend` (adapter, which then no longer starts
at the pretrained prediction), `start: words` and `blocks` (soft_descriptors).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from wsoup.core.errors import ModelError, ParamsError
from wsoup.finetune.added import PROMPT_STD, Bottleneck, LowRank, Scaled, ScaledShifted
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
COMMON_WORDS = 9_000
"""How many of the vocabulary's words `start: words` draws from; ids follow how common a word is."""
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
        ModelError: the model is not a ViT CLIP of open_clip (where nothing inside the image tower is trained: its text
            tower is another), or has fewer blocks than are to be trained.
        ParamsError: the template has fewer tokens before its placeholder than the prompt.
    """
    blocks = getattr(tune, "blocks", 0)
    student = Student(model, blocks=blocks, tokenizer=tokenizer, inside_images=tune.inside_images)
    student.tunes_images = tune.tunes_images
    most = min(len(student.image_blocks), len(student.text_blocks))
    if tune.inside_images and max(blocks, getattr(tune, "depth", 0)) > most:
        raise ModelError(f"finetune: {tune.kind} asks for more blocks than the {most} of the smaller tower; lower it")

    def prompt(n: int) -> nn.Parameter:
        return nn.Parameter(_first_embeddings(student, n, tokenizer=tokenizer, template=template))

    own = {name for name, _ in student.named_parameters()}
    with torch.random.fork_rng(devices=[]):  # so that torch's own initialisers draw from the named generator
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        attach(student, tune, tokenizer=tokenizer, prompt=prompt)
    if soup and getattr(tune, "start", None) == "soup":
        start_from(student, soup, tokenizer=tokenizer)
    names = [name for name, _ in student.named_parameters() if not name.endswith(".original")]
    student.trained_names = tuple(name for name in names if student.get_parameter(name).requires_grad)
    beside = isinstance(tune, SoftDescriptorsTune)  # what learns beside soft descriptors is put back
    student.stored_names = tuple(n for n in names if n not in own or (n in student.trained_names and not beside))
    return student.to(next(model.parameters()).device).eval()


def start_from(student: Student, soup: Sequence[str], *, tokenizer: Tokenizer) -> None:
    """Lay the token embeddings of a soup's first members over the student's soft descriptors.

    Raises:
        ParamsError: the soup has fewer members than there are soft descriptors, or one of them is empty.
    """
    soft, weight = student.soft_descriptors, student.text_tower.token_embedding.weight
    if len(soup) < len(soft):
        raise ParamsError(f"tune.members is {len(soft)}, the soup to start from has {len(soup)}; lower it")
    for i, tokens in enumerate(tokenizer(list(soup[: len(soft)]))):
        own = tokens[1 : int(tokens.argmax())]
        if not len(own):
            raise ParamsError("a member of the soup to start from is empty: soft descriptors need tokens")
        chosen = own[torch.arange(soft.shape[1]) % len(own)]
        with torch.no_grad():
            soft[i] = weight[chosen.to(weight.device)]


def check_templates(tune: TuneParams, templates: Mapping[str, str], *, source: str, tokenizer: Tokenizer) -> None:
    """Raise ParamsError where a dataset's template begins with other tokens than those that a text prompt replaces."""
    n = tune.tokens if isinstance(tune, PromptTune | MapleTune) else getattr(tune, "prompt_tokens", 0)
    beginnings = {name: tokenizer([t.split("{", 1)[0].strip()])[0, : n + 1] for name, t in templates.items()}
    for name, tokens in beginnings.items():
        if not torch.equal(tokens, beginnings[source]):
            raise ParamsError(
                f"datasets.{name}.template {templates[name]!r} must begin with the same {n} tokens as that of "
                f"{source}, {templates[source]!r}: a trained prompt takes their place"
            )


def attach(student: Student, tune: TuneParams, *, tokenizer: Tokenizer, prompt: Callable[[int], nn.Parameter]) -> None:
    """Add what `tune` trains to the student; `prompt(n)` gives the embeddings of the template's first n tokens."""
    width = student.text_tower.token_embedding.weight.shape[1]
    image_width = len(student.visual.class_embedding) if len(student.image_blocks) else 0
    if n_prompt := getattr(tune, "prompt_tokens", 0):
        student.soft_prompt = prompt(n_prompt)
    match tune:
        case PromptTune():  # CoOp, arXiv 2109.01134
            student.soft_prompt = prompt(tune.tokens)
        case LastBlocksTune():
            _open_last(student, tune.blocks)
        case SoftDescriptorsTune():  # a CoOp ensemble; ProDA, arXiv 2205.03340
            member = partial(_common_words, tokenizer=tokenizer) if tune.start == "words" else _random_tokens
            student.soft_descriptors = nn.Parameter(
                torch.stack([member(student, n=tune.tokens) for _ in range(tune.members)])
            )
            student.keeps_period = tune.start != "words"
            if tune.blocks:
                _open_last(student, tune.blocks)
        case VisualPromptTune():  # VPT, arXiv 2203.12119
            student.visual_prompts = nn.Parameter(PROMPT_STD * torch.randn(tune.depth, tune.tokens, image_width))
        case MapleTune():  # arXiv 2210.03117
            student.soft_prompt = prompt(tune.tokens)
            if tune.depth > 1:
                student.deep_prompts = nn.Parameter(PROMPT_STD * torch.randn(tune.depth - 1, tune.tokens, width))
            student.projector = nn.Linear(width, image_width)
        case BlocksTune():
            for block in (*student.image_blocks[-tune.blocks :], *student.text_blocks[-tune.blocks :]):
                _change(block, tune)
            if tune.opens == "image_twice":
                student.text_blocks[-tune.blocks :].requires_grad_(False)
        case ImageAdapterTune():  # CLIP-Adapter, arXiv 2110.04544
            size = _feature_size(student)
            student.image_adapter = Bottleneck(size, tune.reduction, ratio=tune.ratio, blends=True, cut=True)


def _change(block: Any, tune: BitfitTune | LoraTune | SsfTune | AdapterTune) -> None:
    """Open what `tune` trains in one block, or put it there."""
    width = block.attn.embed_dim
    match tune:
        case BitfitTune():  # arXiv 2106.10199
            _open(*(p for name, p in block.named_parameters() if name.endswith("bias")))
        case LoraTune():  # arXiv 2106.09685
            update = LowRank(width, rank=tune.rank, piles_up=tune.piles_up)
            update.to(block.attn.in_proj_weight.device)  # which registering it multiplies with
            parametrize.register_parametrization(block.attn, "in_proj_weight", update)
        case SsfTune():  # arXiv 2210.08823
            for module in (block.ln_1, block.attn.out_proj, block.ln_2, block.mlp.c_proj):
                drawn = 1 + 0.02 * torch.randn_like(module.bias, device="cpu")  # the same on every device
                scale = nn.Parameter(drawn.to(module.bias.device))
                parametrize.register_parametrization(module, "weight", Scaled(scale))
                parametrize.register_parametrization(module, "bias", ScaledShifted(scale))
        case AdapterTune():  # Houlsby et al., arXiv 1902.00751
            adapter = Bottleneck(width, tune.reduction, ratio=tune.ratio, blends=tune.mix == "blend")
            block.mlp.add_module("adapter", adapter)


def _feature_size(student: Student) -> int:
    """D, told from the text tower, which every model has alike."""
    projection = student.text_tower.text_projection
    if projection is None:
        return int(student.text_tower.ln_final.normalized_shape[0])
    return int(projection.out_features if isinstance(projection, nn.Linear) else projection.shape[1])


def _open_last(student: Student, blocks: int) -> None:
    """The last blocks of both towers, their final norms and projections."""
    visual, text = student.visual, student.text_tower
    _open(*student.image_blocks[-blocks:], *student.text_blocks[-blocks:])
    _open(visual.ln_post, visual.proj, text.ln_final, text.text_projection)


def _open(*parts: nn.Module | Tensor | None) -> None:
    for part in parts:
        if part is not None:
            part.requires_grad_(True)


def _first_embeddings(student: Student, n: int, *, tokenizer: Tokenizer, template: str) -> Tensor:
    """Token embeddings (n, width) of the first n tokens of the template, which its class names may not reach into."""
    tokens = tokenizer([template.split("{", 1)[0].strip()])[0]
    if int(tokens.argmax()) - 1 < n:
        raise ParamsError(
            f"template {template!r} has {int(tokens.argmax()) - 1} tokens before the class name, the prompt to train "
            f"has {n}; train fewer tokens or choose another template"
        )
    weight = student.text_tower.token_embedding.weight
    return weight[tokens[1 : 1 + n].to(weight.device)].detach().clone()


def _random_tokens(student: Student, *, n: int) -> Tensor:
    """Embeddings (n, width) of random tokens; the last two of the vocabulary, start and end of text, are left out."""
    weight = student.text_tower.token_embedding.weight
    return weight[torch.randint(len(weight) - 2, (n,)).to(weight.device)].detach()


def _common_words(student: Student, *, n: int, tokenizer: Tokenizer) -> Tensor:
    """Embeddings (n, width) of n - 1 different common words of one token each, and of a period."""
    vocabulary: Mapping[int, str] = getattr(tokenizer, "decoder", {})
    words = [
        i for i, text in sorted(vocabulary.items()) if text.isascii() and text.endswith("</w>") and text[:-4].isalpha()
    ]
    if len(words) < n:
        raise ModelError("tune.start: words needs open_clip's own tokenizer, whose words are known; use start: random")
    chosen = torch.tensor(words[:COMMON_WORDS])[torch.randperm(min(len(words), COMMON_WORDS))[: n - 1]]
    weight = student.text_tower.token_embedding.weight
    return weight[torch.cat([chosen, torch.tensor([student.period])]).to(weight.device)].detach()
