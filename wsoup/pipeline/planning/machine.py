"""What a run would run on: this machine, measured for a moment, or devices by their makers' data sheets."""

import math
import os
import shutil
from timeit import Timer
from typing import NamedTuple

import numpy as np

from wsoup.runtime.threads import cores

REACHED = 0.7
"""Share of the measured rate of products that towers reach, measured on CPUs."""


class Device(NamedTuple):
    """Dense TFLOP/s in fp32 (without tensor cores) and in half precision, and GiB, by the maker's data sheet."""

    fp32: float
    half: float
    memory: float


DEVICES = {
    "h200": Device(67, 989, 131),
    "h100": Device(67, 989, 74.5),
    "a100": Device(19.5, 312, 74.5),
    "l40s": Device(91.6, 362, 44.7),
    "l4": Device(30.3, 121, 22.4),
    "t4": Device(8.1, 65, 14.9),
}
"""Those with 80 GB where there are others, too."""
REACHED_OF_SHEET = (0.56, 0.14)
"""Share of these that towers reach: measured on one H100."""
CORES_PER_DEVICE = 16
"""Cores beside a named device; they decode images."""


class Machine(NamedTuple):
    """What a run would have: FLOP a second of a device, cores beside each, how many, and what they are called.

    Attributes:
        memory: bytes of a device, or of the machine where that has none.
        is_separate: whether a device has memory of its own.
    """

    rate: float
    cores: int
    devices: int
    name: str
    memory: float
    is_separate: bool


def machine_of(device: str | None, *, devices: int = 1, half_precision: bool = False) -> Machine:
    """Some devices of a name, each with 16 cores, or what this machine has."""
    if device is not None:
        rate = sheet_rate(device, half_precision=half_precision)
        memory = DEVICES[device].memory * 2**30
        return Machine(rate, CORES_PER_DEVICE, devices, f"one {device}", memory, is_separate=True)
    rate, own_memory = measured()
    if own_memory is not None:
        return Machine(rate, cores(), devices, "its GPU", own_memory, is_separate=True)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(rate, cores(), devices, "this machine", memory, is_separate=False)


def sheet_rate(device: str, *, half_precision: bool) -> float:
    """FLOP a second that towers reach on a named device, by its maker's data sheet."""
    fp32, half, _ = DEVICES[device]
    reached_of_fp32, reached_of_half = REACHED_OF_SHEET
    if half_precision:
        return half * reached_of_half * 1e12
    return fp32 * reached_of_fp32 * 1e12


def measured() -> tuple[float, float | None]:
    """This machine's rate, by a product measured for a moment, and the bytes of its GPU, if it has one."""
    inner = 512
    outer = 2048
    memory = None
    if shutil.which("nvidia-smi"):
        import torch  # takes two seconds

        rows = 65536
        x = torch.ones(rows, inner, device="cuda")
        y = torch.ones(inner, outer, device="cuda")
        # Reading one element waits for the product.
        timer = Timer(lambda: (x @ y)[-1, -1].item())
        _, memory = torch.cuda.mem_get_info()
    else:
        rows = 1024
        a = np.ones((rows, inner), np.float32)
        b = np.ones((inner, outer), np.float32)
        timer = Timer(lambda: a @ b)
    times, seconds = timer.autorange()
    # A product and a sum for each.
    flops = 2.0 * math.prod((rows, inner, outer))
    return REACHED * flops * times / seconds, memory
