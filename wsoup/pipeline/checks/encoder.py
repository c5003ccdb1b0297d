"""What `wsoup check` asks of the model: its own facts, whether it can be trained, which texts are too long for it.

No weights are loaded. The model is built with random ones to learn its text path, activation and resolution, and
whether the methods of params.yaml can train it; a stage would find out hours later.
"""

import difflib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wsoup.base.errors import ModelError, WsoupError, one_line
from wsoup.core import prompts
from wsoup.evaluate.baselines import gpt_prompts
from wsoup.finetune.student import check_model
from wsoup.params.inputs import ClassTextFile, DatasetParams, EncoderParams
from wsoup.pipeline.checks.downloads import missing_weights
from wsoup.pipeline.checks.finding import Finding
from wsoup.pipeline.params import Params
from wsoup.search.candidates import pools
from wsoup.texts.coverage import read_tower
from wsoup.texts.tokens import beyond_context, too_long
from wsoup.towers.encoder import preprocessing_of
from wsoup.towers.models import forced_quick_gelu, known_tags, known_tokenizer, untrained_model
from wsoup.towers.unstated import unstated


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
    missing = missing_weights(section)
    if missing is not None:
        yield Finding("warning", "encoder", missing)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = untrained_model(section)
            facts = list(_facts(model, section=section))
    except WsoupError as error:
        yield Finding("error", "encoder", str(error))
        return
    for fact in filter(None, facts):
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
    if isinstance(size, int):
        size = (size, size)
    height, width = size
    yield f"images: {type(model.visual).__name__}, {height} x {width} pixels"
    yield unstated(section, preprocessing_of(model))
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


def long_texts(params: Params, *, class_names: Sequence[str]) -> Iterator[str]:
    """Each text of the pools that is too long after one of the source's classes; wordfreq's words are not."""
    candidates = params.candidates
    if candidates.on_long_text == "skip":
        return
    try:
        tokenizer = known_tokenizer(params.encoder)
        texts = {}
        for pool in candidates.pools:
            if candidates.files(pool):
                texts[pool] = pools.texts_of_pool(candidates, pool)
    except WsoupError:  # a missing pool or model is reported elsewhere
        return
    template = params.datasets[params.source].template
    for pool, pool_texts in texts.items():
        for name, text in too_long(pool_texts, template=template, class_names=class_names, tokenizer=tokenizer):
            shown = one_line(text, limit=160)
            where = f"after {one_line(prompts.stem(template, name), limit=160)!r}"
            if prompts.is_template(text):
                where = f"with class name {one_line(name, limit=160)!r}"
            yield (
                f"candidates.{pool}: {shown!r} does not fit the model's context {where}; "
                "shorten it or leave it out, or set candidates.on_long_text: skip"
            )


def long_class_texts(
    given: ClassTextFile, *, section: DatasetParams, params: Params, of_classes: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """The first text of a dataset's file that is too long as a prompt of its class, and how many there are."""
    try:
        tokenizer = known_tokenizer(params.encoder)
    except WsoupError:  # a missing model is reported elsewhere
        return
    by_class = gpt_prompts(
        section.baseline_template or section.template,
        class_names=list(of_classes),
        descriptors=of_classes,
        gpt_names=given.names,
        are_sentences=given.are_sentences,
    )
    too_long_texts = []
    for class_name, texts in zip(of_classes, by_class, strict=True):
        for _, i in beyond_context([""], texts, tokenizer=tokenizer):
            too_long_texts.append((class_name, texts[i]))
    if too_long_texts:
        class_name, text = too_long_texts[0]
        yield (
            f"{given.path}: {len(too_long_texts):,} texts do not fit the model's context, such as "
            f"{one_line(text, limit=160)!r} of class {class_name!r}; shorten them"
        )
