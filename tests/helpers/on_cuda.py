"""For tests on a CUDA device: their marker, TF32 on or off, and little memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

ON_CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@contextmanager
def tf32(*, products: bool, convolutions: bool) -> Iterator[None]:
    """Run float32 products and convolutions in TF32, or not."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if products else "highest")
    torch.backends.cudnn.allow_tf32 = convolutions
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@contextmanager
def little_memory(*, more: int) -> Iterator[None]:
    """Limit the device's memory to `more` bytes beyond those in use."""
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + more) / whole)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
