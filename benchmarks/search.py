"""Time one word chain (Algorithm 2), compared with the one-by-one loop with `encode_text` at the full context.

    python -m benchmarks.search --model ViT-B-16 --classes 1000

Random weights; about two minutes on two cores. docs/notes/exact_texts.md has figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import Clock, Result, about, class_prompts, random_encoder, show, warm
from wsoup.base.errors import ParamsError
from wsoup.core.member import NOTHING, Member, Step
from wsoup.core.scoring import NEAR_TIE, Scores
from wsoup.runtime.memory import keep_memory
from wsoup.search.candidates.pools import common_words
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.ranking import Ranked
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, choose_device

SHOTS = 16
SMALL_CLASSES, SMALL_WORDS = 12, 40
"""Sizes of the problem that both ways solve."""


def bench_search(
    name: str, *, words: Sequence[str], classes: int, patience: int, device: torch.device, precision: str = "fp32"
) -> Result:
    """Time one word chain, and compare it with the plain loop's on a small problem.

    The chains are compared in float32 only: in other types the two ways round differently, and chains may differ.

    At full size the plain loop takes hours, so its time is extrapolated: the candidates it tries times the time of
    `encode_text` on samples of them, measured between our batches, plus the time of counting.

    Args:
        name: an open_clip model.
        classes: how many of ImageNet's class names.
        device, precision: where and how it computes.
        words: the first word and then at least `patience` candidates.
        patience: candidates tried.
    """
    if len(words) <= patience:
        raise ParamsError(f"bench search needs {patience + 1} words for patience {patience}, got {len(words)}")
    encoder, prefixes = random_encoder(name, device=device, precision=precision), class_prompts(classes)
    prompts = warm(encoder, prefixes)
    images, labels = _images_near_texts(prompts, prefixes)
    encode_s = count_s = 0.0
    counted, plain = 0, []

    def count(texts: Sequence[str]) -> Tensor:
        nonlocal encode_s, count_s, counted
        suffixes = [f" {text}" for text in texts]
        clock = Clock(device)
        features = prompts.encode_grid(prefixes, suffixes)
        encode_s += clock.lap()
        n_correct = Scores(images, features).right(labels).sum(dim=1).cpu()
        count_s, counted = count_s + clock.lap(), counted + len(texts)
        sample = [prefixes[i * len(prefixes) // 8] + suffixes[i % len(suffixes)] for i in range(8)]
        clock.lap()
        encoder.encode_texts(sample)
        plain.append(clock.lap() / len(sample))
        return n_correct

    chain = _grown(words[: 1 + patience], count)
    per_candidate = classes * statistics.median(plain) + count_s / counted
    row: Result = {
        "patience": patience,
        "accepted": len(chain.trace) - 1,
        "candidates_encoded": counted,
        "ours_s": encode_s + count_s,
        "counting_s": count_s,
        "plain_s": (1 + patience) * per_candidate,
        "ratio": (1 + patience) * per_candidate / (encode_s + count_s),
    }
    if encoder.dtype is None:
        sample_prefixes = prefixes[:: max(1, classes // SMALL_CLASSES)][:SMALL_CLASSES]
        row |= _same_chain(encoder, prompts, sample_prefixes, words[: 1 + min(patience, SMALL_WORDS)])
    return {"bench": "search", **about(encoder), "classes": classes, "texts": prompts.way, "rows": [row]}


class _InOrder(ChainsSoup):
    """Algorithm 2 with words that are not drawn, but tried in this order."""

    def draw(self, ranked: Sequence[str], *, member: int, seed: int) -> list[str]:
        return list(ranked)


class _Counter(Meter):
    """Counts by a function."""

    def __init__(self, count: Callable[[Sequence[str]], Tensor]) -> None:
        self.seed, self._counted = 0, count

    def count(self, texts: Sequence[str]) -> np.ndarray:
        return self._counted(texts).numpy()


def _grown(words: Sequence[str], count: Callable[[Sequence[str]], Tensor]) -> Member:
    """One chain that starts with the first word and tries all others."""
    none = np.zeros(len(words))
    definition = _InOrder(kind="chains", pool="words", m=1, k0=1, k1=1, patience=1, max_words=len(words))
    return definition.members(Ranked(list(words), none, none, False, NOTHING), _Counter(count), part=0)[0]


def _images_near_texts(prompts: PromptEncoder, prefixes: list[str]) -> tuple[Tensor, Tensor]:
    """Image features scattered around the class prompts, about half of them right, and their labels."""
    texts = prompts.encode_grid(prefixes, [""])[0]
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(len(prefixes)).repeat_interleave(SHOTS).to(texts.device)
    spread = (texts - texts.mean(dim=0)).norm(dim=1).mean()
    noise = torch.randn(len(labels), texts.shape[1], generator=generator).to(texts.device)
    return F.normalize(texts[labels] + 0.3 * spread * noise, dim=-1), labels


def _same_chain(encoder: Encoder, prompts: PromptEncoder, prefixes: list[str], words: Sequence[str]) -> Result:
    """Whether both ways give the same words and counts on a small problem."""
    images, labels = _images_near_texts(prompts, prefixes)
    near_ties = 0

    def fast(texts: Sequence[str]) -> Tensor:
        features = prompts.encode_grid(prefixes, [f" {text}" for text in texts])
        return Scores(images, features).right(labels).sum(dim=1).cpu()

    def plain(text: str) -> int:
        nonlocal near_ties
        scores = images @ encoder.encode_texts([f"{prefix} {text}" for prefix in prefixes]).T
        best = scores.topk(min(2, len(prefixes)), dim=1).values
        near_ties += int((best[:, 0] - best[:, -1] < NEAR_TIE).sum())
        return int((scores.argmax(dim=1) == labels).sum())

    chain = words[0]
    bar = plain(chain)
    trace = [Step(chain, bar)]
    for word in words[1:]:
        if (n_correct := plain(f"{chain} {word}")) > bar:
            chain, bar = f"{chain} {word}", n_correct
            trace.append(Step(word, bar))
    one_by_one = Member(text=chain, n_correct=bar, trace=tuple(trace))
    return {"same_chain": _grown(words, fast) == one_by_one, "chain_length": len(trace), "near_ties": near_ties}


def main(
    model: Annotated[str, typer.Option(help="An open_clip model; its weights are random.")] = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    patience: Annotated[int, typer.Option(help="Candidates tried.")] = 250,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
) -> None:
    """Time one word chain of Algorithm 2, compared with the one-by-one loop at 77 tokens."""
    keep_memory()
    words = common_words(patience + 1)
    result = bench_search(
        model, words=words, classes=classes, patience=patience, device=choose_device(device), precision=precision
    )
    show(result)


if __name__ == "__main__":
    typer.run(main)
