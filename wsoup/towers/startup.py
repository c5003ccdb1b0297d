"""A lighter start: open_clip without torch's compiler and without timm, until one of them is asked for.

Two lines cost each process that imports open_clip a second or two, and a pipeline is twenty short processes:
`torchvision.ops.roi_align` takes one function from `torch._dynamo.utils`, which imports all of torch._dynamo,
torch._inductor and sympy; and `open_clip.model` takes the class `TimmModel`, whose module imports all of timm, which
imports torch._dynamo as well. Function and class are only called, and only by models that are rare here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

DEFERRED = {"torch._dynamo.utils": "is_compile_supported", "open_clip.timm_model": "TimmModel"}
"""Modules, and the one name of each that may be taken from it without loading it."""


@contextmanager
def deferring() -> Iterator[None]:
    """Within, a name of `DEFERRED` is imported as an object that loads the real one when it is used.

    Nothing else changes: any other name of these modules loads the module at once, afterwards they are imported as
    ever, and one that is loaded already is left alone.
    """
    stand_ins = {name: _StandIn(name) for name in DEFERRED if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


class _StandIn(ModuleType):
    """Is found in `sys.modules` in place of a module that is not loaded."""

    def __getattr__(self, name: str) -> Any:
        if name == DEFERRED[self.__name__]:
            return _Deferred(self.__name__, name)
        if name.startswith("__"):  # what the import system asks of a module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(_load(self.__name__), name)


class _Deferred:
    """A function or class that is loaded when it is called, read, tested against or derived from."""

    def __init__(self, module: str, name: str) -> None:
        self._found = module, name

    def _real(self) -> Any:
        module, name = self._found
        return getattr(_load(module), name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._real()(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._real())

    def __subclasscheck__(self, other: type) -> bool:
        return issubclass(other, self._real())

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (self._real(),)


def _load(name: str) -> ModuleType:
    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    return importlib.import_module(name)
