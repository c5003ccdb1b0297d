"""Faster start: import open_clip without torch's compiler and timm, until they are used.

Two lines cost every process that imports open_clip a second or two, and a pipeline is twenty short processes:
`torchvision.ops.roi_align` imports a function from `torch._dynamo.utils`, which loads torch._dynamo, torch._inductor
and sympy; and `open_clip.model` imports the class `TimmModel`, whose module loads timm, which loads torch._dynamo, too.
Both are only used by rare models.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

DEFERRED = {"torch._dynamo.utils": "is_compile_supported", "open_clip.timm_model": "TimmModel"}
"""Modules, and the one name of each that can be imported without loading the module."""


@contextmanager
def deferring() -> Iterator[None]:
    """Inside, import the names of `DEFERRED` as objects that load the real one on use.

    Any other name of these modules loads the module at once. Modules already loaded are not touched, and outside of
    this context all are imported as usual.
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
    """Stands in for a module in `sys.modules` until it is loaded."""

    def __getattr__(self, name: str) -> Any:
        if name == DEFERRED[self.__name__]:
            return _Deferred(self.__name__, name)
        if name.startswith("__"):  # the import system looks these up
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(_load(self.__name__), name)


class _Deferred:
    """A function or class that is loaded when it is called, inspected or subclassed."""

    def __init__(self, module: str, name: str) -> None:
        self._source = module, name

    def _real(self) -> Any:
        module, name = self._source
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
