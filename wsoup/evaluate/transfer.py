"""Texts that nobody selected, each alone on every dataset: how well the source predicts accuracy on the targets.

The paper's second figure. And the descriptor soup that the targets themselves would select: Algorithm 1 with the mean
accuracy over the cross-dataset test sets (XD) as its measure, as in the paper; where a run has none, over its shifts.
No method may do that: it is a bound and no result, and marked so wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.core.scoring import ImageSet, correct_per_candidate, normalize
from wsoup.evaluate.testsets import COSINES, COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.search.grow.greedy import greedy_soup
from wsoup.soup.member import Member
from wsoup.texts.encoder import PromptEncoder

KEPT_BYTES = 1 << 29
BATCH = 32
SCHEMA = pa.schema([("text", pa.string()), *WHERE, *COUNTS, *COSINES])


def sample(pool: Sequence[str], *, size: int | None) -> list[str]:
    """`size` texts of the pool, the same ones always, in pool order; all of a smaller pool, or with None."""
    order = member_generator(purpose="survey", seed=0, member=0).permutation(len(pool))
    return [pool[i] for i in sorted(order[:size].tolist())]


class Grid:
    """Features of finished texts with the class prompts of several datasets, each prompt encoded once.

    Features are kept from one use to the next where all of them fit into `KEPT_BYTES`, else encoded again.

    Args:
        texts: P texts, bare.
        tests: the datasets.
        encoder: encodes prompts.

    Raises:
        PoolError: a text does not fit the model's context behind a class.
    """

    def __init__(self, texts: Sequence[str], *, tests: Sequence[TestSet], encoder: PromptEncoder) -> None:
        self.texts, self.tests, self.encoder = list(texts), tests, encoder
        self.classes = ClassPrompts(tests)
        for test in tests:
            test.check_texts(self.texts, tokenizer=encoder.tokenizer)
        self._kept: dict[str, Tensor] = {}

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features (b, S, D) of some of the texts, in the order asked for."""
        if all(text in self._kept for text in texts):
            for start in range(0, len(texts), BATCH):
                yield torch.stack([self._kept[text] for text in texts[start : start + BATCH]])
            return
        endings = [prompts.ending(text, period=True) for text in texts]
        for where, block in self.encoder.grid_blocks(self.classes.stems, endings):
            if block[0].nbytes * len(self.texts) <= KEPT_BYTES:
                self._kept.update(zip(texts[where], block, strict=True))
            yield block


def transfer(grid: Grid) -> pa.Table:
    """Every text of a grid alone on every dataset; columns of `SCHEMA`. "" is the class name without a text."""
    images = {
        test.name: ImageSet(
            test.image_features,
            labels=test.labels,
            n_classes=len(test.class_names),
            subsets=[torch.arange(len(test.labels), device=test.labels.device)],
        )
        for test in grid.tests
    }
    lines: list[dict[str, object]] = []
    start = 0
    for block in grid.blocks(grid.texts):
        for test in grid.tests:
            scores = images[test.name].score(block[:, grid.classes.of(test)])[0]
            lines += [
                {
                    "text": text,
                    **test.where,
                    "n_correct": int(scores.n_correct[i]),
                    "n_images": scores.n_images,
                    "alignment": float(scores.alignment[i]),
                    "uniformity": float(scores.uniformity[i]),
                }
                for i, text in enumerate(grid.texts[start : start + len(block)])
            ]
        start += len(block)
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def mean_accuracy(n_correct: Sequence[int], *, n_images: Sequence[int]) -> int:
    """The mean accuracy over datasets as an integer, on a scale that is the same for all: exact to compare.

    >>> mean_accuracy([1, 1], n_images=[2, 3]) > mean_accuracy([0, 2], n_images=[2, 3])
    True
    """
    common = math.lcm(*n_images)
    return sum(right * (common // size) for right, size in zip(n_correct, n_images, strict=True))


def role_that_counts(roles: Sequence[str]) -> str:
    """Whose mean accuracy the bound maximises: xd, or dg where there is none of that."""
    return "xd" if "xd" in roles else "dg"


def ranked_on_targets(table: pa.Table) -> list[str]:
    """Texts of `transfer` by falling mean accuracy over the targets that count, ties in pool order; without ""."""
    counts = role_that_counts(table["role"].to_pylist())
    by_text: dict[str, list[tuple[int, int]]] = {}
    for line in table.to_pylist():
        if line["text"] and line["role"] == counts:
            by_text.setdefault(line["text"], []).append((line["n_correct"], line["n_images"]))
    means = {
        text: mean_accuracy([right for right, _ in pairs], n_images=[size for _, size in pairs])
        for text, pairs in by_text.items()
    }
    return sorted(means, key=lambda text: -means[text])


def upper_bound(ranked: Sequence[str], *, grid: Grid, m: int) -> list[Member]:
    """Algorithm 1 on the targets' own test images: at most m members, in the order in which they were added.

    Args:
        ranked: descriptors by falling mean accuracy over the targets.
        grid: all datasets; those that do not count are left out of account.
        m: stop with so many members.

    Returns:
        Members whose `n_correct` counts the soup's correct images over the targets that count; none of no descriptors.
    """
    if not ranked:
        return []
    counts = role_that_counts([test.role for test in grid.tests])
    targets = [test for test in grid.tests if test.role == counts]
    sizes = [len(test.labels) for test in targets]

    def measure(sums: Tensor) -> tuple[list[int], list[int]]:
        centroids = normalize(sums)  # (b, S, D)
        by_text = torch.stack(
            [
                correct_per_candidate(test.image_features, test.labels, centroids[:, grid.classes.of(test)]).sum(dim=1)
                for test in targets
            ],
            dim=1,
        ).tolist()  # (b, targets)
        return [mean_accuracy(right, n_images=sizes) for right in by_text], [sum(right) for right in by_text]

    return greedy_soup(ranked, features=grid.blocks, measure=measure, m=m)
