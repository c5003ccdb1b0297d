"""`wsoup plan`: which stages would run, and about how long each takes, here or on a named device.

DVC says what would run, `wsoup.pipeline.needs` how much work that is. Hours are right to a factor of two: a search that
accepts much takes longer than others.
"""

import math
import os
import shutil
from timeit import Timer
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.base.errors import ParamsError
from wsoup.params.graph import PARAMS
from wsoup.pipeline.needs import Need, Needs
from wsoup.pipeline.params import load_params
from wsoup.pipeline.status import reasons

REACHED = 0.7
"""Share of the measured rate of products that towers reach, measured on CPUs."""
DEVICES = {
    "h200": (67, 989),
    "h100": (67, 989),
    "a100": (19.5, 312),
    "l40s": (91.6, 362),
    "l4": (30.3, 121),
    "t4": (8.1, 65),
}
"""Dense TFLOP/s in fp32 (without tensor cores) and in half precision, by the makers' data sheets."""
REACHED_OF_SHEET = (0.56, 0.14)
"""Share of these that towers reach: measured on one H100."""
CORES_PER_DEVICE = 16
"""Cores beside a named device; they decode images."""
DECODED_BYTES_PER_S = 25e6
"""Bytes of image files that one core decodes and resizes in a second."""
START = 5 / 3600
"""Hours that a stage takes to start, whatever it does."""


class Planned(NamedTuple):
    """One stage: why it would run (None: it is cached), what it needs, and hours."""

    why: str | None
    need: Need
    hours: float


def plan(*, device: str | None = None) -> tuple[dict[str, Planned], list[str]]:
    """Estimate a run of the params.yaml here, without weights: its stages in their order, and notes.

    Args:
        device: one of `DEVICES` that it would run on, with 16 cores; None: this machine.

    Raises:
        ParamsError: params.yaml or the device is not valid.
        MissingError, MismatchError: there is no dvc.yaml, or DVC cannot read it.
    """
    if device is not None and device not in DEVICES:
        raise ParamsError(f"--device {device}: expected one of {', '.join(DEVICES)}")
    needs = Needs(load_params(PARAMS))
    if device is None:
        rate = flops_per_second()
        cores = os.cpu_count() or 1
    else:
        half_precision = needs.params.encoder.precision in ("bf16", "fp16")
        rate = sheet_rate(device, half_precision=half_precision)
        cores = CORES_PER_DEVICE
    stages = {}
    for stage, reason in reasons().items():
        need = needs.of(stage)
        stages[stage] = Planned(reason, need, hours(need, rate=rate, cores=cores))
    notes = [f"{what}: {problem}" for what, problem in needs.unknown.items()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return stages, notes + too_large(stages, memory=memory)


def hours(need: Need, *, rate: float, cores: int) -> float:
    """Hours for a stage at so many FLOP a second, and with so many cores for decoding."""
    computing = need.flops / rate
    decoding = need.image_bytes / DECODED_BYTES_PER_S / cores
    return START + (computing + decoding) / 3600


def sheet_rate(device: str, *, half_precision: bool) -> float:
    """FLOP a second that towers reach on a named device, by its maker's data sheet."""
    fp32, half = DEVICES[device]
    reached_of_fp32, reached_of_half = REACHED_OF_SHEET
    if half_precision:
        return half * reached_of_half * 1e12
    return fp32 * reached_of_fp32 * 1e12


def flops_per_second() -> float:
    """This machine's rate, by a product measured for a moment."""
    inner = 512
    outer = 2048
    if shutil.which("nvidia-smi"):
        import torch  # takes two seconds

        rows = 65536
        x = torch.ones(rows, inner, device="cuda")
        y = torch.ones(inner, outer, device="cuda")
        # Reading one element waits for the product.
        timer = Timer(lambda: (x @ y)[-1, -1].item())
    else:
        rows = 1024
        a = np.ones((rows, inner), np.float32)
        b = np.ones((inner, outer), np.float32)
        timer = Timer(lambda: a @ b)
    times, seconds = timer.autorange()
    # A product and a sum for each.
    flops = 2.0 * math.prod((rows, inner, outer))
    return REACHED * flops * times / seconds


def too_large(stages: dict[str, Planned], *, memory: float) -> list[str]:
    """A sentence for each stage that would run and whose arrays do not fit into so many bytes."""
    sentences = []
    for stage, planned in stages.items():
        needed = planned.need.memory
        if planned.why and needed > memory:
            sentences.append(
                f"too large: {stage} needs {needed / 2**30:,.0f} GiB of memory, this machine has "
                f"{memory / 2**30:,.0f}: use fewer images in one dataset, or a smaller pool"
            )
    return sentences


def duration(of_hours: float) -> str:
    """Hours, or minutes where hours would read as nothing.

    >>> duration(2.5), duration(0.5), duration(0.001)
    ('2.5 h', '30 min', '0.1 min')
    """
    minutes = 60 * of_hours
    if minutes >= 60:
        return f"{of_hours:,.1f} h"
    if minutes >= 1:
        return f"{minutes:.0f} min"
    return f"{minutes:.1f} min"


def show(stages: dict[str, Planned], notes: list[str], *, console: Console) -> None:
    """Print a line for each stage that runs and the sum of times, then what is cached, and notes."""
    table = Table(box=None, pad_edge=False)
    # Folded, since a name that is cut off cannot be copied into `dvc repro`.
    for column in ("stage", "why"):
        table.add_column(column, overflow="fold")
    for column in ("texts x classes", "images", "time"):
        table.add_column(column, overflow="fold", justify="right")
    cached = []
    total = 0.0
    for stage, planned in stages.items():
        if not planned.why:
            cached.append(stage)
            continue
        need = planned.need
        total += planned.hours
        texts = ""
        if need.texts and need.classes:
            texts = f"{need.texts:,} x {need.classes:,}"
        table.add_row(escape(stage), escape(planned.why), texts, f"{need.images:,}", duration(planned.hours))
    table.add_row("all", "", "", "", duration(total), style="bold")
    console.print(table, highlight=False)
    for text in (f"cached: {', '.join(cached) or 'nothing'}", *notes):
        console.print(text, highlight=False, markup=False)
