"""open_clip's models by name: built with their activation, their tokenizers, and the tables that come with them."""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.base.errors import MissingError, ModelError, needing, one_line
from wsoup.params.inputs import EncoderParams
from wsoup.towers.checkpoints import bare_weights
from wsoup.towers.config import Config, known_config, read_config
from wsoup.towers.library import open_clip
from wsoup.towers.words import ByWord

QUICK_GELU = "-quickgelu"
"""Suffix of the names of open_clip's models that use QuickGELU."""


def build(params: EncoderParams, *, device: torch.device) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
    """open_clip's model with its weights, and its preprocessing.

    Raises:
        ModelError: open_clip cannot load it, or its activation is not the one that the weights were trained with.
    """
    force = forced_quick_gelu(params)
    with _explained(f"encoder {params.model} / {params.pretrained} cannot be loaded"), warnings.catch_warnings():
        # `forced_quick_gelu` has decided.
        warnings.filterwarnings("ignore", message="QuickGELU mismatch")
        try:
            with bare_weights(origin=str(params.pretrained or params.model)):
                model, _, preprocess = open_clip.create_model_and_transforms(
                    params.model,
                    pretrained=params.pretrained or None,
                    force_quick_gelu=force,
                    image_mean=params.image_mean,
                    image_std=params.image_std,
                    image_interpolation=params.interpolation,
                    device=device,
                    require_pretrained=params.pretrained is not None,  # a hub's repository may have no weights
                )
        except pickle.UnpicklingError:
            raise ModelError(
                f"encoder.pretrained: {params.pretrained} is damaged, or holds more than weights (code is never run); "
                "download it again, or save its state dict as .safetensors"
            ) from None
    return model, preprocess


def forced_quick_gelu(params: EncoderParams) -> bool:
    """Whether to ask open_clip for QuickGELU because the model's configuration does not.

    Weights only work with the activation that they were trained with, but open_clip (3.x) builds what the model's name
    says: GELU for ``ViT-B-16``, whatever the tag. So a tag's own configuration decides (openai, metaclip, dfn, ... use
    QuickGELU); for local weights and a hub's model, their configuration or ``encoder.quick_gelu``.

    Raises:
        ModelError: a ``-quickgelu`` name with weights trained with GELU, or a key that contradicts the tag or the name.
    """
    config = open_clip.get_model_config(params.model) or {}
    in_config = bool(config.get("quick_gelu"))
    tag = open_clip.get_pretrained_cfg(params.model, str(params.pretrained))
    plain_name = params.model.removesuffix(QUICK_GELU)
    plain = open_clip.get_pretrained_cfg(plain_name, str(params.pretrained))
    if plain_name != params.model and plain and not plain.get("quick_gelu"):
        raise ModelError(
            f"encoder.pretrained {params.pretrained} was trained with GELU, not with the QuickGELU of encoder.model "
            f"{params.model}; set encoder.model: {plain_name}"
        )
    wanted = params.quick_gelu
    if tag:
        # A configuration may ask for QuickGELU without saying so in its name (roberta-ViT-B-32).
        wanted = in_config or bool(tag.get("quick_gelu"))
    if params.quick_gelu not in (None, wanted):
        trained_with = "QuickGELU" if wanted else "GELU"
        raise ModelError(
            f"encoder.quick_gelu is {str(params.quick_gelu).lower()}, but {params.model} / {params.pretrained} was "
            f"trained with {trained_with}; leave the key out, the tag decides"
        )
    if in_config and wanted is False:
        raise ModelError(
            f"encoder.quick_gelu is false, but the configuration of {params.model} asks for QuickGELU; "
            "leave the key out or choose another model"
        )
    return bool(wanted) and not in_config


def tokenizer_of(model: str) -> Callable[[Sequence[str]], Tensor]:
    """The tokenizer of a model; ModelError if it cannot be loaded or needs a package that is not installed."""
    config = open_clip.get_model_config(model) or {}
    is_of_transformers = "hf_tokenizer_name" in config.get("text_cfg", {})
    with _explained(f"the tokenizer of {model} cannot be loaded"):
        if not config or is_of_transformers:
            return _tokenizer(model)
        return _usual_tokenizer(model, json.dumps(config, sort_keys=True))


def _tokenizer(model: str) -> Callable[[Sequence[str]], Tensor]:
    tokenizer = open_clip.get_tokenizer(model)
    if isinstance(tokenizer, open_clip.SimpleTokenizer):
        tokenizer.encode = ByWord(tokenizer.encode)
    return tokenizer


