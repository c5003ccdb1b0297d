"""Checkpoints as trainers write them, for open_clip's own loader, which takes only bare weights.

A trainer keeps weights under a key beside its optimizer; DistributedDataParallel and torch.compile put prefixes before
their names; and a model that was trained with SigLIP's loss has a bias of the logits, which changes no feature.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from wsoup.base.errors import ModelError
from wsoup.towers.library import open_clip

KEYS = ("state_dict", "model_state_dict", "model", "module", "net", "weights")
"""Where trainers keep the weights of the model, the likeliest first."""
PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
COMPILED = "_orig_mod."
"""What torch.compile puts before the names of a part that was compiled alone."""
MISSING = re.compile(r"Missing key\(s\) in state_dict: (.*?)\. (?:Unexpected|size|$)", re.DOTALL)
UNEXPECTED = re.compile(r"Unexpected key\(s\) in state_dict: (.*?)\.\s*(?:size|$)", re.DOTALL)


@contextlib.contextmanager
def bare_weights(*, origin: str) -> Iterator[None]:
    """Within, open_clip loads such checkpoints, too, and weights of another model are one line that names `origin`."""
    factory: Any = open_clip.factory
    convert = factory.convert_state_dict

    def convert_bare(model: nn.Module, state: object) -> object:
        weights = bare(state, model=model, origin=origin)
        _check_prefix(weights, model=model, origin=origin)
        return convert(model, weights)

    factory.convert_state_dict = convert_bare
    try:
        yield
    except RuntimeError as error:
        problem = _misfit(str(error), origin=origin)
        if problem is None:
            raise
        raise problem from None
    finally:
        factory.convert_state_dict = convert


def bare(state: object, *, model: nn.Module, origin: str) -> object:
    """The weights in what a file holds, by the model's own names; what is not understood stays as it is.

    Raises:
        ModelError: weights under several keys, none of which is usual.
    """
    weights = _unwrapped(state, origin=origin)
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
        return state
    weights = {name.replace(COMPILED, ""): tensor for name, tensor in weights.items()}
    prefix = _common_prefix(weights)
    while prefix:
        weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
        prefix = _common_prefix(weights)
    if getattr(model, "logit_bias", None) is None:
        weights.pop("logit_bias", None)
    return weights


def _unwrapped(state: object, *, origin: str) -> object:
    """The innermost mapping of names to tensors."""
    while isinstance(state, Mapping) and not _has_tensors(state):
        inner = [key for key, value in state.items() if isinstance(value, Mapping) and value]
        # open_clip has cut seven letters from the keys of what begins with ``module``.
        usual = [key for key in (*KEYS, "") if key in inner]
        holding = [key for key in inner if _has_tensors(state[key])]
        if usual:
            state = state[usual[0]]
        elif len(holding) == 1:
            state = state[holding[0]]
        elif holding:
            raise ModelError(
                f"encoder.pretrained: {origin} holds weights under {', '.join(map(repr, holding))}; save those of the "
                "CLIP model alone: torch.save(model.state_dict(), FILE)"
            )
        else:
            return state
    return state


def _has_tensors(state: Mapping[Any, object]) -> bool:
    return any(isinstance(value, Tensor) for value in state.values())


def _check_prefix(weights: object, *, model: nn.Module, origin: str) -> None:
    """Refuse weights that lie below another prefix than the usual ones, such as ``clip.``, with that prefix."""
    own = [*model.state_dict()]
    if not isinstance(weights, Mapping) or own[0] in weights:
        return
    for name in weights:
        prefix = name.removesuffix(own[0])
        if prefix != name and all(prefix + each in weights for each in own):
            raise ModelError(
                f"encoder.pretrained: in {origin} the names of the model's tensors begin with {prefix!r}; save these "
                f"alone and without it: {{name.removeprefix({prefix!r}): tensor for name, tensor in state.items() if "
                f"name.startswith({prefix!r})}}"
            )


def _common_prefix(weights: Mapping[str, object]) -> str:
    """The prefix that all names have; "" if there is none."""
    for prefix in PREFIXES:
        if weights and all(name.startswith(prefix) for name in weights):
            return prefix
    return ""


def _misfit(text: str, *, origin: str) -> ModelError | None:
    """torch's page of names and shapes in one line; None if the error is about anything else."""
    if "Error(s) in loading state_dict" not in text:
        return None
    parts = []
    for what, pattern in (("lacks", MISSING), ("has", UNEXPECTED)):
        listed = pattern.search(text)
        names = re.findall(r'"([^"]+)"', listed[1]) if listed else []
        if names:
            kind = "of the model's tensors" if what == "lacks" else "others"
            parts.append(f"{what} {len(names):,} {kind}, such as {names[0]!r}")
    mismatch = re.search(
        r"size mismatch for (\S+): copying a param with shape torch\.Size\((.*?)\).*?Size\((.*?)\)", text
    )
    if mismatch:
        parts.append(f"has {mismatch[1]} with shape {mismatch[2]}, where the model has {mismatch[3]}")
    if not parts:
        return None
    return ModelError(
        f"encoder.pretrained: {origin} does not fit the model: it {' and '.join(parts)}; name the model, or the "
        "config, that these weights belong to"
    )
