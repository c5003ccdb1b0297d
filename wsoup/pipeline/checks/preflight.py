"""What would stop a run, found before the first image is embedded: pool sizes, missing files, limits of the model.

Stage prepare, where a run begins, looks at this, so a k1 larger than the pool is reported when a run starts and not
hours later. A missing file is not a problem if what was made from it is there (a node may hold the artifacts and not
the data), or if DVC is going to make it, as it makes the toy world's encoder.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import MissingError, ModelError, PoolError, WsoupError
from wsoup.disk.files import Artifacts, read_text
from wsoup.disk.store import read_checked_object
from wsoup.finetune.tune_params import TuneParams
from wsoup.pipeline.checks.hidden import hidden_from_dvc
from wsoup.pipeline.params import Params
from wsoup.search.candidates import gpt, pools
from wsoup.search.candidates.templates import templates_of
from wsoup.search.pools import lists
from wsoup.towers import config as model_config

MANY_WORDS = 50_000
"""wordfreq has more common words than this; only larger counts are checked with it, since it takes a second to load."""
START_AND_END = 2
"""Tokens around every text; each word adds at least one."""


def problems(params: Params) -> Iterator[WsoupError]:
    """One error for each thing that would stop a run, as the stage that meets it would raise it."""
    sizes: dict[str, int] = {}
    for pool in params.candidates.pools:
        files = params.candidates.files(pool)
        try:
            sizes[pool] = _size(params, pool=pool, files=files)
        except MissingError as error:
            if not any(_made_by_dvc(file) for file in files):
                yield error
        except WsoupError as error:
            yield error
    yield from _shortages(params, sizes=sizes)
    yield from _gpt_files(params)
    yield from _template_files(params)
    for dataset in params.datasets.values():
        yield from hidden_from_dvc(dataset.root)
    yield from _model(params)


def _size(params: Params, *, pool: str, files: Sequence[str]) -> int:
    """Texts in a pool: of its files, or of the artifact made from files that are elsewhere."""
    candidates = params.candidates
    artifact = Artifacts().pool(pool)
    # The files decide as long as they are there: an artifact may be of params of before.
    if artifact.exists() and not all(os.path.exists(file) for file in files):
        return len(lists.read_pool(artifact))
    if pool == "words" and not files and candidates.words.count <= MANY_WORDS:
        return candidates.words.count
    return len(pools.texts_of_pool(candidates, pool))


def _made_by_dvc(path: str) -> bool:
    """Whether DVC may bring a file: the dvc.yaml of one of its folders names it, or it or a folder has a .dvc file."""
    folders = [part for part in Path(path).parents if part.name]
    for folder in folders:
        pipeline = folder / "dvc.yaml"
        # Looked for in the text, because an output may stand in many forms there; a placeholder may be any name.
        if pipeline.is_file():
            text = read_text(pipeline)
            if "${" in text or Path(path).relative_to(folder).parts[0] in text:
                return True
    return any(part.with_name(f"{part.name}.dvc").is_file() for part in (Path(path), *folders))


def _shortages(params: Params, *, sizes: Mapping[str, int]) -> Iterator[WsoupError]:
    """Soups and draws that need more texts than their pool has; `sizes` lacks pools that cannot be read."""
    for name, soup in params.soups.items():
        if soup.pool in sizes:
            problem = soup.shortage(sizes[soup.pool])
            if problem:
                yield PoolError(f"soups.{name}.{problem}")
    evaluate = params.evaluate
    draws = [
        ("baseline_m", evaluate.baseline_m, "descriptors"),
        ("survey.chain_length", evaluate.survey.chain_length, "words"),
    ]
    if params.finetune.methods:
        draws.append(("tuned_baseline_m", evaluate.tuned_baseline_m, "descriptors"))
    for key, drawn, pool in draws:
        # A pool without any text is not an error: the rows that draw from it are left out.
        size = sizes.get(pool, 0)
        if 0 < size < drawn:
            step = "lower it, or give more texts"
            yield PoolError(f"evaluate.{key} is {drawn} but the pool {pool} holds {size}; {step}")


def _gpt_files(params: Params) -> Iterator[WsoupError]:
    """Files of texts for each class that are missing or cannot be read."""
    wordings: dict[str, str | None] = {}
    for dataset in params.datasets.values():
        for given in dataset.class_texts:
            wordings[given.path] = wordings.get(given.path) or given.wording
    for path, wording in sorted(wordings.items()):
        try:
            gpt.read_descriptors(path, wording=wording)
        except MissingError as error:
            if not Artifacts().evaluated.exists() and not _made_by_dvc(path):
                yield error
        except WsoupError as error:
            yield error


def _template_files(params: Params) -> Iterator[WsoupError]:
    """Files of templates that are missing or cannot be read."""
    of_datasets = {name: dataset.templates for name, dataset in params.datasets.items() if dataset.templates}
    made = Artifacts().templates
    is_kept: dict[str, bool] = {}
    try:
        kept = read_checked_object(made) if made.exists() else {"lists": {}, "datasets": {}}
    except WsoupError as error:
        yield error
        return
    for group, files in (("lists", params.evaluate.template_files), ("datasets", of_datasets)):
        for name, path in files.items():
            is_kept[path] = is_kept.get(path, True) and name in kept[group]
    for path in sorted(is_kept):
        try:
            templates_of(path)
        except MissingError as error:
            if not is_kept[path] and not _made_by_dvc(path):
                yield error
        except WsoupError as error:
            yield error


def _model(params: Params) -> Iterator[WsoupError]:
    """Tokens beyond the model's context and blocks beyond its towers, for a local config or one that open_clip has."""
    encoder = params.encoder
    files = [encoder.config, encoder.weights_file]
    missing = [str(file) for file in files if file is not None and not Path(file).exists()]
    if missing:
        if not Artifacts().features(params.source, split="train").exists() and not _made_by_dvc(missing[0]):
            yield MissingError(f"section encoder: {missing[0]} does not exist; correct its path in params.yaml")
        return
    try:
        config = model_config.known_config(encoder)
        weights = encoder.weights_file
        if config is not None and encoder.config and weights is not None:
            model_config.check_weights(config, weights=weights)
    except WsoupError as error:
        yield error
        return
    if config is None:
        return
    context = config.text_cfg.context_length
    offset = max(params.evaluate.offsets)
    templates = [dataset.template for dataset in params.datasets.values()]
    longest = max(templates, key=_least_tokens)
    # One more, for a descriptor.
    if _least_tokens(longest) + 1 + offset > context:
        yield PoolError(
            f"evaluate.offsets: {offset} null tokens with {longest!r} exceed the model's context of {context} tokens; "
            "lower it"
        )
    template = params.datasets[params.source].template
    for name, method in params.finetune.methods.items():
        for problem in _too_much(method.tune, blocks=config.blocks, context=context, template=template):
            yield ModelError(f"finetune.methods.{name}.tune.{problem}; lower it")


def _too_much(tune: TuneParams, *, blocks: Mapping[str, int], context: int, template: str) -> Iterator[str]:
    """Values of a tuner that are beyond the model's blocks, the template's tokens or the context."""
    if blocks:
        fewest = min(blocks.values())
        for key in ("blocks", "depth"):
            value = getattr(tune, key, 0)
            if value > fewest:
                yield f"{key} is {value}, the smaller tower has {fewest} blocks"
    if tune.n_prompt:
        prefix = template.split("{", 1)[0].strip()
        # No tokenizer makes more tokens of a text than it has bytes.
        most = len(prefix.replace(" ", "").encode())
        if tune.n_prompt > most:
            yield f"{tune.prompt_key} is {tune.n_prompt}, more than {prefix!r} has, which the trained prompt replaces"
    if tune.kind == "soft_descriptors" and _least_tokens(template) + tune.tokens > context:
        yield f"tokens is {tune.tokens}, which with {template!r} exceeds the model's context of {context} tokens"


def _least_tokens(template: str) -> int:
    """Tokens of the shortest prompt without a descriptor."""
    return START_AND_END + len(template.split())
