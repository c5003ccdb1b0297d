"""open_clip and torchvision, imported without torch's compiler, timm and transformers until they are used.

Four imports cost every process a second or more each, and a pipeline is twenty short processes.
`torchvision.ops.roi_align` imports a function from `torch._dynamo.utils`, which loads torch._dynamo, torch._inductor
and sympy; `open_clip.model` imports the classes `TimmModel` and `HFTextEncoder`, whose modules load timm and
transformers, if these are installed; and `open_clip.coca_model` imports from transformers what writes captions. All are
only called for rare models.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any

CAPTIONS = (
    "LogitsProcessorList",
    "TopPLogitsWarper",
    "TopKLogitsWarper",
    "RepetitionPenaltyLogitsProcessor",
    "MinLengthLogitsProcessor",
    "MaxLengthCriteria",
    "StopStringCriteria",
    "EosTokenCriteria",
    "StoppingCriteriaList",
    "BeamSearchScorer",
)
DEFERRED: dict[str, tuple[Collection[str], str]] = {
    "torch._dynamo.utils": (("is_compile_supported",), "torchvision.ops.roi_align"),
    "open_clip.timm_model": (("TimmModel",), "open_clip.model"),
    "open_clip.hf_model": (("HFTextEncoder",), "open_clip.model"),
    "transformers": (CAPTIONS, "open_clip.coca_model"),
}
"""Module: names of it that are imported without loading it, and the module that imports them."""


class _StandIn(ModuleType):
    """Stands in for a module in `sys.modules`; its names are functions that call the real ones, and are replaced."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system looks these up
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        deferred, user = DEFERRED[self.__name__]
        if name not in deferred:
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
    stand_ins = {}
    for name in DEFERRED:
        package, _, _ = name.partition(".")
        # Of a package that is not installed, its importer must see the error.
        if name not in sys.modules and find_spec(package) is not None:
            stand_ins[name] = _StandIn(name)
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
    from torchvision import transforms as transforms
