"""Throughput of texts with every class and of searches, the main work of stages score and soup."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gpu.bench import TEMPLATE, Bench
from wsoup.core.member import NOTHING
from wsoup.search.candidates.pools import common_words
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.grow.measures import right_on
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.ranking import Ranked
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import right_by_name, scores
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

SEEDS, SHOTS = 3, 16
WORDS, DESCRIPTORS = 9894, 4227
"""The paper's pools."""


@torch.no_grad()
def plain_texts(encoder: Encoder, texts: Sequence[str]) -> Tensor:
    """`encode_text` at the full context: (P, D)."""
    with encoder.autocast():
        tokens = encoder.tokenizer(list(texts)).to(encoder.device)
        return F.normalize(encoder.model.encode_text(tokens).float(), dim=-1)  # type: ignore[operator]


def texts(bench: Bench, *, peaks: dict[str, float]) -> list[str]:
    """Throughput of a pool's words with every class: lines of a table."""
    lines = [
        "| texts | texts/s | plain | ratio | share of peak | peak GiB | distance | 9,894 words |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    names, words = bench.class_names(bench.size.classes), common_words(2 * bench.size.words)
    prefixes, exact = [f"a photo of a {name}," for name in names], None
    for precision in bench.precisions:
        with bench.at(precision) as encoder:
            fast = PromptEncoder(encoder.model, encoder.tokenizer, device=bench.device, dtype=encoder.dtype)

            def encode(some: Sequence[str], fast: PromptEncoder = fast) -> Tensor:
                return torch.stack([b[0] for _, b in fast.grid_blocks(prefixes, [f" {word}" for word in some])])

            features = encode(words[: bench.size.words])
            exact = features if exact is None else exact
            before = fast.tokens_encoded
            taken = bench.seconds(lambda: encode(words[bench.size.words :]))
            tokens = (fast.tokens_encoded - before) // 4  # a warm-up and three timed rounds
            peak, count = bench.peak(), bench.size.words * len(prefixes)
            flops = fast.tower.flops(tokens, reads=count) if fast.tower else 0
            some = [f"{prefixes[i % len(prefixes)]} {words[i % len(words)]}" for i in range(bench.size.plain)]
            plain = bench.seconds(partial(plain_texts, encoder, some)) / len(some)
            share, distance = flops / taken / peaks[precision], (features - exact).norm(dim=-1).max().item()
            lines.append(
                f"| {precision} | {count / taken:,.0f} | {1 / plain:,.0f} | {plain * count / taken:.0f} x "
                f"| {share:.0%} | {peak} | {distance:.0e} | {taken / bench.size.words * WORDS:.0f} s |"
            )
    return lines


def source_of(bench: Bench, encoder: Encoder) -> Source:
    """Images scattered around the class prompts, about half of them nearest to their own; three seeds."""
    names = bench.class_names(bench.size.classes)
    with torch.no_grad():
        fast = PromptEncoder(encoder.model, encoder.tokenizer, device=bench.device)
        centres = fast.encode([TEMPLATE.format(name) for name in names])
    labels = torch.arange(len(names), device=bench.device).repeat_interleave(SEEDS * SHOTS)
    spread = (centres - centres.mean(dim=0)).norm(dim=1).mean()
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(len(labels), centres.shape[1], generator=draw).to(bench.device)
    images = F.normalize(centres[labels] + 0.3 * spread * noise, dim=-1)
    everyone = torch.arange(len(labels), device=bench.device)
    subsets = {seed: everyone[everyone % SEEDS == seed] for seed in range(SEEDS)}
    return Source(encoder, images, labels, subsets, TEMPLATE, names)


def searches(bench: Bench, *, descriptors: Sequence[str]) -> list[str]:
    """Time of scoring and searching, as in stages score and soup but without files."""
    lines = [
        "| | score, a word | 9,894 words | counts alone, a word | score, a descriptor | 4,227 "
        "| word soup of 8, one seed | descriptor soup |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    pool = common_words(max(1000, bench.size.words))
    on_cpu = bench.device.type == "cpu"
    for precision in bench.precisions:
        if precision == "tf32":  # no `encoder.precision` turns it on
            continue
        with bench.at(precision) as encoder:
            source = source_of(bench, encoder)
            images = source.images()
            baseline_right = right_by_name(source, images=images, period=False)

            score = partial(scores, source, images=images, baseline_right=baseline_right, period=False)
            some = max(1, bench.size.words // 3), min(len(descriptors), max(1, bench.size.words // 3))
            word = bench.seconds(partial(score, pool[: some[0]]), repeats=1) / some[0]
            counts_alone = partial(score, pool[: some[0]], likelihood=False)  # as other pools than words by default
            counted = bench.seconds(counts_alone, repeats=1) / some[0]
            clause = bench.seconds(partial(score, descriptors[: some[1]]), repeats=1) / some[1]
            few = {"patience": 4, "max_words": 2} if on_cpu else {"patience": 250, "max_words": 10}
            growth = ChainsSoup(kind="chains", pool="words", m=8, k0=250, k1=1000, **few)
            ranked = Ranked(pool, np.zeros(len(pool)), np.zeros(len(pool)), False, NOTHING)
            began = time.perf_counter()
            for member in range(1 if on_cpu else 8):
                growth.members(ranked, Meter(source, seed=0, period=False), part=member)
            grown = time.perf_counter() - began
            began = time.perf_counter()
            greedy_soup(
                descriptors[: 4 if on_cpu else None],
                features=lambda texts: source.text_blocks(texts, period=True),  # noqa: B023
                measure=right_on(*source.images_of(0)),
                m=16,
            )
            greedy = time.perf_counter() - began
            lines.append(
                f"| {precision} | {1000 * word:.1f} ms | {WORDS * word:.0f} s | {1000 * counted:.1f} ms "
                f"| {1000 * clause:.1f} ms "
                f"| {DESCRIPTORS * clause:.0f} s | {grown:.1f} s | {greedy:.1f} s |"
            )
    return lines
