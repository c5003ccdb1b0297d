"""What was tried beside the library's kinds of soups: each a function of one source and seed, for docs/evidence.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from evidence_world import Found, World, define
from torch import Tensor

from wsoup.core.draws import member_generator
from wsoup.core.scoring import normalize
from wsoup.search.grow.chains import draw_chain_words, word_soup_member
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.grow.joint import fitted_scale, joint_soup
from wsoup.search.grow.singles import top
from wsoup.search.rank.cost import Meter
from wsoup.search.rank.source import Source

GROWTH = {"k0": 250, "k1": 1000, "patience": 250, "max_words": 10}
BEAM = 4
HALF = 8
"""Shots of a class in each half of the 16."""


@dataclass(frozen=True)
class Likely:
    """A soup's log-likelihood of every image (N,), which compares as a rule of acceptance says."""

    each: Tensor
    rises: Callable[[Tensor], bool]

    def __gt__(self, other: Likely) -> bool:
        return self.rises(self.each - other.each)


def two_errors(rise: Tensor) -> bool:
    """The mean rise is more than two standard errors of it."""
    return bool(rise.mean() > 2 * rise.std() / len(rise) ** 0.5)


def on_average(rise: Tensor) -> bool:
    """The rule of `joint`."""
    return bool(rise.mean() > 0)


def both_halves(labels: Tensor) -> Callable[[Tensor], bool]:
    """Both halves of every class's shots rise: acceptance that is cross-validated."""
    first = first_half(labels)
    return lambda rise: bool(rise[first].mean() > 0) and bool(rise[~first].mean() > 0)


def first_half(labels: Tensor) -> Tensor:
    """The first `HALF` images of each class: (N,) bool."""
    first = torch.zeros_like(labels, dtype=torch.bool)
    for c in labels.unique():
        first[(labels == c).nonzero()[:HALF, 0]] = True
    return first


def joint(
    world: World,
    name: str,
    seed: int,
    *,
    rule: Callable[[Tensor], Callable[[Tensor], bool]] = lambda labels: on_average,
    scale_free: bool = False,
    draws: int = 0,
) -> Found:
    """`joint` with another rule of acceptance, a scale-free likelihood, or other draws on the same images."""
    source, definition = world.source(name), define({"kind": "joint", **GROWTH})
    pool = world.ranked(name, "words")[seed]
    images, labels = source.images_of(seed)
    class_names = next(source.text_blocks([""], period=True))[0]
    scale, rises = fitted_scale(images, labels, class_names), rule(labels)

    def measure(sums: Tensor) -> tuple[Any, Sequence[int]]:
        found = []
        for centroid in normalize(sums):
            scores = (images @ centroid.T).double()
            by = 2 / scores.std(dim=1, correction=0).mean() if scale_free else scale
            found.append(Likely((scores * by).log_softmax(dim=1).gather(1, labels[:, None])[:, 0], rises))
        return found, [0] * len(found)

    meter = Meter(source, seed=seed, period=False)
    about = definition.model_dump(include={"m", "k0", "k1", "patience", "max_words"})
    texts = pool.texts[: GROWTH["k1"]]
    members = joint_soup(texts, seed=seed + draws, features=meter.features, measure=measure, **about)
    return _equal([member.text for member in members], tokens=pool.cost.tokens + meter.cost().tokens)


def chains(world: World, name: str, seed: int, *, draws: int) -> Found:
    """Algorithm 2 with other draws on the same images."""
    source, pool = world.source(name), world.ranked(name, "words")[seed]
    meter = Meter(source, seed=seed, period=False)
    ranked = pool.texts[: GROWTH["k1"]]
    members = [word_soup_member(ranked, member=i, seed=seed + draws, count=meter.count, **GROWTH) for i in range(8)]
    return _equal([member.text for member in members], tokens=pool.cost.tokens + meter.cost().tokens)


def beam(world: World, name: str, seed: int) -> Found:
    """Algorithm 2 with the `BEAM` best chains kept, at its cost: a quarter of its patience.

    Every word in turn is tried behind every chain of the beam; chains are kept by count, earlier ones first.
    """
    source, pool = world.source(name), world.ranked(name, "words")[seed]
    meter, texts = Meter(source, seed=seed, period=False), []
    for member in range(8):
        generator = member_generator(purpose="word_soup", seed=seed, member=member)
        first, words = draw_chain_words(
            pool.texts, k0=GROWTH["k0"], k1=GROWTH["k1"], patience=GROWTH["patience"] // BEAM, generator=generator
        )
        chains = [(first, int(meter.count([first])[0]))]
        for word in words:
            longer = [f"{chain} {word}" for chain, _ in chains if len(chain.split()) < GROWTH["max_words"]]
            tried = list(zip(longer, meter.count(longer).tolist(), strict=True)) if longer else []
            chains = sorted(chains + tried, key=lambda pair: -pair[1])[:BEAM]
        texts.append(chains[0][0])
    return _equal(texts, tokens=pool.cost.tokens + meter.cost().tokens)


def likely_words(world: World, name: str, seed: int) -> Found:
    """Algorithm 1 on the top 1,000 words, by likelihood instead of the count."""
    source, pool = world.source(name), world.ranked(name, "words")[seed].cut(GROWTH["k1"])
    images, labels = source.images_of(seed)
    scale = fitted_scale(images, labels, next(source.text_blocks([""], period=True))[0])

    def measure(sums: Tensor) -> tuple[Sequence[float], Sequence[int]]:
        scores = [(images @ centroid.T * scale).log_softmax(dim=1) for centroid in normalize(sums)]
        return [float(s.gather(1, labels[:, None]).double().mean()) for s in scores], [0] * len(scores)

    meter = Meter(source, seed=seed, period=False)
    members = greedy_soup(pool.texts, features=meter.blocks, measure=measure, m=8)
    return _equal([member.text for member in members], tokens=pool.cost.tokens + meter.cost().tokens)


