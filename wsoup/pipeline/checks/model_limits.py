"""What is beyond the model: files that are missing, tokens past its context, more blocks than its towers have."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from wsoup.base.errors import MissingError, ModelError, PoolError, WsoupError
from wsoup.disk.files import Artifacts
from wsoup.finetune.tune_params import TuneParams
from wsoup.pipeline.checks.brought import made_by_dvc
from wsoup.pipeline.params import Params
from wsoup.towers import config as model_config
from wsoup.towers.config import Config

START_AND_END = 2
"""Tokens around every text; each word adds at least one."""


def of_model(params: Params) -> Iterator[WsoupError]:
    """An error for the files of the model, else for each key that asks for more than the model has.

    Its sizes are those of a local config or of one that open_clip has; of any other model they are not known yet.
    """
    encoder = params.encoder
    files = [encoder.config, encoder.weights_file]
    missing = [str(file) for file in files if file is not None and not Path(file).exists()]
    if missing:
        if not Artifacts().features(params.source, split="train").exists() and not made_by_dvc(missing[0]):
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
    if config is not None:
        yield from _offsets(params, context=config.text_cfg.context_length)
        yield from _tuners(params, config)


def _offsets(params: Params, *, context: int) -> Iterator[PoolError]:
    """Null tokens that leave no room for a descriptor after the longest template."""
    offset = max(params.evaluate.offsets)
    templates = [dataset.template for dataset in params.datasets.values()]
    longest = max(templates, key=_least_tokens)
    # One more, for a descriptor.
    if _least_tokens(longest) + 1 + offset > context:
        yield PoolError(
            f"evaluate.offsets: {offset} null tokens with {longest!r} exceed the model's context of {context} tokens; "
            "lower it"
        )


def _tuners(params: Params, config: Config) -> Iterator[ModelError]:
    """Sizes of trained parts that do not fit into the model."""
    template = params.datasets[params.source].template
    context = config.text_cfg.context_length
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
