"""`wsoup plan`: which stages would run, and about how long each takes, here or on a named device.

DVC says what would run, `wsoup.pipeline.planning.needs` how much work that is. Hours are right to a factor of two: a
search that accepts much takes longer than others.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.base.errors import ParamsError
from wsoup.params.graph import PARAMS
from wsoup.pipeline.params import load_params
from wsoup.pipeline.planning.machine import DEVICES, Machine, machine_of
from wsoup.pipeline.planning.need import Need
from wsoup.pipeline.planning.needs import Needs
from wsoup.pipeline.status import BEHIND, reasons

DECODED_BYTES_PER_S = 25e6
"""Bytes of image files that one core decodes and resizes in a second."""
MOST_DECODING = 16
"""As in `wsoup.images.workers`: processes that decode for one device."""
START = 5 / 3600
"""Hours that a stage takes to start, whatever it does."""


class Planned(NamedTuple):
    """One stage: why it would run (None: it is cached), what it needs, and hours."""

    why: str | None
    need: Need
    hours: float


def plan(*, device: str | None = None, devices: int = 1) -> tuple[dict[str, Planned], list[str]]:
    """Estimate a run of the params.yaml here, without weights: its stages in their order, and notes.

    Args:
        device: one of `DEVICES` that it would run on, with 16 cores; None: this machine.
        devices: how many of them, which share each stage's shards, as on Ray.

    Raises:
        ParamsError: params.yaml or the device is not valid.
        MissingError, MismatchError: there is no dvc.yaml, or DVC cannot read it.
    """
    if device is not None and device not in DEVICES:
        raise ParamsError(f"--device {device}: expected one of {', '.join(DEVICES)}")
    needs = Needs(load_params(PARAMS))
    half_precision = needs.params.encoder.precision not in ("fp32", "reference")
    machine = machine_of(device, devices=devices, half_precision=half_precision)
    stages = {}
    for stage, reason in reasons().items():
        need = needs.of(stage)
        stages[stage] = Planned(reason, need, hours(need, machine))
    notes = [f"{what}: {problem}" for what, problem in needs.unknown.items()]
    if any(name.startswith("not counted") for name in needs.unknown):
        notes.append("so the whole takes longer than this sum; `dvc repro prepare` first counts the images")
    return stages, notes + too_large(stages, machine=machine)


def hours(need: Need, machine: Machine) -> float:
    """Hours for a stage, whose shards the devices share; what follows its shards is done by one."""
    rounds = math.ceil(need.shards / machine.devices)
    return START + _shared(need, machine) * rounds / max(1, need.shards) + need.alone / machine.rate / 3600


def _shared(need: Need, machine: Machine) -> float:
    """Hours for all shards of a stage on one device, with as many cores for decoding as it has."""
    computing = (need.flops - need.alone) / machine.rate
    decoding = need.image_bytes / DECODED_BYTES_PER_S / min(machine.cores, MOST_DECODING)
    # A device computes while the cores decode.
    both = max(computing, decoding) if machine.is_separate else computing + decoding
    return both / 3600


def too_large(stages: Mapping[str, Planned], *, machine: Machine) -> list[str]:
    """A sentence for each stage that would run and whose arrays do not fit into the device that it would run on."""
    sentences = []
    for stage, planned in stages.items():
        needed = planned.need.device_memory
        if not machine.is_separate:
            needed += planned.need.memory
        if planned.why and needed > machine.memory:
            sentences.append(
                f"too large: {stage} needs {needed / 2**30:,.0f} GiB of memory, {machine.name} has "
                f"{machine.memory / 2**30:,.0f}: {_smaller(stage)}"
            )
    return sentences


def _smaller(stage: str) -> str:
    """What makes a stage take less memory."""
    kind, _, _ = stage.partition("@")
    if kind == "finetune":
        return "it would compute activations twice, which takes longer; or a smaller finetune.batch_size"
    return "use fewer images in one dataset, or a smaller pool"


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
    least = 0.0
    for stage, planned in stages.items():
        if not planned.why:
            cached.append(stage)
            continue
        need = planned.need
        total += planned.hours
        if not planned.why.startswith(BEHIND):
            least += planned.hours
        texts = ""
        if need.texts and need.classes:
            texts = f"{need.texts:,} x {need.classes:,}"
        table.add_row(escape(stage), escape(planned.why), texts, f"{need.images:,}", duration(planned.hours))
    table.add_row("all", "", "", "", duration(total), style="bold")
    console.print(table, highlight=False)
    if least < total:
        notes = [f"at least {duration(least)}: DVC skips what is behind a stage whose outs come out the same", *notes]
    for text in (f"cached: {', '.join(cached) or 'nothing'}", *notes):
        console.print(text, highlight=False, markup=False)
