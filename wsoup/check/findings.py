"""The one list of what `wsoup check` looks at: encoder, datasets, pools, and what would stop a run (`preflight`).

No weights are loaded. The model is built with random ones to learn its text path, activation and resolution, and
whether the methods of params.yaml can train it; a stage would find out hours later.
"""

import difflib
import warnings
from collections.abc import Iterator

from torch import nn

from wsoup.base.errors import ModelError, WsoupError, one_line
from wsoup.check import data, preflight
from wsoup.check.data import Finding
from wsoup.check.whole import Params
from wsoup.finetune.student import check_model
from wsoup.paper import coverage
from wsoup.params.inputs import EncoderParams
from wsoup.texts.models import read_tower
from wsoup.towers.models import forced_quick_gelu, known_tags, untrained_model


def findings(params: Params, *, deep: bool) -> list[Finding]:
    """Every finding about params.yaml once: facts, then warnings, then errors; `deep` also decodes every image."""
    pools = coverage.pools_of_params(params.model_dump(mode="json", by_alias=True))
    found = [
        *encoder(params),
        *(finding for name in params.datasets for finding in data.dataset(name, params=params, deep=deep)),
        *(Finding("fact" if of_authors else "warning", "", text) for of_authors, text in pools),
        *(Finding("error", "", one_line(problem)) for problem in preflight.problems(params)),
    ]
    once: dict[str, Finding] = {}
    for finding in found:  # a file may be missed by several parts
        once.setdefault(finding.text if finding.kind == "error" else str(finding), finding)
    return sorted(once.values(), key=lambda finding: ("fact", "warning", "error").index(finding.kind))


def encoder(params: Params) -> Iterator[Finding]:
    """Build the model without weights; say what it is and what it cannot do."""
    section = params.encoder
    if section.comes_with_weights:
        yield Finding(
            "fact", "encoder", f"{section.model}: model and weights come from there; a run will show the rest"
        )
        return
    if problem := _tag_problem(section):
        yield Finding("error", "encoder", problem)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = untrained_model(section)
            quick = forced_quick_gelu(section) or any(type(part).__name__ == "QuickGELU" for part in model.modules())
            tower = read_tower(model, dtype=None)
    except WsoupError as error:
        yield Finding("error", "encoder", str(error))
        return
    way = "fast (compared with encode_text on first use)" if tower else "plain, by encode_text: correct but slower"
    size = getattr(model.visual, "image_size", None)
    height, width = (size, size) if isinstance(size, int) else tuple(size or ("?", "?"))
    for fact in (
        f"{section.model}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters",
        f"images: {type(model.visual).__name__}, {height} x {width} pixels",
        f"texts: {way}; activation {'QuickGELU' if quick else 'GELU'}",
    ):
        yield Finding("fact", "encoder", fact)
    for warning in caught:
        yield Finding("warning", "encoder", " ".join(str(warning.message).split()))
    yield from _trainable(params, model=model)


def _trainable(params: Params, *, model: nn.Module) -> Iterator[Finding]:
    """Whether the methods can train the model."""
    if not params.finetune.methods:
        return
    try:
        check_model(model)
        yield Finding("fact", "encoder", "finetuning: the methods can train it")
    except ModelError as error:
        yield Finding("error", "encoder", f"finetune.methods: {error}; or set finetune.methods to {{}}")


def _tag_problem(section: EncoderParams) -> str | None:
    """No weights, or a tag that open_clip does not have for this model; `preflight` looks for files."""
    tags = known_tags(section.model)
    if not section.pretrained:
        return "encoder.pretrained is null: name a tag (open_clip.list_pretrained()) or a weights file"
    if section.weights_file is not None or section.pretrained in tags:
        return None
    near = difflib.get_close_matches(section.pretrained, tags, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(tags) or 'none'}"
    return f"encoder.pretrained: {section.model} has no tag {section.pretrained!r}; {hint}"
