"""What the benches share: a model with random weights, the plain way, the clock, and how a result is shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Group
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.core.errors import ParamsError
from wsoup.runtime.peak import peak_bytes
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tokens import Tokenizer
from wsoup.towers import encoder as towers

Result = dict[str, Any]


class Clock:
    """Wall-clock laps that wait for the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.lap()

    def lap(self) -> float:
        """Seconds since the lap before."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self._last, seconds = now, now - getattr(self, "_last", now)
        return seconds


def setup(
    name: str, *, classes: int, device: torch.device, dtype: torch.dtype | None
) -> tuple[nn.Module, PromptEncoder, list[str]]:
    names = towers.imagenet_class_names()
    if not 1 <= classes <= len(names):
        raise ParamsError(f"bench: classes must be from 1 to {len(names)}, got {classes}")
    model, tokenizer = towers.random_model(name, seed=0)
    model = model.to(device)
    spread = [names[i * len(names) // classes] for i in range(classes)]
    prefixes = [f"a photo of a {class_name}," for class_name in spread]
    return model, warm_encoder(model, tokenizer, prefixes=prefixes, device=device, dtype=dtype), prefixes


def warm_encoder(
    model: nn.Module, tokenizer: Tokenizer, *, prefixes: list[str], device: torch.device, dtype: torch.dtype | None
) -> PromptEncoder:
    """An encoder that has done what it does once: the prefixes' own states, and the check against encode_text."""
    encoder = PromptEncoder(model, tokenizer, device=device, dtype=dtype)
    encoder.encode_grid(prefixes, [""])
    encode_plainly(model, encoder, prefixes[:2])
    return encoder


@torch.no_grad()
def encode_plainly(model: nn.Module, encoder: PromptEncoder, texts: Sequence[str], *, batch_size: int = 64) -> Tensor:
    """`encode_text` at the full context, as everybody does it."""
    parts = []
    with torch.autocast(encoder.device.type, encoder.dtype or torch.bfloat16, enabled=encoder.dtype is not None):
        for start in range(0, len(texts), batch_size):
            tokens = encoder.tokenizer(list(texts[start : start + batch_size])).to(encoder.device)
            parts.append(F.normalize(model.encode_text(tokens).float(), dim=-1))  # type: ignore[operator]
    return torch.cat(parts)


def page_faults() -> int:
    """Pages that the system has cleared or mapped for this process so far; 0 on Windows, which does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def cosine_distance(a: Tensor, b: Tensor) -> float:
    return float((1 - F.cosine_similarity(a.double(), b.double(), dim=-1)).abs().max())


def about(name: str, *, classes: int, device: torch.device, encoder: PromptEncoder | None) -> Result:
    on_gpu = device.type == "cuda"
    return {
        "model": name,
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{device.type}, {torch.get_num_threads()} threads",
        **({"classes": classes, "fast": encoder.fast, "texts": encoder.way} if encoder is not None else {}),
        "peak_memory": torch.cuda.max_memory_allocated(device) if on_gpu else peak_bytes(),
    }


def table(result: Result) -> Group:
    """A result to print: what was run, and one column for each of its rows."""
    about = ", ".join(
        f"{key.replace('_', ' ')} {shown(key, value)}" for key, value in result.items() if key not in ("bench", "rows")
    )
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("")
    for row in result["rows"]:
        drawn.add_column(str(row.get("pool", "")), justify="right")
    for key in result["rows"][0]:
        if key != "pool":
            drawn.add_row(key.replace("_", " "), *(shown(key, row[key]) for row in result["rows"]))
    return Group(f"{result['bench']}: {about}", drawn)


def shown(key: str, value: Any) -> str:
    """A value with its unit, by its key."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    if key.endswith("flops_per_s"):
        return f"{value / 1e9:,.0f} GFLOP/s"
    if key.endswith("memory"):
        return f"{value / 2**30:.2f} GiB"
    if key in ("ours", "plain", "score_s_per_candidate"):
        return f"{1000 * value:.3g} ms"
    if key.endswith("_s") and "per" not in key:
        return f"{value:,.0f} s" if value < 7200 else f"{value / 3600:,.1f} h"
    if key.startswith("ratio"):
        return f"{value:.1f} x"
    if key == "efficiency":
        return f"{100 * value:.0f} %"
    if key == "cosine_distance":
        return f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
