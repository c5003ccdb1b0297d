"""A model in memory: any object with `encode_text` and `encode_image`, what it is called, and where it works.

open_clip's models take the fast text path; of anything else the plain `encode_text` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.core.errors import MismatchError, ModelError, ParamsError
from wsoup.runtime.process import kept_memory
from wsoup.runtime.progress import showing
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import AUTOCAST, Encoder
from wsoup.towers.identity import encoder_id

Tokenizer = Callable[[Sequence[str]], Tensor]


@contextmanager
def at_work(model: Any, *, bars: bool) -> Iterator[None]:
    """Within, the model is in eval mode, and bars are drawn or not; afterwards it is as it was."""
    module = as_module(model)
    trained = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with showing(bars=bars), kept_memory():
            yield
    finally:
        for part in trained:
            part.training = True


def as_module(model: Any) -> nn.Module:
    """The model itself, or, of an object that wraps models, its modules together."""
    if isinstance(model, nn.Module):
        return model
    parts = {name: part for name, part in getattr(model, "__dict__", {}).items() if isinstance(part, nn.Module)}
    return nn.ModuleDict(parts)


def device_of(model: Any) -> torch.device:
    """Where the model's weights are; the CPU where it has none."""
    return next((weight.device for weight in as_module(model).parameters()), torch.device("cpu"))


def in_memory(
    model: Any,
    *,
    tokenizer: Tokenizer | None = None,
    preprocess: Callable[[Image.Image], Tensor] | None = None,
    preprocessing: dict[str, Any],
    names: Mapping[str, str | None] | None = None,
    precision: str,
    device: torch.device | None = None,
) -> Encoder:
    """A model in memory with its tokenizer, its preprocessing, or both; `device`: where its weights are.

    Raises:
        ParamsError: see `identity`.
    """
    return Encoder(
        model=model,
        tokenizer=tokenizer or _not_made_for_this,
        preprocess=preprocess or _not_made_for_this,
        augment=preprocess or _not_made_for_this,
        id=identity(model, tokenizer, names=names, precision=precision),
        preprocessing=preprocessing,
        device=device or device_of(model),
        dtype=AUTOCAST[precision],
    )


def identity(
    model: Any, tokenizer: Tokenizer | None, *, names: Mapping[str, str | None] | None, precision: str
) -> dict[str, Any]:
    """The encoder id of a model in memory, as the pipeline writes it; weights None where it has none to digest.

    Args:
        model, tokenizer: as handed in; no tokenizer where only images are encoded.
        names: `model` and `pretrained`, as open_clip knows them, so that others can load the encoder by its id; None:
            its `name`, or that of its class.
        precision: of the matrix products.

    Raises:
        ParamsError: another key in `names`.
    """
    names = names or {}
    unknown = sorted(set(names) - {"model", "pretrained"})
    if unknown:
        raise ParamsError(f"encoder has {unknown[0]!r}; expected model and pretrained, as open_clip names them")
    module = as_module(model)
    about = encoder_id(
        module,
        tokenizer=tokenizer or _no_tokens,
        model_name=names.get("model") or getattr(model, "name", None) or type(model).__name__,
        pretrained=names.get("pretrained"),
        precision=precision,
    )
    return about if any(True for _ in module.parameters()) else {**about, "weights": None}


def check_sizes(image_features: Tensor, texts: PromptEncoder) -> None:
    """Raise MismatchError where images and texts have another number of features."""
    size = texts.encode(["a photo"]).shape[1]
    if image_features.shape[1] != size:
        raise MismatchError(
            f"image features have {image_features.shape[1]} dimensions, the model's texts {size}: they are of "
            "different models; encode the images with this model"
        )


def _not_made_for_this(_: Any) -> Tensor:
    raise ModelError("this encoder was made for images alone, or for texts alone")


def _no_tokens(texts: Sequence[str]) -> Tensor:
    return torch.empty(0)
