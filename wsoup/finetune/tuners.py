"""What is trained: every kind of `tune` adds parameters to a student and opens them for training.

A new kind is a section in `tune_params.py` and a case in `attach`. All kinds work on any ViT CLIP of open_clip.

These start exactly at the pretrained prediction: prompt, last_blocks, bitfit, lora, clip_lora, block_norms,
image_projection. These do not: visual_prompt, maple and independent_prompts (random visual prompts), ssf (random scales
around 1), adapter (as in the authors' code) and image_adapter (a random bottleneck mixed in), soft_descriptors (words,
random or of a soup).

The authors' code (Chris210634/word_soups) deviates from the papers in ways that keys of `tune` reproduce: `opens:
image_twice` (bitfit, lora, ssf, adapter), `piles_up` (lora), `blocks` (soft_descriptors).
"""

from collections.abc import Sequence, Set

import torch
from torch import nn
from torch.nn.utils import parametrize

from wsoup.base.errors import ModelError
from wsoup.finetune.blocks import START_STD, Block, Bottleneck, LowRank, LowRankQkv, ScaleShift
from wsoup.finetune.starts import Tokenizer, descriptor_starts, prompt_start
from wsoup.finetune.student import Student
from wsoup.finetune.tune_params import (
    AdapterTune,
    BitfitTune,
    BlockNormsTune,
    BlocksTune,
    ClipLoraTune,
    ImageAdapterTune,
    ImageProjectionTune,
    IndependentPromptsTune,
    LastBlocksTune,
    LoraTune,
    MapleTune,
    SoftDescriptorsTune,
    SsfTune,
    TuneParams,
    VisualPromptTune,
)

ALL_BLOCKS = 10_000
"""More than any tower has."""


def make_student(
    model: nn.Module,
    *,
    tokenizer: Tokenizer,
    tune: TuneParams,
    template: str,
    generator: torch.Generator,
    words: Sequence[str] = (),
    soup: Sequence[str] = (),
    class_names: Sequence[str] = (),
) -> Student:
    """A student of `model` with everything that `tune` trains.

    Args:
        model: open_clip model, frozen.
        tokenizer: its tokenizer.
        tune: what is trained.
        template: of the source dataset; a soft prompt starts as the embeddings of its first tokens.
        generator: for random initial values, on the CPU.
        words: what soft descriptors with a random start are drawn from; empty: common words of the tokenizer.
        soup: bare texts that soft descriptors with ``start: soup`` start from.
        class_names: C names of the source, for a `tune` that trains class weights.

    Raises:
        ModelError: the model cannot be trained (see `check_model`), or has fewer blocks than are to be trained.
        ParamsError: the template has fewer tokens before its placeholder than the prompt, or the soup fewer members
            than there are soft descriptors.
    """
    blocks = ALL_BLOCKS if isinstance(tune, BlockNormsTune) else getattr(tune, "blocks", 0)
    student = Student(model, blocks=blocks, tokenizer=tokenizer)
    student.tunes_images = tune.tunes_images
    student.class_names = tuple(class_names) if tune.trains_classes else ()
    most = min(len(student.image_blocks), len(student.text_blocks))
    if max(getattr(tune, "blocks", 0), getattr(tune, "depth", 0)) > most:
        raise ModelError(f"finetune: {tune.kind} trains more blocks than the {most} of the smaller tower; lower it")
    _in_float32(student)
    pretrained = {name for name, _ in student.named_parameters()}
    # torch's own initialisers draw from its global generator: within this block it is seeded by the named one.
    with torch.random.fork_rng(devices=[]):
        (start_seed,) = torch.randint(2**31, (1,), generator=generator).tolist()
        torch.manual_seed(start_seed)
        if tune.n_prompt > 0:
            tokens = prompt_start(tune.n_prompt, tokenizer=tokenizer, template=template)
            student.soft_prompt = nn.Parameter(student.embeddings(tokens))
        if isinstance(tune, SoftDescriptorsTune):
            starts = descriptor_starts(tune, tokenizer=tokenizer, words=words, soup=soup)
            with_period = nn.functional.pad(starts, (0, 1), value=student.period)
            student.soft_descriptors = nn.Parameter(student.embeddings(with_period))
        attach(student, tune)
    _name_parameters(student, pretrained=pretrained, restores_towers=isinstance(tune, SoftDescriptorsTune))
    for parameter in student.trained().values():
        parameter.data = parameter.data.float()
    return student.to(next(model.parameters()).device).eval()


def _in_float32(student: Student) -> None:
    """Convert what may be trained, and the norms after it, which take a stream of either type.

    Small steps of training would be lost in weights of half precision. What is shared with the pretrained model stays.
    """
    for tower in (student.image_blocks, student.text_blocks):
        tower[len(tower) - student.blocks :].float()
    for norm in (student.model.visual.ln_post, student.text_tower.ln_final):
        norm.float()


def _name_parameters(student: Student, *, pretrained: Set[str], restores_towers: bool) -> None:
    """Set `trained_names` and `stored_names`; `pretrained` names what the model had before."""
    names = [name for name, _ in student.named_parameters() if not name.endswith(".original")]
    student.trained_names = tuple(name for name in names if student.get_parameter(name).requires_grad)
    not_stored = pretrained - {*student.trained_names}
    if restores_towers:
        # Pretrained weights that train beside soft descriptors are restored, so not stored.
        not_stored = pretrained
    student.stored_names = tuple(name for name in names if name not in not_stored)


