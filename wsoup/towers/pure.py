"""Models whose weights are in half precision, as open_clip's `pure_bf16` and `pure_fp16`.

All that a tower adds up between its blocks is in half precision, too. Norms take and give numbers of that type, and
compute in float32 inside; features are normalised in float32.
"""

import sys

import torch
from torch import nn

from wsoup.base.processor import has_fast_bf16

PURE = {"pure_bf16": torch.bfloat16, "pure_fp16": torch.float16}


def make_pure(model: nn.Module, *, precision: str, device: torch.device) -> None:
    """Convert a model in place to the weights of a precision; a line says where that makes it slower."""
    dtype = PURE[precision]
    is_fast = dtype == torch.bfloat16 and has_fast_bf16()
    if device.type == "cpu" and not is_fast:
        print(
            f"encoder.precision: {precision} is slower than fp32 on this processor, which has no such products; "
            "fp32 is best here",
            file=sys.stderr,
        )
    convert(model, to=dtype)


def convert(model: nn.Module, *, to: torch.dtype) -> None:
    """Convert a model in place, as open_clip does, but for the factor and the bias of its logits, which no tower reads.

    In bfloat16 the logarithm of 100 would stand for 98.9.
    """
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and not name.endswith(("logit_scale", "logit_bias")):
            tensor.data = tensor.data.to(to)
