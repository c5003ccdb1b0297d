"""What can be known before the first image is embedded: sizes of pools against what asks for them, files, the model.

Every stage begins with this (`wsoup.pipeline.stage` loads it by name: it refuses, it decides no result), so that a k1
beyond the pool is found when a run starts and not after its images went through the model. A file that is missing is no
problem where what was made of it is there (a node may hold the artifacts and not the data), nor where DVC is to make it
first, as it makes the toy world's encoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from wsoup.check.whole import Params
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.errors import MissingError, ModelError, PoolError, WsoupError
from wsoup.search.rank import gpt, pools
from wsoup.towers import config as model_config

MANY_WORDS = 50_000
"""So many common words there are; whether there are more is asked of wordfreq, which takes a second to load."""
START_AND_END = 2
"""Tokens that every text has; a word has one more at least."""


def check(params: Params) -> None:
    """Raise the first of `problems`."""
    for problem in problems(params):
        raise problem


def made_by_dvc(path: str | Path) -> bool:
    """Whether a file is an out of a dvc.yaml beside or above it, or of a .dvc file; or a folder that it lies in is."""
    place = Path(path)
    parts = [part for part in (place, *place.parents) if part.name]
    for part in parts:
        if part.with_name(f"{part.name}.dvc").is_file():
            return True
        for folder in part.parents:
            file = folder / "dvc.yaml"
            out = rf"(?m)^\s*- *[\"']?{re.escape(part.relative_to(folder).as_posix())}/?[\"']?:? *$"
            if file.is_file() and re.search(out, file.read_text(encoding="utf-8", errors="replace")):
                return True
    return False


def problems(params: Params) -> Iterator[WsoupError]:
    """What will not do, one error each, as the stage that would find it says."""
    artifacts = Artifacts()
    sizes: dict[str, int] = {}
    for pool, read in _pools(params).items():
        try:
            sizes[pool] = len(_unless_made(artifacts.pool(pool), read, made=pools.read_pool))
        except MissingError as error:
            if not any(made_by_dvc(path) for path in _files_of(params, pool=pool)):
                yield error
        except WsoupError as error:
            yield error
    yield from _soups(params, sizes=sizes)
    yield from _evaluation(params, sizes=sizes)
    yield from _gpt(params, artifacts=artifacts)
    yield from _model(params)


def _pools(params: Params) -> dict[str, Callable[[], list[str]]]:
    words, descriptors = params.candidates.words, params.candidates.descriptors

    def read_words() -> list[str]:
        if words.path is not None:
            return pools.words_from_file(words.path, count=words.count)
        return [""] * words.count if words.count <= MANY_WORDS else pools.common_words(words.count)

    return {"words": read_words, "descriptors": lambda: pools.descriptors(descriptors.paths)}


def _files_of(params: Params, *, pool: str) -> list[str]:
    words = params.candidates.words.path
    return params.candidates.descriptors.paths if pool == "descriptors" else [words] if words else []


def _unless_made(product: Path, read: Callable[[], Any], *, made: Callable[[Path], Any]) -> Any:
    """What a file holds; where it is missing, what was made of it."""
    try:
        return read()
    except MissingError:
        if not product.exists():
            raise
        return made(product)


def _soups(params: Params, *, sizes: dict[str, int]) -> Iterator[WsoupError]:
    """Soups that want more of their pool than it holds."""
    if len(sizes) == len(_pools(params)):
        sizes = {**sizes, "mixed": sum(sizes.values())}
    for name, soup in params.soups.items():
        if (size := sizes.get(soup.pool)) is not None:
            where = f"the pool {soup.pool} holds {size}"
            if problem := soup.shortage(size, where=where, otherwise="give more texts under candidates"):
                yield PoolError(f"soups.{name}.{problem}")


def _evaluation(params: Params, *, sizes: dict[str, int]) -> Iterator[WsoupError]:
    """Draws that are larger than the pool that they come from."""
    wanted = {"evaluate.baseline_m": (params.evaluate.baseline_m, "descriptors")}
    if params.finetune.methods:
        wanted["evaluate.tuned_baseline_m"] = (params.evaluate.tuned_baseline_m, "descriptors")
    wanted["evaluate.survey.chain_length"] = (params.evaluate.survey.chain_length, "words")
    for key, (value, pool) in wanted.items():
        if value > (sizes.get(pool) or value):  # without any descriptors their rows are left out
            yield PoolError(f"{key} is {value} but the pool {pool} holds {sizes[pool]}; lower it, or give more texts")


def _gpt(params: Params, *, artifacts: Artifacts) -> Iterator[WsoupError]:
    """GPT descriptors that are missing, damaged, or without one of a dataset's classes, where those are known."""
    for name, dataset in params.datasets.items():
        path = dataset.gpt_descriptors
        if path is None:
            continue
        try:
            descriptors = _unless_made(artifacts.evaluated, partial(gpt.read, path), made=lambda _: None)
            manifest = artifacts.manifest(name)
            if descriptors is not None and manifest.exists():
                class_names = store.table_attributes(manifest)["class_names"]
                called = dataset.gpt_names or {}
                gpt.matched(descriptors, class_names=class_names, origin=path, called=called)
        except MissingError as error:
            if not made_by_dvc(path):
                yield error
        except WsoupError as error:
            yield error


