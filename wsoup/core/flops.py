"""Count the FLOPs of matrix products and convolutions as torch does."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class FlopCounter(TorchDispatchMode):
    """Counts as torch's `FlopCounterMode`, without importing torch's compiler, which takes two seconds."""

    flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it means importing it

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = flop_registry.get(func.overloadpacket)
        if count is None:
            with self:
                parts = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if parts is NotImplemented else parts
        result = func(*args, **kwargs)
        self.flops += count(*args, **kwargs, out_val=result)
        return result
