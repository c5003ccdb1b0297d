"""The one list of what `wsoup check` looks at: encoder, datasets, pools, and what would stop a run (`preflight`).

No weights are loaded. The model is built with random ones to learn its text path, activation and resolution, and
whether the methods of params.yaml can train it; a stage would find out hours later.
"""

import difflib
import warnings
from collections.abc import Iterator
from typing import Any

from wsoup.base.errors import ModelError, WsoupError, one_line
from wsoup.check import preflight
from wsoup.check.datasets import dataset
from wsoup.check.finding import Finding, in_order
from wsoup.check.whole import Params
from wsoup.finetune.student import check_model
from wsoup.paper import coverage
from wsoup.params.inputs import EncoderParams
from wsoup.texts.models import read_tower
from wsoup.towers.models import forced_quick_gelu, known_tags, untrained_model


def findings(params: Params, *, deep: bool) -> list[Finding]:
    """Every finding about params.yaml once: facts, then warnings, then errors; `deep` also decodes every image."""
    every = [*encoder(params)]
    for name in params.datasets:
        every += dataset(name, params=params, deep=deep)
    for of_authors, text in coverage.pools_of_params(params.model_dump(mode="json", by_alias=True)):
        every.append(Finding("fact" if of_authors else "warning", "", text))
    for problem in preflight.problems(params):
        every.append(Finding("error", "", one_line(problem)))
    return in_order(every)


def encoder(params: Params) -> Iterator[Finding]:
    """Build the model without weights; say what it is and what it cannot do."""
    section = params.encoder
    if section.comes_with_weights:
        text = f"{section.model}: model and weights come from there; a run will show the rest"
        yield Finding("fact", "encoder", text)
        return
    problem = _tag_problem(section)
    if problem is not None:
        yield Finding("error", "encoder", problem)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = untrained_model(section)
            facts = list(_facts(model, section=section))
    except WsoupError as error:
        yield Finding("error", "encoder", str(error))
        return
    for fact in facts:
        yield Finding("fact", "encoder", fact)
    for warning in caught:
        yield Finding("warning", "encoder", " ".join(str(warning.message).split()))
    if params.finetune.methods:
        try:
            check_model(model)
            yield Finding("fact", "encoder", "finetuning: the methods can train it")
        except ModelError as error:
            yield Finding("error", "encoder", f"finetune.methods: {error}; or set finetune.methods to {{}}")


def _facts(model: Any, *, section: EncoderParams) -> Iterator[str]:
    """The model's size, its images and its way of encoding texts."""
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    yield f"{section.model}: {millions:.0f} million parameters"
    size = getattr(model.visual, "image_size", None) or ("?", "?")
    height, width = (size, size) if isinstance(size, int) else size
    yield f"images: {type(model.visual).__name__}, {height} x {width} pixels"
    way = "plain, by encode_text: correct but slower"
    if read_tower(model, dtype=None) is not None:
        way = "fast (compared with encode_text on first use)"
    # A config may name the activation itself; then no tag and no key forces it.
    has_quick_gelu = any(type(part).__name__ == "QuickGELU" for part in model.modules())
    activation = "QuickGELU" if has_quick_gelu or forced_quick_gelu(section) else "GELU"
    yield f"texts: {way}; activation {activation}"


def _tag_problem(section: EncoderParams) -> str | None:
    """No weights, or a tag that open_clip does not have for this model; `preflight` looks for files."""
    tags = known_tags(section.model)
    if not section.pretrained:
        return "encoder.pretrained is null: name a tag (open_clip.list_pretrained()) or a weights file"
    if section.weights_file is not None or section.pretrained in tags:
        return None
    hint = f"it has {', '.join(tags) or 'none'}"
    near = difflib.get_close_matches(section.pretrained, tags, n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    return f"encoder.pretrained: {section.model} has no tag {section.pretrained!r}; {hint}"
