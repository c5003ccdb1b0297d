"""Look over the encoder of params.yaml before anything runs: what `wsoup check` says of it. No weights are loaded.

A model's text path, activation and resolution, and whether the methods of params.yaml can train it, are told from the
model built with random weights; a stage would find out minutes or hours later.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from wsoup.check.whole import Params
from wsoup.core.errors import ModelError, WsoupError
from wsoup.finetune.params import MethodParams
from wsoup.finetune.student import check_model
from wsoup.params.base.encoder import EncoderParams
from wsoup.texts.reading import read_tower
from wsoup.towers.encoder import forced_quick_gelu, known_tags, untrained_model


@dataclass
class EncoderFinding:
    """What was found of the encoder.

    Attributes:
        facts: one short sentence each.
        problems: what a run would end with, with the next step.
        warnings: what it would accept, but is seldom meant.
    """

    facts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check_encoder(params: Params) -> EncoderFinding:
    """Build the model without weights and say what it is, and what it cannot do."""
    found, encoder = EncoderFinding(), params.encoder
    found.problems += _weights_problems(encoder)
    if encoder.comes_with_weights:
        found.facts.append(f"{encoder.model}: model and weights come from there; nothing more is known before a run")
        return found
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = untrained_model(encoder)
            quick = forced_quick_gelu(encoder) or any(type(part).__name__ == "QuickGELU" for part in model.modules())
            tower = read_tower(model, dtype=None)
    except WsoupError as error:
        found.problems.append(str(error))
        return found
    fast = "fast (held against encode_text on first use)" if tower else "plain, by encode_text: right but slower"
    found.facts += [
        f"{encoder.model}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters",
        f"images: {type(model.visual).__name__}, {_resolution(model)} pixels",
        f"texts: {fast}; activation {'QuickGELU' if quick else 'GELU'}",
    ]
    found.warnings += [" ".join(str(warning.message).split()) for warning in said]
    if params.finetune.methods:
        _methods(found, model, methods=params.finetune.methods)
    return found


def _methods(found: EncoderFinding, model: nn.Module, *, methods: Mapping[str, MethodParams]) -> None:
    """Which of them can train it: those inside the image tower need a ViT, the others any."""
    for inside in (False, True):
        names = [name for name, method in methods.items() if method.tune.inside_images == inside]
        if not names:
            continue
        try:
            check_model(model, inside_images=inside)
            found.facts.append(f"finetuning: {', '.join(names)} can train it")
        except ModelError as error:
            found.problems.append(f"finetune.methods {', '.join(names)}: {error}; or remove them from finetune.methods")


def _weights_problems(encoder: EncoderParams) -> list[str]:
    """A weights file that is not there, no weights, or a tag that open_clip does not have for this model."""
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