def attach(student: Student, tune: TuneParams) -> None:
    """Add what `tune` trains to the student, besides prompts and soft descriptors of texts, or unfreeze it."""
    width = student.text_tower.token_embedding.weight.shape[1]
    image_width = len(student.visual.class_embedding)
    match tune:
        case LastBlocksTune() | SoftDescriptorsTune() if tune.blocks:  # the latter in a CoOp ensemble
            _unfreeze_last(student, tune.blocks)
        case VisualPromptTune():  # VPT, arXiv 2203.12119
            student.visual_prompts = _random_prompts(tune.depth, tune.tokens, image_width)
        case IndependentPromptsTune():  # PromptSRC, arXiv 2307.06948
            _deepen_texts(student, tune, width=width)
            student.visual_prompts = _random_prompts(tune.depth, tune.tokens, image_width)
        case MapleTune():  # arXiv 2210.03117
            _deepen_texts(student, tune, width=width)
            student.projector = nn.Linear(width, image_width)
        case BlocksTune():
            last_image_blocks = student.image_blocks[-tune.blocks :]
            last_text_blocks = student.text_blocks[-tune.blocks :]
            for block in (*last_image_blocks, *last_text_blocks):
                _adapt_block(block, tune)
            if tune.opens == "image_twice":
                last_text_blocks.requires_grad_(False)
        case BlockNormsTune():  # 2SFS, arXiv 2503.11609
            for block in (*student.image_blocks, *student.text_blocks):
                block.ln_1.requires_grad_(True)
                block.ln_2.requires_grad_(True)
            if tune.trains_classes:
                size = (len(student.class_names), student.visual.output_dim)
                student.class_weights = nn.Parameter(torch.zeros(size))
        case ImageProjectionTune():  # ProLIP, arXiv 2410.05270
            student.visual.proj.requires_grad_(True)
        case ImageAdapterTune():  # CLIP-Adapter, arXiv 2110.04544
            size = student.visual.output_dim
            student.image_adapter = Bottleneck(size, tune.reduction, ratio=tune.ratio, rectifies=True)


def _deepen_texts(student: Student, tune: MapleTune | IndependentPromptsTune, *, width: int) -> None:
    """Add text prompts of the second block and those after it; the first block's begin with the template."""
    if tune.depth > 1:
        student.deep_prompts = _random_prompts(tune.depth - 1, tune.tokens, width)


def _random_prompts(depth: int, tokens: int, width: int) -> nn.Parameter:
    """(depth, tokens, width)."""
    return nn.Parameter(START_STD * torch.randn(depth, tokens, width))


def _adapt_block(block: Block, tune: BitfitTune | LoraTune | ClipLoraTune | SsfTune | AdapterTune) -> None:
    """Unfreeze or add what `tune` trains in one block."""
    width = block.attn.embed_dim
    match tune:
        case BitfitTune():  # arXiv 2106.10199
            for name, parameter in block.named_parameters():
                parameter.requires_grad_(name.endswith("bias"))
        case LoraTune():  # arXiv 2106.09685
            update = LowRank(width, rank=tune.rank, piles_up=tune.piles_up)
            # Moved now, because registering it computes the weight.
            update.to(block.attn.in_proj_weight.device)
            parametrize.register_parametrization(block.attn, "in_proj_weight", update)
        case ClipLoraTune():  # arXiv 2405.18541
            of_all = LowRankQkv(width, rank=tune.rank, alpha=tune.alpha)
            of_all.to(block.attn.in_proj_weight.device)
            parametrize.register_parametrization(block.attn, "in_proj_weight", of_all)
        case SsfTune():  # arXiv 2210.08823
            for module in (block.ln_1, block.attn.out_proj, block.ln_2, block.mlp.c_proj):
                _scale_and_shift(module)
        case AdapterTune():  # Houlsby et al., arXiv 1902.00751
            block.mlp.add_module("adapter", Bottleneck(width, tune.reduction, ratio=tune.ratio))


def _scale_and_shift(module: nn.LayerNorm | nn.Linear) -> None:
    """Scale and shift the output of a layer; both are drawn on the CPU, so they are the same on every device."""
    scale_noise = START_STD * torch.randn_like(module.bias, device="cpu")
    shift_noise = START_STD * torch.randn_like(module.bias, device="cpu")
    scale = nn.Parameter((1 + scale_noise).to(module.bias.device))
    shift = nn.Parameter(shift_noise.to(module.bias.device))
    parametrize.register_parametrization(module, "weight", ScaleShift(scale))
    parametrize.register_parametrization(module, "bias", ScaleShift(scale, shift=shift))


def _unfreeze_last(student: Student, blocks: int) -> None:
    """Unfreeze the last blocks of both towers, their final norms and projections."""
    visual = student.visual
    text = student.text_tower
    last_blocks = [*student.image_blocks[-blocks:], *student.text_blocks[-blocks:]]
    ends = [visual.ln_post, visual.proj, text.ln_final, text.text_projection]
    for part in last_blocks + ends:
        part.requires_grad_(True)
