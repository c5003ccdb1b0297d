"""open_clip, imported without torch's compiler and timm until they are used.

Two lines cost every process a second or two, and a pipeline is twenty short processes: `torchvision.ops.roi_align`
imports a function from `torch._dynamo.utils`, which loads torch._dynamo, torch._inductor and sympy; and
`open_clip.model` imports the class `TimmModel`, whose module loads timm, which loads torch._dynamo, too. Both are only
called for rare models.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

DEFERRED = {
    "torch._dynamo.utils": ("is_compile_supported", "torchvision.ops.roi_align"),
    "open_clip.timm_model": ("TimmModel", "open_clip.model"),
}
"""Module: the one name of it that is imported without loading it, and the module that imports the name."""


class _StandIn(ModuleType):
    """Stands in for a module in `sys.modules`; its one name is a function that calls the real one, and replaces it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system looks these up
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        deferred, user = DEFERRED[self.__name__]
        if name != deferred:
            return _loaded(self.__name__, name)

        def call(*args: object, **options: object) -> object:
            real = _loaded(self.__name__, name)
            setattr(sys.modules[user], name, real)
            return real(*args, **options)

        return call


def _loaded(module: str, name: str) -> Any:
    if isinstance(sys.modules.get(module), _StandIn):
        del sys.modules[module]
    return getattr(importlib.import_module(module), name)


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Inside, import the names of `DEFERRED` without their modules; any other name loads its module at once.

    Modules already loaded are not touched, and outside of this context all are imported as usual.
    """
    stand_ins = {name: _StandIn(name) for name in DEFERRED if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


with deferring():
    import open_clip as open_clip
    from open_clip.transform import MaybeConvertMode as MaybeConvertMode
    from open_clip.transformer import VisionTransformer as VisionTransformer
