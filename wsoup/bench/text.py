"""Text features of candidates with every class, beside `encode_text` at the full context.

Timed in rounds: a sample of the prompts goes through `encode_text`, a block of candidates through `PromptEncoder` with
every class, then the tower's own matrix products alone, which is the speed that this machine could reach at best. The
ratio is the median over the rounds, so that other work on the machine hits both sides alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.bench.common import Clock, Result, about, class_prompts, cosine_distance, random_encoder
from wsoup.core.linear import Linear
from wsoup.core.scoring import ImageSet
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

WORD_POOL, SEEDS, SHOTS = 9894, 3, 16
"""The paper's word stage: so many words, scored on so many seeds of 16 images per class."""
CPU_ROWS, GPU_ROWS = 1024, 65536
"""Rows in the matrix products that the machine is measured with: those of a forward pass."""
PLAIN_BATCH = 64
"""Texts in one forward pass of `encode_text`."""


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
    """Time the text features of candidates with every class.

    Args:
        name: open_clip model, with random weights.
        pools: bare candidates by the name of their pool, for example {"words": [...], "descriptors": [...]}.
        classes: how many of ImageNet's class names, at most 1,000.
        device: where.
        precisions: of section ``encoder``; each round times all of them in turn.
        rounds: timings of each way, in turn; candidates come from as many places in the pool.
        block: candidates in a round; None for 32 on a CPU, 128 elsewhere.

    Returns:
        model, device, classes, ... and under "rows" one dict per pool and precision; times in seconds, memory in
        bytes. `matmul_flops_per_s` is what the machine reaches on the matrix products alone in the row's own
        precision, and `efficiency` the share of it that the texts get.
    """
    prefixes = class_prompts(classes)
    encoders = [random_encoder(name, device=device, precision=precision) for precision in precisions]
    ways = [(encoder, warm(encoder, prefixes)) for encoder in encoders]
    block = block or (32 if device.type == "cpu" else 128)
    rows = []
    for pool, texts in pools.items():
        starts = [turn * max(0, len(texts) - block) // max(1, rounds - 1) for turn in range(rounds)]
        blocks = [[f" {text}" for text in texts[start : start + block]] for start in starts]
        timed = [[_time_block(*way, prefixes, suffixes) for way in ways] for suffixes in blocks]
        score = _score_seconds(ways[0][1], prefixes, blocks[0][:4])
        count = WORD_POOL if pool == "words" else len(texts)
        for precision, turns in zip(precisions, zip(*timed, strict=True), strict=True):
            row = {"pool": pool, "precision": precision, "candidates": len(texts), **_summary(turns)}
            stage_s = count * (classes * row["ours"] + score)
            rows.append({**row, "score_s_per_candidate": score, "stage_candidates": count, "stage_s": stage_s})
    how = {"classes": classes, "texts": ways[0][1].way}
    return {"bench": "text", **about(encoders[0]), **how, "rows": rows}


def warm(encoder: Encoder, prefixes: Sequence[str]) -> PromptEncoder:
    """The fast way, after what both ways do once: the prefixes' own states, and the check against `encode_text`."""
    prompts = PromptEncoder.of(encoder)
    prompts.encode_grid(prefixes, [""])
    encoder.encode_texts(prefixes[:2])
    return prompts


def _time_block(encoder: Encoder, prompts: PromptEncoder, prefixes: list[str], suffixes: list[str]) -> Result:
    """One round: seconds per text of both ways, and how far apart their features are."""
    n_texts = len(prefixes) * len(suffixes)
    n_sample = min(32 if encoder.device.type == "cpu" else 512, n_texts)
    picks = [(i * 7 % len(suffixes), i * len(prefixes) // n_sample) for i in range(n_sample)]
    clock = Clock(encoder.device)
    want = encoder.encode_texts([prefixes[c] + suffixes[s] for s, c in picks], batch_size=PLAIN_BATCH)
    plain = clock.lap() / n_sample
    tokens, flops = prompts.tokens_encoded, prompts.flops
    before = _matmul_flops_per_s(prompts)
    clock.lap()
    features = prompts.encode_grid(prefixes, suffixes)
    ours = clock.lap()
    matmul = (before + _matmul_flops_per_s(prompts)) / 2  # on both sides, so that other work hits it as it hits ours
    rate = (prompts.flops - flops) / ours
    return {
        "ours": ours / n_texts,
        "plain": plain,
        "ratio": plain * n_texts / ours,
        "tokens_per_text": (prompts.tokens_encoded - tokens) / n_texts,
        "flops_per_s": rate,
        "matmul_flops_per_s": matmul,
        "efficiency": rate / matmul if matmul else 0.0,
        "cosine_distance": cosine_distance(torch.stack([features[s, c] for s, c in picks]), want),
    }


def _summary(turns: Sequence[Result]) -> Result:
    """Medians over the rounds."""
    middle = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
    ratios = [turn["ratio"] for turn in turns]
    return {
        **middle,
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "texts_per_s": 1 / middle["ours"],
        "cosine_distance": max(turn["cosine_distance"] for turn in turns),
    }


@torch.no_grad()
def _matmul_flops_per_s(prompts: PromptEncoder) -> float:
    """What the machine reaches on a block's matrix products and nothing else, in the faster of two layouts."""
    if prompts.tower is None:
        return 0.0
    dtype, device = prompts.tower.dtype, prompts.device
    rows = CPU_ROWS if device.type == "cpu" else GPU_ROWS
    seconds, flops = [0.0, 0.0], 0
    for inner, outer in prompts.tower.product_sizes:
        weight, bias = (torch.randn(shape, device=device).to(dtype) for shape in ((outer, inner), (outer,)))
        x = torch.randn(rows, inner, device=device).to(dtype)
        layouts: list[Callable[[Tensor], Tensor]] = [
            partial(F.linear, weight=weight, bias=bias),
            Linear(weight, bias, dtype=dtype),
        ]
        flops += 5 * 2 * rows * inner * outer
        for layout, product in enumerate(layouts):
            product(x)
            clock = Clock(device)
            for _ in range(5):
                product(x)
            seconds[layout] += clock.lap()
    return flops / min(seconds)


@torch.no_grad()
def _score_seconds(prompts: PromptEncoder, prefixes: list[str], suffixes: list[str]) -> float:
    """Seconds per candidate to count it on the images of all seeds."""
    features = prompts.encode_grid(prefixes, suffixes)
    total, device = SEEDS * SHOTS * len(prefixes), prompts.device
    images = F.normalize(torch.randn(total, features.shape[-1], device=device), dim=-1)
    labels = torch.arange(total, device=device) % len(prefixes)
    subsets = list(torch.arange(total, device=device).chunk(SEEDS))
    scored = ImageSet(images, labels=labels, n_classes=len(prefixes), subsets=subsets)
    clock = Clock(device)
    scored.score(features)
    return clock.lap() / len(features)