def near_the_mean(world: World, name: str, seed: int) -> Found:
    """The 8 of the top 30 by count whose texts are nearest the mean of the 30."""
    source, pool = world.source(name), world.ranked(name, "words")[seed]
    features = torch.cat(list(source.text_blocks(pool.texts[:30], period=False)))  # (30, C, D)
    near = torch.einsum("pcd,cd->p", features, normalize(features.mean(dim=0)))
    return _equal([pool.texts[i] for i in near.argsort(descending=True)[:8].tolist()], tokens=pool.cost.tokens)


def many(world: World, name: str, seed: int, *, weighted: bool) -> Found:
    """32 members by count_k2, weighted by exp(z(k2)) or alike."""
    pool = world.ranked(name, "words")[seed]
    texts = top(
        pool.texts,
        n_correct=pool.n_correct,
        log_likelihood=pool.log_likelihood,
        m=32,
        k1=GROWTH["k1"],
        rank_by="count_k2",
    )
    k2 = np.array([pool.log_likelihood[pool.texts.index(text)] for text in texts])
    weights = np.exp((k2 - k2.mean()) / k2.std()) if weighted else np.ones(len(texts))
    return Found(texts, weights.tolist(), pool.cost.tokens)


def held_out_weights(world: World, name: str, seed: int, *, weighted: bool) -> Found:
    """8 words by count and likelihood on half of the shots, weighted by exp(z(likelihood on the other half)), or alike.

    They come from the top 1,000 by count on all shots, so that only these are scored again.
    """
    source, pool = world.source(name), world.ranked(name, "words")[seed].cut(GROWTH["k1"])
    index = source.subsets[seed]
    first = first_half(source.labels[index])
    halves = {0: index[first], 1: index[~first]}
    part = Source(source.encoder, source.image_features, source.labels, halves, source.template, source.class_names)
    kept = world.kept(f"{name}-halves-{seed}", "npz")
    if not kept.exists():
        np.savez(kept, **_scored(part, pool.texts))
    columns = dict(np.load(kept))
    counts, likely = (columns[key] for key in ("n_correct", "k2"))
    texts = top(pool.texts, n_correct=counts[0], log_likelihood=likely[0], m=8, k1=len(pool.texts), rank_by="count_k2")
    other = np.array([likely[1][pool.texts.index(text)] for text in texts])
    weights = np.exp((other - other.mean()) / other.std()) if weighted else np.ones(len(texts))
    return Found(texts, weights.tolist(), pool.cost.tokens)


def _scored(source: Source, texts: Sequence[str]) -> dict[str, np.ndarray]:
    from wsoup.search.rank.statistics import statistics

    images, nobody = source.images(), torch.zeros(len(source.labels), dtype=torch.bool)
    parts = [statistics(images, block, baseline_right=nobody) for block in source.text_blocks(texts, period=False)]
    return {
        key: np.stack([np.concatenate([part[k].column(key) for part in parts]) for k in range(len(source.subsets))])
        for key in ("n_correct", "k2")
    }


def _equal(texts: list[str], *, tokens: int) -> Found:
    return Found(texts, [1.0] * len(texts), tokens)


Trial = Callable[[World, str, int], Found]
TRIALS: dict[str, tuple[Trial, str]] = {
    "`joint` with a scale-free likelihood, 2 s / sigma of the soup": (
        lambda world, name, seed: joint(world, name, seed, scale_free=True),
        "joint",
    ),
    "`joint`, a word accepted at two standard errors of its rise": (
        lambda world, name, seed: joint(world, name, seed, rule=lambda labels: two_errors),
        "joint",
    ),
    "`joint`, a word accepted where both halves of the shots rise": (
        lambda world, name, seed: joint(world, name, seed, rule=both_halves),
        "joint",
    ),
    "`joint`, drawn again (1)": (lambda world, name, seed: joint(world, name, seed, draws=100), "joint"),
    "`joint`, drawn again (2)": (lambda world, name, seed: joint(world, name, seed, draws=200), "joint"),
    "Algorithm 2, drawn again": (
        lambda world, name, seed: chains(world, name, seed, draws=100),
        "Algorithm 2 (chains)",
    ),
    "Algorithm 2 with a beam of 4 and a quarter of the patience": (beam, "Algorithm 2 (chains)"),
    "Algorithm 1 on the top 1,000 words, by likelihood": (likely_words, "top, count_k2"),
    "the 8 of the top 30 by count that are nearest their mean": (near_the_mean, "top, count"),
    "32 members by count_k2": (lambda world, name, seed: many(world, name, seed, weighted=False), "top, count_k2"),
    "... weighted by exp(z(k2))": (
        lambda world, name, seed: many(world, name, seed, weighted=True),
        "32 members by count_k2",
    ),
    "8 members by count_k2 on half of the shots": (
        lambda world, name, seed: held_out_weights(world, name, seed, weighted=False),
        "top, count_k2",
    ),
    "... weighted by exp(z(k2 on the other half))": (
        lambda world, name, seed: held_out_weights(world, name, seed, weighted=True),
        "8 members by count_k2 on half of the shots",
    ),
}
"""What was tried -> how, and the row or trial that it is held against."""
