"""What is made of a model in memory, kept with it: packed weights and digests, until its weights change.

A notebook passes the same model to many calls. A change is noticed by what torch counts (versions, places and
identities of tensors), by the modules with their settings and hooks, and, since writing through ``.data`` or NumPy
counts nowhere, by some values of every tensor: at least one in each row. Single values written that way are not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made")
MODELS = 2
"""Models whose things are kept at a time: packed weights take as much memory as the weights."""


class Same:
    """A thing in a name of `Kept.once`: the very same one, whatever it is equal to."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __hash__(self) -> int:
        return id(self._thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._thing is other._thing


class Kept:
    """Things made of one model in one state.

    None of them may hold a user's model itself, which would then never be freed.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gave for this name the first time."""
        if name not in self._made:
            self._made[name] = make()
        made: Made = self._made[name]
        return made


_kept: dict[int, tuple[weakref.ref[nn.Module], _State, Kept]] = {}


def kept_with(model: object) -> Kept:
    """What was made of this model since its last change; empty for one whose weights cannot be looked at."""
    if not isinstance(model, nn.Module) or next(model.parameters(), None) is None:
        return Kept()
    if any(tensor.layout != torch.strided or tensor.is_quantized for tensor in _tensors(model)):
        return Kept()
    state = _State(model)
    key = id(model)
    if key in _kept:
        known, before, things = _kept.pop(key)
        if known() is model and before.equals(state):
            _kept[key] = known, before, things  # now the last to go
            return things
    things = Kept()
    _kept[key] = weakref.ref(model, lambda _: _kept.pop(key, None)), state, things
    for oldest in list(_kept)[:-MODELS]:
        del _kept[oldest]
    return things


class _State:
    """What decides a model's features, as far as it can be told without reading all weights."""

    def __init__(self, model: nn.Module) -> None:
        self.facts: list[object] = []
        samples: list[Tensor] = []
        for name, module in model.named_modules():
            self.facts.append((name, id(module), type(module)))
            for key, value in vars(module).items():
                if isinstance(value, Tensor) and value.layout == torch.strided:
                    samples.append(self._noted(value))
                elif key != "training" and not key.startswith("_"):
                    self.facts.append((key, _comparable(value)))
            self.facts.append([*module._forward_hooks, "before", *module._forward_pre_hooks])
        for tensor in _tensors(model):
            samples.append(self._noted(tensor))
        self.samples = samples

    def equals(self, other: _State) -> bool:
        """Whether nothing changed from one state to the other."""
        if self.facts != other.facts:
            return False
        pairs = zip(self.samples, other.samples, strict=True)
        return all(torch.equal(before, now) for before, now in pairs)

    def _noted(self, tensor: Tensor) -> Tensor:
        """Note where a tensor is and its version; some of its values, as bytes (n,)."""
        version = None if tensor.is_inference() else tensor._version
        self.facts.append((id(tensor), tensor.data_ptr(), version, tensor.dtype, tensor.shape, tensor.device))
        if tensor.is_meta:
            return torch.empty(0)
        flat = tensor.detach().flatten()
        step = 1
        if tensor.dim() > 1:
            # One less than a row: a value of every row, and the next row's is of another column.
            step = max(1, tensor.shape[-1] - 1)
        return flat[::step].clone().view(torch.uint8)


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _comparable(value: object) -> object:
    """A plain value as text, any other by its identity."""
    if value is None or isinstance(value, bool | int | float | str | tuple | list):
        return repr(value)
    return id(value)
