"""The encoder part of `wsoup check`. No weights are loaded.

The model is built with random weights to learn its text path, activation and resolution, and whether the methods of
params.yaml can train it; a stage would find out hours later. Texts that do not fit its context are named too.
"""

import difflib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import nn

from wsoup.base.errors import ModelError, WsoupError, one_line
from wsoup.check.whole import Params
from wsoup.core import prompts
from wsoup.finetune.student import check_model
from wsoup.params.inputs import EncoderParams
from wsoup.search.rank import pools
from wsoup.texts.models import read_tower
from wsoup.texts.tokens import too_long
from wsoup.towers.encoder import forced_quick_gelu, known_tags, tokenizer_of, untrained_model


@dataclass
class EncoderFinding:
    """Facts, problems and warnings about the encoder.

    Attributes:
        facts: one short sentence each.
        problems: errors that a run would end with, with the next step.
        warnings: what a run accepts but is probably a mistake.
    """

    facts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check_encoder(params: Params) -> EncoderFinding:
    """Build the model without weights; say what it is and what it cannot do."""
    encoder = params.encoder
    finding = EncoderFinding(problems=_weights_problems(encoder))
    if encoder.comes_with_weights:
        finding.facts.append(f"{encoder.model}: model and weights come from there; a run will show the rest")
        return finding
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = untrained_model(encoder)
            quick = forced_quick_gelu(encoder) or any(type(part).__name__ == "QuickGELU" for part in model.modules())
            tower = read_tower(model, dtype=None)
    except WsoupError as error:
        finding.problems.append(str(error))
        return finding
    way = "fast (compared with encode_text on first use)" if tower else "plain, by encode_text: correct but slower"
    finding.facts += [
        f"{encoder.model}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters",
        f"images: {type(model.visual).__name__}, {_resolution(model)} pixels",
        f"texts: {way}; activation {'QuickGELU' if quick else 'GELU'}",
    ]
    finding.warnings += [" ".join(str(warning.message).split()) for warning in caught]
    # Methods inside the image tower need a ViT; the others work with any tower.
    for inside in (False, True):
        methods = params.finetune.methods.items()
        names = ", ".join(name for name, method in methods if method.tune.inside_images == inside)
        try:
            if names:
                check_model(model, inside_images=inside)
                finding.facts.append(f"finetuning: {names} can train it")
        except ModelError as error:
            finding.problems.append(f"finetune.methods {names}: {error}; or remove them from finetune.methods")
    return finding


def _weights_problems(encoder: EncoderParams) -> list[str]:
    """No weights, a missing weights file, or a tag that open_clip does not have for this model."""
    local, tags = encoder.weights_file, known_tags(encoder.model)
    if encoder.comes_with_weights:
        return []
    if not encoder.pretrained:
        return ["encoder.pretrained is null: name a tag (open_clip.list_pretrained()) or a weights file"]
    if local is not None:
        return [] if local.is_file() else [f"encoder.pretrained: weights file {local} does not exist"]
    if encoder.pretrained in tags:
        return []
    near = difflib.get_close_matches(encoder.pretrained, tags, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(tags) or 'none'}"
    return [f"encoder.pretrained: {encoder.model} has no tag {encoder.pretrained!r}; {hint}"]


def _resolution(model: nn.Module) -> str:
    size = getattr(model.visual, "image_size", None)
    height, width = (size, size) if isinstance(size, int) else tuple(size or ("?", "?"))
    return f"{height} x {width}"


def text_problems(params: Params, *, class_names: Sequence[str]) -> Iterator[str]:
    """A line for each descriptor, and each word from the user's own list, that is too long after the source's classes.

    Args:
        params: the whole params.yaml.
        class_names: of the source; empty if its images are missing.
    """
    candidates = params.candidates
    if candidates.on_long_text == "skip":
        return
    try:
        tokenizer = tokenizer_of(params.encoder.model)
        texts = {"descriptors": pools.descriptors(candidates.descriptors.paths)}
        if candidates.words.path is not None:
            texts["words"] = pools.words_from_file(candidates.words.path, count=candidates.words.count)
    except WsoupError:  # a missing pool or model is reported elsewhere
        return
    stems = prompts.stems(params.datasets[params.source].template, class_names)
    for pool, pool_texts in texts.items():
        for stem, text in too_long(pool_texts, stems=stems, tokenizer=tokenizer):
            after = one_line(stem, limit=160)
            yield (
                f"candidates.{pool}: {one_line(text, limit=160)!r} does not fit the model's context after {after!r}; "
                "shorten it or leave it out, or set candidates.on_long_text: skip"
            )
