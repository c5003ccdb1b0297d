"""Models in memory, as users pass them: any object with `encode_text` or `encode_image`.

open_clip's models take the fast text path; for all others `encode_text` is called.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.api.arguments import Tokenizer
from wsoup.base.errors import ModelError, ParamsError, shown_value
from wsoup.runtime.memory import kept_memory
from wsoup.runtime.progress import showing
from wsoup.texts.models import checked_size
from wsoup.towers.encoder import AUTOCAST, Encoder, preprocessing_of
from wsoup.towers.identity import encoder_id, weights_digest
from wsoup.towers.kept import Kept, kept_with
from wsoup.towers.logit_scale import logit_scale_of

SMALLEST_SCALE = 1e-30
LARGEST_SCALE = 1e30
"""Bounds of `wsoup.base.arrays.Positive`, for a scale that a model brings."""


@contextmanager
def at_work(model: object, *, bars: bool) -> Iterator[None]:
    """Put the model in eval mode within, and show progress bars if `bars`; restored afterwards.

    Raises:
        ModelError: the model has no values.
    """
    module = as_module(model)
    _check_values(module)
    # Part by part: a model that is being trained may keep some of them, such as a frozen tower, in eval mode.
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with showing(bars=bars), kept_memory():
            yield
    finally:
        for part in training:
            part.training = True


def as_module(model: object) -> nn.Module:
    """The model, or the modules that an object of another type wraps; ModelError for its name or its file."""
    if isinstance(model, str | Path):
        raise ModelError(
            f"model is {shown_value(str(model))}; expected the model itself, as open_clip.create_model_and_transforms "
            "gives it"
        )
    if isinstance(model, nn.Module):
        return model
    attributes = getattr(model, "__dict__", {})
    return nn.ModuleDict({name: part for name, part in attributes.items() if isinstance(part, nn.Module)})


def _check_values(module: nn.Module) -> None:
    """Raise ModelError for a weight on torch's meta device, which holds no values."""
    for name, weight in module.named_parameters():
        if weight.is_meta:
            raise ModelError(
                f"model has no values: {name} is on the meta device; load its weights first, with "
                "model.load_state_dict(..., assign=True)"
            )


def device_of(model: object) -> torch.device:
    """Device of the model's weights; the CPU for a model without weights."""
    weight = next(as_module(model).parameters(), None)
    if weight is None:
        return torch.device("cpu")
    return weight.device


def in_memory(
    model: Any,
    *,
    tokenizer: Tokenizer | None = None,
    preprocess: Callable[[Image.Image], Tensor] | None = None,
    names: Mapping[str, str | None] | None = None,
    precision: str,
    kept: Kept | None = None,
) -> Encoder:
    """The encoder of a model in memory.

    Args:
        model: the model, on its device.
        tokenizer, preprocess: None if only images, or only texts, are encoded.
        names: `model` and `pretrained` as open_clip names them, so that others can load the encoder by its id
            (default: the model's `name`, or that of its class).
        precision: of the matrix products.
        kept: what is kept with the model, where the caller has it.

    Raises:
        ModelError: it does not encode texts.
        ParamsError: another key in `names`.
    """
    names = names or {}
    unknown = sorted({*names} - {"model", "pretrained"})
    if unknown:
        raise ParamsError(f"encoder has {unknown[0]!r}; expected model and pretrained, as open_clip names them")
    kept = kept or kept_with(model)
    module = as_module(model)
    device = device_of(model)
    if tokenizer is not None:
        checked_size(model, tokenizer, device=device, kept=kept)
    own_name = getattr(model, "name", None) or type(model).__name__
    identity = encoder_id(
        module,
        tokenizer=tokenizer or _not_given,
        model_name=names.get("model") or own_name,
        pretrained=names.get("pretrained"),
        precision=precision,
        weights=kept.once("digest of weights", partial(weights_digest, module)),
    )
    if next(module.parameters(), None) is None:
        # The digest of no weights is that of every model whose weights are elsewhere.
        identity = {**identity, "weights": None}
    return Encoder(
        model=model,
        tokenizer=tokenizer or _not_given,
        preprocess=preprocess or _not_given,
        id=identity,
        preprocessing=preprocessing_of(model),
        device=device,
        dtype=AUTOCAST[precision],
        kept=kept,
    )


def checked_logit_scale(model: object) -> float:
    """The factor that the model multiplies cosines by.

    Raises:
        ModelError: the model has no values.
        ParamsError: float32 cannot compute with it.
    """
    _check_values(as_module(model))
    scale = logit_scale_of(model)
    if not SMALLEST_SCALE < scale < LARGEST_SCALE:  # NaN is in no order
        raise ParamsError(
            f"the model's logit_scale is {scale:g} after exp(); expected a finite number above 0 and below "
            f"{LARGEST_SCALE:g}, such as CLIP's 100: repair model.logit_scale"
        )
    return scale


def _not_given(_: object) -> Tensor:
    return torch.empty(0)