def _model(params: Params) -> Iterator[WsoupError]:
    """Tokens beyond the model's context, blocks beyond its towers: of a local config, or one that open_clip has."""
    files = [file for file in (params.encoder.config, params.encoder.weights_file) if file is not None]
    made = Artifacts().features(params.source, split="train").exists()
    lost = [file for file in files if not Path(file).exists()]
    if lost:
        if not made and not made_by_dvc(lost[0]):
            yield MissingError(f"section encoder: {lost[0]} does not exist; correct its path in params.yaml")
        return
    try:
        config = model_config.known_config(params.encoder)
        if config is not None and params.encoder.config and (weights := params.encoder.weights_file):
            model_config.check_weights(config, weights=weights)
    except WsoupError as error:
        yield error
        return
    if config is None:
        return
    context, towers = config.text_cfg.context_length, config.blocks
    offset = max(params.evaluate.offsets)
    for name, dataset in params.datasets.items():
        least = START_AND_END + len(dataset.template.split()) + 1  # a word of a descriptor
        if least + offset > context:
            yield PoolError(
                f"evaluate.offsets: {offset} null tokens with {dataset.template!r} of {name} exceed the model's "
                f"context of {context} tokens; lower it"
            )
            break
    template = params.datasets[params.source].template
    for name, method in params.finetune.methods.items():
        yield from _method(name, method.tune, towers=towers, context=context, template=template)


def _method(name: str, tune: Any, *, towers: dict[str, int], context: int, template: str) -> Iterator[WsoupError]:
    where = f"finetune.methods.{name}.tune"
    blocks = min(towers.values(), default=None)
    for key in ("blocks", "depth"):
        if blocks is not None and (asked := getattr(tune, key, 0)) > blocks:
            yield ModelError(f"{where}.{key} is {asked}, the smaller tower has {blocks} blocks; lower it")
    if tune.kind in ("prompt", "maple", "last_blocks"):
        key, before = "prompt_tokens" if tune.kind == "last_blocks" else "tokens", template.split("{", 1)[0].strip()
        if (asked := getattr(tune, key)) > len(before.replace(" ", "").encode()):
            yield ModelError(
                f"{where}.{key} is {asked}, more than {before!r} has, which the trained prompt takes the place of; "
                "lower it"
            )
    if tune.kind == "soft_descriptors" and START_AND_END + len(template.split()) + tune.tokens > context:
        yield ModelError(
            f"{where}.tokens is {tune.tokens}, which with {template!r} exceeds the model's context of {context} "
            "tokens; lower it"
        )
