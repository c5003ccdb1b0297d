"""Unselected texts on every dataset: how well accuracy on the source predicts accuracy on the targets, and a bound.

The first is the paper's second figure. The bound is the descriptor soup that the targets themselves would select:
Algorithm 1 on the mean accuracy over the cross-dataset test sets (XD), as in the paper, or over the shifts (DG) if a
run has no XD. No method may use test labels, so it is an upper bound rather than a result, and always marked as such.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.core.scoring import normalize
from wsoup.evaluate.classifiers import check_rows
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import COUNTS, WHERE, ClassPrompts, TestSet, count_right
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.rank.source import Source
from wsoup.soup.member import Member
from wsoup.texts.encoder import PromptEncoder

SCHEMA = pa.schema([("text", pa.string()), *WHERE, *COUNTS])


def sample(pool: Sequence[str], *, size: int | None) -> list[str]:
    """A fixed random sample of the pool, in pool order; the whole pool if it is smaller or `size` is None."""
    generator = member_generator(purpose="survey", seed=0, member=0)
    order = generator.permutation(len(pool))
    # In pool order, by which equal descriptors of the upper bound rank.
    return [pool[i] for i in sorted(order[:size].tolist())]


class Grid:
    """Features of texts with the class prompts of several datasets, each distinct prompt encoded once.

    Args:
        texts: P bare texts.
        tests: the datasets.
        text_encoder: encodes prompts.

    Raises:
        PoolError: a text exceeds the model's context.
    """

    def __init__(self, texts: Sequence[str], *, tests: Sequence[TestSet], text_encoder: PromptEncoder) -> None:
        self.texts = list(texts)
        self.tests = tests
        self.text_encoder = text_encoder
        self.classes = ClassPrompts(tests)
        check_rows([Row("survey", (), tuple(texts))], tests=tests, tokenizer=text_encoder.tokenizer)

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features of some of the texts, in the given order: blocks (b, S, D)."""
        endings = [prompts.ending(text, period=True) for text in texts]
        for _, block in self.text_encoder.grid_blocks(self.classes.stems, endings):
            yield block


def transfer(grid: Grid) -> pa.Table:
    """Evaluate every text of a grid alone on every dataset ("" is the bare class name); columns of `SCHEMA`."""
    lines: list[dict[str, object]] = []
    start = 0
    for block in grid.blocks(grid.texts):
        for test in grid.tests:
            counts = count_right(test, block[:, grid.classes.of(test)])
            texts = grid.texts[start : start + len(block)]
            for text, n_correct in zip(texts, counts.tolist(), strict=True):
                lines.append({"text": text, **test.where, "n_correct": n_correct, "n_images": len(test.labels)})
        start += len(block)
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def source_counts(source: Source, texts: Sequence[str], *, period: bool) -> pa.Table:
    """Correct counts of the bare class name and of each text alone on every seed's few-shot images."""
    images = source.images()
    by_block = []
    # The bare class name has no comma, and among texts with one it would keep them from sharing it.
    for group in ([""], texts):
        for block in source.text_blocks(group, period=period):
            by_block.append(images.score(block)["n_correct"])
    counts = torch.cat(by_block, dim=1)  # (K, P)
    n_seeds, n_texts = counts.shape
    return pa.table(
        {
            "text": ["", *texts] * n_seeds,
            "seed": np.repeat(list(source.subsets), n_texts),
            "n_correct": counts.flatten().cpu().numpy(),
            "n_images": np.repeat([len(index) for index in images.subsets], n_texts),
        }
    )


def mean_accuracy(n_correct: Sequence[int], *, n_images: Sequence[int]) -> int:
    """Mean accuracy over datasets as an exactly comparable integer, on a scale set by `n_images`.

    >>> mean_accuracy([1, 1], n_images=[2, 3]) > mean_accuracy([0, 2], n_images=[2, 3])
    True
    """
    # A sum of fractions would round, and two equal means could differ.
    common = math.lcm(*n_images)
    total = 0
    for correct, size in zip(n_correct, n_images, strict=True):
        total += correct * (common // size)
    return total


def ranked_on(targets: Sequence[TestSet], table: pa.Table) -> list[str]:
    """Texts of `transfer` except "" by falling mean accuracy over some datasets; ties keep pool order."""
    sizes = {test.name: len(test.labels) for test in targets}
    counts: dict[str, list[int]] = {}
    for line in table.to_pylist():
        if line["text"] and line["dataset"] in sizes:
            counts.setdefault(line["text"], []).append(line["n_correct"])
    n_images = list(sizes.values())
    return sorted(counts, key=lambda text: -mean_accuracy(counts[text], n_images=n_images))


def upper_bound(table: pa.Table, *, grid: Grid, m: int) -> list[Member]:
    """Algorithm 1 on the targets' own test images: those of role xd, or of dg if there is no xd.

    Args:
        table: every text of the grid alone (`transfer`).
        grid: descriptors and all datasets.
        m: maximum number of members.

    Returns:
        Members in the order in which they were added; `n_correct` is the soup's count over the targets.
    """
    targets = [test for test in grid.tests if test.role == "xd"]
    if not targets:
        targets = [test for test in grid.tests if test.role == "dg"]
    ranked = ranked_on(targets, table)
    # A run without targets, or without descriptors, has no bound.
    if not ranked:
        return []
    sizes = [len(test.labels) for test in targets]

    def measure(sums: Tensor) -> tuple[list[int], list[int]]:
        centroids = normalize(sums)  # (b, S, D)
        by_target = [count_right(test, centroids[:, grid.classes.of(test)]) for test in targets]
        by_text = torch.stack(by_target, dim=1).tolist()  # (b, targets)
        means = [mean_accuracy(counts, n_images=sizes) for counts in by_text]
        totals = [sum(counts) for counts in by_text]
        return means, totals

    return greedy_soup(ranked, features=grid.blocks, measure=measure, m=m)
