"""What benchmarks share: a model with random weights, class prompts, the clock, and how a result is shown."""

from __future__ import annotations

import json
import resource
import time
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import torch
from rich.console import Group
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from wsoup.cli.output import Terminal
from wsoup.core.errors import ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import parse
from wsoup.runtime.process import peak_bytes
from wsoup.towers import encoder as towers

Result = dict[str, Any]
UNITS = {
    "*flops_per_s": (1e-9, "{:,.0f} GFLOP/s"),
    "*memory": (2**-30, "{:.2f} GiB"),
    "ours": (1e3, "{:.3g} ms"),
    "plain": (1e3, "{:.3g} ms"),
    "score_s_per_candidate": (1e3, "{:.3g} ms"),
    "*_per_s": (1, "{:,.0f}"),
    "*_s": (1, "{:,.1f} s"),
    "ratio*": (1, "{:.1f} x"),
    "efficiency": (100, "{:.0f} %"),
    "*difference": (1, "{:.1e}"),
    "cosine_distance": (1, "{:.1e}"),
}
"""Keys of a result -> the factor and the unit that their values are shown with."""


def random_encoder(name: str, *, device: torch.device, precision: str = "fp32") -> towers.Encoder:
    """An open_clip model with seeded random weights, and its own preprocessing.

    Raises:
        ParamsError, ModelError: no such precision or model.
    """
    params = parse(EncoderParams, {"model": name, "precision": precision, "watch": "-"}, origin="bench")
    model, _ = towers.random_model(name, seed=0)
    return replace(towers.weightless_encoder(params), model=model.to(device), device=device)


def class_prompts(count: int) -> list[str]:
    """Prompts, ready for a descriptor, of classes spread over ImageNet's 1,000."""
    names = towers.imagenet_class_names()
    if not 1 <= count <= len(names):
        raise ParamsError(f"bench: classes must be from 1 to {len(names)}, got {count}")
    return [f"a photo of a {names[i * len(names) // count]}," for i in range(count)]


class Clock:
    """Wall-clock laps that wait for the device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._last = device, 0.0
        self.lap()

    def lap(self) -> float:
        """Seconds since the lap before."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self._last, seconds = now, now - self._last
        return seconds


def page_faults() -> int:
    """Pages that the system has cleared or mapped for this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def cosine_distance(a: Tensor, b: Tensor) -> float:
    """The largest, of rows of `a` and `b`."""
    return float((1 - F.cosine_similarity(a.double(), b.double(), dim=-1)).abs().max())


def about(encoder: towers.Encoder) -> Result:
    """What was measured, and where."""
    device = encoder.device
    on_gpu = device.type == "cuda"
    return {
        "model": encoder.id["model"],
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{device.type}, {torch.get_num_threads()} threads",
        "peak_memory": torch.cuda.max_memory_allocated(device) if on_gpu else peak_bytes(),
    }


def show(result: Result, *, as_json: bool) -> None:
    """Print a result."""
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        Terminal().print(table(result), highlight=False)


def table(result: Result) -> Group:
    """What was measured, and one column for each row."""
    facts = {key: value for key, value in result.items() if key not in ("bench", "rows")}
    head = ", ".join(f"{key.replace('_', ' ')} {shown(key, value)}" for key, value in facts.items())
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("")
    for row in result["rows"]:
        drawn.add_column(row.get("pool") or row.get("case", ""), justify="right")
    for key in result["rows"][0]:
        if key not in ("pool", "case"):
            drawn.add_row(key.replace("_", " "), *(shown(key, row[key]) for row in result["rows"]))
    return Group(f"{result['bench']}: {head}", drawn)


def shown(key: str, value: Any) -> str:
    """A value with its unit, by its key."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if key.endswith("_s") and value >= 7200 and not key.endswith("per_s"):
        return f"{value / 3600:,.1f} h"
    factor, form = next((unit for keys, unit in UNITS.items() if fnmatch(key, keys)), (1, "{:,}"))
    return form.format(factor * value)
