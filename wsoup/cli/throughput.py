"""Throughput of text and image encoding on this machine, compared with plain open_clip; weights are random.

Both ways are timed in turn, and ratios are medians over several rounds, so that other work on the machine affects both
alike. docs/exact_texts.md and docs/performance.md have figures.
"""

import json
import resource
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from rich.console import Group
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import ParamsError
from wsoup.cli.common import Terminal
from wsoup.core.flops import FlopCounter
from wsoup.core.scoring import ImageSet
from wsoup.images.decode import batches, load_rgb
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse
from wsoup.pipeline.machine import drawn_images, product_rate
from wsoup.runtime.process import peak_bytes
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, imagenet_class_names, random_model, weightless_encoder

WORD_POOL, SEEDS, SHOTS = 9894, 3, 16
"""The paper's ranking of words: pool size, seeds, and images per class and seed."""
PLAIN_BATCH = 64
"""Texts in one forward pass of `encode_text`."""
FILES = 256
"""Image files at most; further images are the same files again."""
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
"""Patterns of a result's keys -> factor and format of their values."""

Result = dict[str, Any]


def bench_text(
    name: str,
    *,
    pools: Mapping[str, Sequence[str]],
    classes: int,
    device: torch.device,
    precisions: Sequence[str] = ("fp32",),
    rounds: int = 3,
    block: int | None = None,
) -> Result:
    """Time the text features of candidates with every class, compared with `encode_text` at the full context.

    A round times a sample of the prompts with `encode_text`, matrix products of a usual size, whose speed is this
    machine's limit (`wsoup.pipeline.machine`), and a block of candidates with `PromptEncoder`.

    Args:
        name: open_clip model.
        pools: bare candidates by pool, for example {"words": [...], "descriptors": [...]}.
        classes: how many of ImageNet's class names, at most 1,000.
        device: where.
        precisions: of section ``encoder``; each round times all of them in turn.
        rounds: timings of each way, in turn, each with candidates from another part of the pool.
        block: candidates in a round; None: 32 on a CPU, 128 elsewhere.

    Returns:
        model, device, classes, ... and "rows", one dict per pool and precision; times in seconds, memory in bytes.
        `matmul_flops_per_s` is the speed of the products in the row's precision, and `efficiency` the share of it that
        the texts reach.
    """
    prefixes = class_prompts(classes)
    encoders = [random_encoder(name, device=device, precision=precision) for precision in precisions]
    pairs = [(encoder, warm(encoder, prefixes)) for encoder in encoders]
    prompts = pairs[0][1]
    block = block or (32 if device.type == "cpu" else 128)
    rows = []
    for pool, texts in pools.items():
        starts = [turn * max(0, len(texts) - block) // max(1, rounds - 1) for turn in range(rounds)]
        blocks = [[f" {text}" for text in texts[start : start + block]] for start in starts]
        timed = [[_time_block(*pair, prefixes, suffixes) for pair in pairs] for suffixes in blocks]
        score = _score_seconds(prompts, prefixes, blocks[0][:4])
        count = WORD_POOL if pool == "words" else len(texts)
        for precision, turns in zip(precisions, zip(*timed, strict=True), strict=True):
            row = {"pool": pool, "precision": precision, "candidates": len(texts), **_summary(turns)}
            stage_s = count * (classes * row["ours"] + score)
            rows.append({**row, "score_s_per_candidate": score, "stage_candidates": count, "stage_s": stage_s})
    return {"bench": "text", **about(encoders[0]), "classes": classes, "texts": prompts.way, "rows": rows}


def bench_images(
    name: str, *, count: int, device: torch.device, precision: str = "fp32", batch_size: int = 64
) -> Result:
    """Time decoding, preprocessing and encoding of `count` drawn JPEG files of 500 x 375, compared with a plain loop.

    The plain loop decodes a batch and then encodes it, in one process. Ours decodes the next batch meanwhile, in worker
    processes if there are enough images.
    """
    encoder = random_encoder(name, device=device, precision=precision)
    with tempfile.TemporaryDirectory() as folder:
        files = drawn_images(Path(folder), count=min(count, FILES))
        paths = [files[i % len(files)] for i in range(count)]
        clock, faults = Clock(device), page_faults()
        at_once = encoder.images_at_once(batch_size)
        decoded = batches(paths, transform=encoder.preprocess, batch_size=at_once, on_bad_image="stop")
        ours = torch.cat([encoder.encode_images(batch.pixels) for batch in decoded])
        ours_s, faults = clock.lap(), page_faults() - faults
        sample = paths[: max(1, min(count, 2 * batch_size))]
        starts = range(0, len(sample), batch_size)
        plain = torch.cat([_encode_plainly(encoder, sample[start : start + batch_size]) for start in starts])
        plain_s = clock.lap() / len(sample)
        with FlopCounter() as counter:
            _encode_plainly(encoder, sample[:1])
    row = {
        "images": count,
        "ours": ours_s / count,
        "plain": plain_s,
        "ratio": plain_s * count / ours_s,
        "images_per_s": count / ours_s,
        "page_faults_per_image": round(faults / count),
        "flops_per_s": counter.flops * count / ours_s,
        "cosine_distance": cosine_distance(ours[: len(sample)], plain),
    }
    return {"bench": "images", **about(encoder), "rows": [row]}


def show(result: Result, *, as_json: bool) -> None:
    """Print a result."""
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        Terminal().print(table(result))


def table(result: Result) -> Group:
    """The facts of a result on one line, and a table with a column per row of the result."""
    facts = {key: value for key, value in result.items() if key not in ("bench", "rows")}
    line = ", ".join(f"{key.replace('_', ' ')} {shown(key, value)}" for key, value in facts.items())
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("")
    for row in result["rows"]:
        drawn.add_column(row.get("pool") or row.get("case", ""), justify="right")
    for key in result["rows"][0]:
        if key not in ("pool", "case"):
            drawn.add_row(key.replace("_", " "), *(shown(key, row[key]) for row in result["rows"]))
    return Group(f"{result['bench']}: {line}", drawn)


def shown(key: str, value: Any) -> str:
    """A value with the unit of its key."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if key.endswith("_s") and value >= 7200 and not key.endswith("per_s"):
        return f"{value / 3600:,.1f} h"
    factor, form = next((unit for pattern, unit in UNITS.items() if fnmatch(key, pattern)), (1, "{:,}"))
    return form.format(factor * value)


class Clock:
    """Laps of wall-clock time that include pending work of the device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._last = device, 0.0
        self.lap()

    def lap(self) -> float:
        """Seconds since the previous lap."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self._last, seconds = now, now - self._last
        return seconds


def random_encoder(name: str, *, device: torch.device, precision: str = "fp32") -> Encoder:
    """An open_clip model with seeded random weights and its preprocessing.

    Raises:
        ParamsError, ModelError: unknown precision or model.
    """
    params = parse(EncoderParams, {"model": name, "precision": precision, "watch": "-"}, origin="bench")
    model, _ = random_model(name, seed=0)
    return replace(weightless_encoder(params), model=model.to(device), device=device)


def class_prompts(count: int) -> list[str]:
    """Prompts of `count` classes spread over ImageNet's 1,000, ready for a descriptor."""
    names = imagenet_class_names()
    if not 1 <= count <= len(names):
        raise ParamsError(f"bench: classes must be from 1 to {len(names)}, got {count}")
    return [f"a photo of a {names[i * len(names) // count]}," for i in range(count)]


def warm(encoder: Encoder, prefixes: Sequence[str]) -> PromptEncoder:
    """A prompt encoder that has cached the prefixes and checked itself against `encode_text`."""
    prompts = PromptEncoder.of(encoder)
    prompts.encode_grid(prefixes, [""])
    encoder.encode_texts(prefixes[:2])
    return prompts


def page_faults() -> int:
    """Page faults of this process so far that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def cosine_distance(a: Tensor, b: Tensor) -> float:
    """Largest cosine distance of corresponding rows."""
    return float((1 - F.cosine_similarity(a.double(), b.double(), dim=-1)).abs().max())


def about(encoder: Encoder) -> Result:
    """Model, device and peak memory."""
    device = encoder.device
    on_gpu = device.type == "cuda"
    return {
        "model": encoder.id["model"],
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{device.type}, {torch.get_num_threads()} threads",
        "peak_memory": torch.cuda.max_memory_allocated(device) if on_gpu else peak_bytes(),
    }


def _time_block(encoder: Encoder, prompts: PromptEncoder, prefixes: list[str], suffixes: list[str]) -> Result:
    """One round: seconds per text of both ways, and the distance of their features."""
    n_texts = len(prefixes) * len(suffixes)
    n_sample = min(32 if encoder.device.type == "cpu" else 512, n_texts)
    sample = [(i * 7 % len(suffixes), i * len(prefixes) // n_sample) for i in range(n_sample)]
    clock = Clock(encoder.device)
    expected = encoder.encode_texts([prefixes[c] + suffixes[s] for s, c in sample], batch_size=PLAIN_BATCH)
    plain = clock.lap() / n_sample
    tower, tokens, flops = prompts.tower, prompts.tokens_encoded, prompts.flops
    matmul = 0.0 if tower is None else product_rate(encoder.device, dtype=tower.dtype)
    clock.lap()
    features = prompts.encode_grid(prefixes, suffixes)
    ours = clock.lap()
    rate = (prompts.flops - flops) / ours
    return {
        "ours": ours / n_texts,
        "plain": plain,
        "ratio": plain * n_texts / ours,
        "tokens_per_text": (prompts.tokens_encoded - tokens) / n_texts,
        "flops_per_s": rate,
        "matmul_flops_per_s": matmul,
        "efficiency": rate / matmul if matmul else 0.0,
        "cosine_distance": cosine_distance(torch.stack([features[s, c] for s, c in sample]), expected),
    }


def _summary(turns: Sequence[Result]) -> Result:
    """Medians over the rounds."""
    medians = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
    ratios = [turn["ratio"] for turn in turns]
    return {
        **medians,
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "texts_per_s": 1 / medians["ours"],
        "cosine_distance": max(turn["cosine_distance"] for turn in turns),
    }


@torch.no_grad()
def _score_seconds(prompts: PromptEncoder, prefixes: list[str], suffixes: list[str]) -> float:
    """Seconds per candidate to count its correct images of all seeds."""
    features = prompts.encode_grid(prefixes, suffixes)
    total, device = SEEDS * SHOTS * len(prefixes), prompts.device
    images = F.normalize(torch.randn(total, features.shape[-1], device=device), dim=-1)
    labels = torch.arange(total, device=device) % len(prefixes)
    subsets = list(torch.arange(total, device=device).chunk(SEEDS))
    image_set = ImageSet(images, labels=labels, n_classes=len(prefixes), subsets=subsets)
    clock = Clock(device)
    image_set.score(features)
    return clock.lap() / len(features)


@torch.no_grad()
def _encode_plainly(encoder: Encoder, paths: Sequence[str]) -> Tensor:
    """Decode, then encode with the model as open_clip builds it."""
    pixels = torch.stack([encoder.preprocess(load_rgb(path)) for path in paths])
    with encoder.autocast():
        features = encoder.model.encode_image(pixels.to(encoder.device))  # type: ignore[operator]
    return F.normalize(features.float(), dim=-1)
