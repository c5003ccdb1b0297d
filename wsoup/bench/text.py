"""Text features of candidates with every class, beside `encode_text` at the full context."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from wsoup.bench.common import Clock, Result, about, cosine_distance, encode_plainly, setup, warm_encoder
from wsoup.core.linear import Linear
from wsoup.core.scoring import ImageSet
from wsoup.texts.encoder import PromptEncoder

WORD_POOL, SEEDS, SHOTS = 9894, 3, 16
"""The paper's word stage: so many words, scored on so many seeds of 16 images per class."""
CPU_ROWS, GPU_ROWS = 1024, 65536
"""Rows in the matrix products that the machine is measured with: those of a forward pass."""


def bench_text(
    name: str,
    *,
    pools: Mapping[str, Sequence[str]],
    classes: int,
    device: torch.device,
    dtypes: Sequence[torch.dtype | None] = (None,),
    rounds: int = 3,
    block: int | None = None,
) -> Result:
    """Time the text features of candidates with every class.

    Args:
        name: open_clip model, with random weights.
        pools: bare candidates by the name of their pool, for example {"words": [...], "descriptors": [...]}.
        classes: how many of ImageNet's class names, at most 1,000.
        device: where.
        dtypes: autocast dtypes, None for the model's own; each round times all of them in turn.
        rounds: timings of each way, in turn; candidates come from as many places in the pool.
        block: candidates in a round; None for 32 on a CPU, 128 elsewhere.

    Returns:
        model, device, classes, ... and under "rows" one dict per pool and precision; times in seconds, memory in
        bytes. `matmul_flops_per_s` is what the machine reaches on the matrix products alone in the row's own
        precision, and `efficiency` the share of it that the texts get.
    """
    model, encoder, prefixes = setup(name, classes=classes, device=device, dtype=dtypes[0])
    others = [
        warm_encoder(model, encoder.tokenizer, prefixes=prefixes, device=device, dtype=dtype) for dtype in dtypes[1:]
    ]
    block = block or (32 if device.type == "cpu" else 128)
    rows = []
    for pool, texts in pools.items():
        suffixes = [f" {text}" for text in texts]
        starts = [round_ * max(0, len(texts) - block) // max(1, rounds - 1) for round_ in range(rounds)]
        chosen = [suffixes[start : start + block] for start in starts]
        encoders = [encoder, *others]
        timed = [[_time_block(model, e, prefixes, some) for e in encoders] for some in chosen]  # rounds of precisions
        score = _score_seconds(encoder, prefixes, chosen[0][:4])
        count = WORD_POOL if pool == "words" else len(texts)
        for e, turns in zip(encoders, zip(*timed, strict=True), strict=True):
            about_row = {"pool": pool, "precision": _precision(e), "candidates": len(texts)}
            seconds = statistics.median(t["ours"] for t in turns)
            stage = {"stage_candidates": count, "stage_s": count * (classes * seconds + score)}
            rows.append({**about_row, **_summary(turns), "score_s_per_candidate": score, **stage})
    return {"bench": "text", **about(name, classes=classes, device=device, encoder=encoder), "rows": rows}


def _time_block(model: nn.Module, encoder: PromptEncoder, prefixes: list[str], suffixes: list[str]) -> Result:
    """One round: seconds per text of both ways, and what they computed."""
    n_texts = len(prefixes) * len(suffixes)
    n_sample = min(32 if encoder.device.type == "cpu" else 512, n_texts)
    picks = [(i * 7 % len(suffixes), i * len(prefixes) // n_sample) for i in range(n_sample)]
    clock = Clock(encoder.device)
    want = encode_plainly(model, encoder, [prefixes[c] + suffixes[s] for s, c in picks])
    plain = clock.lap() / n_sample
    tokens, flops = encoder.tokens_encoded, encoder.flops
    before = _matmul_flops_per_s(encoder)
    clock.lap()
    found = encoder.encode_grid(prefixes, suffixes)
    ours = clock.lap()
    matmul = (before + _matmul_flops_per_s(encoder)) / 2  # on both sides, so that other work hits it as it hits ours
    ours_picked = torch.stack([found[s, c] for s, c in picks])
    return {
        "ours": ours / n_texts,
        "plain": plain,
        "tokens": (encoder.tokens_encoded - tokens) / n_texts,
        "flops": (encoder.flops - flops) / ours,
        "matmul": matmul,
        "cosine_distance": cosine_distance(ours_picked, want),
    }


def _precision(encoder: PromptEncoder) -> str:
    """bfloat16, float32..: of the matrix products."""
    dtype = encoder.tower.dtype if encoder.tower is not None else encoder.dtype or torch.float32
    return str(dtype).removeprefix("torch.")


def _summary(timed: Sequence[Result]) -> Result:
    ratios = [t["plain"] / t["ours"] for t in timed]
    middle = {key: statistics.median(t[key] for t in timed) for key in timed[0]}
    efficiency = statistics.median(t["flops"] / t["matmul"] for t in timed) if middle["matmul"] else 0.0
    return {
        "ours": middle["ours"],
        "plain": middle["plain"],
        "ratio": statistics.median(ratios),
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "texts_per_s": 1 / middle["ours"],
        "tokens_per_text": middle["tokens"],
        "tokens_per_s": middle["tokens"] / middle["ours"],
        "flops_per_s": middle["flops"],
        "matmul_flops_per_s": middle["matmul"],
        "efficiency": efficiency,
        "cosine_distance": max(t["cosine_distance"] for t in timed),
    }


@torch.no_grad()
def _matmul_flops_per_s(encoder: PromptEncoder) -> float:
    """What the machine reaches on a block's matrix products and nothing else, in the faster of two layouts."""
    tower = encoder.tower
    if tower is None:
        return 0.0
    rates = []
    rows = CPU_ROWS if encoder.device.type == "cpu" else GPU_ROWS
    for plain in (False, True):
        seconds, flops = 0.0, 0
        for inner, outer in tower.product_sizes:
            weight, bias = (torch.randn(shape, device=encoder.device) for shape in ((outer, inner), (outer,)))
            x = torch.randn(rows, inner, device=encoder.device).to(tower.dtype)
            packed = Linear(weight, bias, dtype=tower.dtype)
            weight, bias = weight.to(tower.dtype), bias.to(tower.dtype)
            product = partial(F.linear, weight=weight, bias=bias) if plain else packed
            product(x)
            clock = Clock(encoder.device)
            for _ in range(5):
                product(x)
            seconds, flops = seconds + clock.lap(), flops + 5 * 2 * rows * inner * outer
        rates.append(flops / seconds)
    return max(rates)


@torch.no_grad()
def _score_seconds(encoder: PromptEncoder, prefixes: list[str], suffixes: list[str]) -> float:
    """Seconds per candidate to count it on the images of all seeds."""
    features = encoder.encode_grid(prefixes, suffixes)
    total = SEEDS * SHOTS * len(prefixes)
    images = F.normalize(torch.randn(total, features.shape[-1], device=encoder.device), dim=-1)
    labels = torch.arange(total, device=encoder.device) % len(prefixes)
    subsets = list(torch.arange(total, device=encoder.device).chunk(SEEDS))
    scored = ImageSet(images, labels=labels, n_classes=len(prefixes), subsets=subsets)
    clock = Clock(encoder.device)
    scored.score(features)
    return clock.lap() / len(features)