@lru_cache(maxsize=8)
def _usual_tokenizer(model: str, config: str) -> Callable[[Sequence[str]], Tensor]:
    """open_clip's own tokenizer, whose vocabulary takes 0.1 s to read: once for all encoders of a process.

    Args:
        model: its name.
        config: its configuration as JSON, since a name can be registered again with another one.
    """
    return _tokenizer(model)


def cleaning(way: str) -> Callable[[str], str]:
    """What open_clip does to a text before a tokenizer of transformers reads it.

    Args:
        way: `clean` of its configurations: canonicalize (lower case, no punctuation), lower or whitespace.
    """
    clean: Callable[[str], str] = open_clip.tokenizer.get_clean_fn(way)
    return clean


def random_model(name: str, *, seed: int) -> tuple[nn.Module, Callable[[Sequence[str]], Tensor]]:
    """An open_clip model with seeded random weights, and its tokenizer: to test exactness and speed."""
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = open_clip.create_model(name, load_weights=False)
    return model.eval().requires_grad_(False), tokenizer_of(name)


def untrained_model(params: EncoderParams) -> nn.Module:
    """The model with random weights, to inspect before any weights are loaded.

    Raises:
        MissingError, ModelError: no such config or model, or it cannot be built.
    """
    check_name(params)
    with _explained(f"encoder.model {params.model} cannot be built"):
        model, _ = random_model(params.model, seed=0)
        return model


def known_tokenizer(params: EncoderParams) -> Callable[[Sequence[str]], Tensor]:
    """The tokenizer of section ``encoder``, without its model. Raises MissingError, ModelError as `check_name`."""
    check_name(params)
    return tokenizer_of(params.model)


def check_name(params: EncoderParams) -> Config | None:
    """Register and return a local config; ModelError if open_clip knows no such model."""
    config = known_config(params)
    if params.config is not None:
        _register(params)
    if params.model.startswith("hf-hub:"):
        _check_hub(params.model.removeprefix("hf-hub:"))
    known = open_clip.list_models()
    if params.model not in known and not params.comes_with_weights:
        hint = "see open_clip.list_models()"
        near = difflib.get_close_matches(params.model, known, n=1)
        if near:
            hint = f"did you mean {near[0]!r}?"
        elif params.weights_file is not None:
            hint = "for a model of your own set encoder.config to its open_clip JSON config"
        raise ModelError(f"encoder.model {params.model!r} is not an open_clip model; {hint}")
    return config


def _register(params: EncoderParams) -> None:
    """Register a local JSON config with open_clip under the file's stem, which must be the model's name."""
    path = Path(str(params.config))
    if path.stem != params.model:
        raise ModelError(
            f"encoder.model must be the config's file name without .json: {path.stem!r}, not {params.model!r}"
        )
    # Registering reads all configs of open_clip again, which takes it 0.07 s.
    if open_clip.get_model_config(params.model) != json.loads(path.read_text(encoding="utf-8")):
        open_clip.add_model_config(path)


def _check_hub(repository: str) -> None:
    """Raise ModelError if the config of a hub's repository is not acceptable."""
    try:
        file = open_clip.pretrained.download_pretrained_from_hf(repository, filename="open_clip_config.json")
    except Exception:  # open_clip reports a missing network or repository
        return
    read_config(Path(file), key="encoder.model", of_hub=True)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn any error inside into a ModelError that says what failed: configs and weights may lead anywhere."""
    try:
        with needing():
            yield
    except (MissingError, ModelError):
        raise
    except Exception as error:
        raise ModelError(f"{what}: {one_line(error, limit=250) or type(error).__name__}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence open_clip's warning that weights are random."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def known_tags(model: str) -> list[str]:
    """open_clip's tags of pretrained weights for a model."""
    return list(open_clip.list_pretrained_tags_by_model(model))


def imagenet_class_names() -> list[str]:
    """ImageNet's 1,000 class names in label order, from open_clip's metadata."""
    return list(open_clip.IMAGENET_CLASSNAMES)


def ensemble_templates() -> list[Callable[[str], str]]:
    """OpenAI's 80 templates for prompt ensembles (class name -> prompt), from open_clip's metadata."""
    return list(open_clip.OPENAI_IMAGENET_TEMPLATES)
