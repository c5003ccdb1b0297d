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
from wsoup.core.scoring import ImageSet, correct_per_candidate, normalize
from wsoup.evaluate.testsets import COSINES, COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.rank.source import Source
from wsoup.soup.member import Member
from wsoup.texts.encoder import PromptEncoder

KEPT_BYTES = 1 << 29
"""Text features are kept from one use to the next if all of them fit."""
BATCH = 32
SCHEMA = pa.schema([("text", pa.string()), *WHERE, *COUNTS, *COSINES])


def sample(pool: Sequence[str], *, size: int | None) -> list[str]:
    """A fixed random sample of the pool, in pool order; the whole pool if it is smaller or `size` is None."""
    order = member_generator(purpose="survey", seed=0, member=0).permutation(len(pool))
    return [pool[i] for i in sorted(order[:size].tolist())]


class Grid:
    """Features of texts with the class prompts of several datasets, each distinct prompt encoded once.

    Args:
        texts: P bare texts.
        tests: the datasets.
        encoder: encodes prompts.

    Raises:
        PoolError: a text exceeds the model's context.
    """

    def __init__(self, texts: Sequence[str], *, tests: Sequence[TestSet], encoder: PromptEncoder) -> None:
        self.texts, self.tests, self.encoder = list(texts), tests, encoder
        self.classes = ClassPrompts(tests)
        for test in tests:
            test.check_texts(self.texts, tokenizer=encoder.tokenizer)
        self._kept: dict[str, Tensor] = {}

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features of some of the texts, in the given order: blocks (b, S, D)."""
        if all(text in self._kept for text in texts):
            for start in range(0, len(texts), BATCH):
                yield torch.stack([self._kept[text] for text in texts[start : start + BATCH]])
            return
        endings = [prompts.ending(text, period=True) for text in texts]
        for part, block in self.encoder.grid_blocks(self.classes.stems, endings):
            if block[0].nbytes * len(self.texts) <= KEPT_BYTES:
                self._kept.update(zip(texts[part], block, strict=True))
            yield block


def transfer(grid: Grid) -> pa.Table:
    """Evaluate every text of a grid alone on every dataset ("" is the bare class name); columns of `SCHEMA`."""
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


def source_counts(source: Source, texts: Sequence[str], *, period: bool) -> pa.Table:
    """Correct counts of the bare class name and of each text alone on every seed's few-shot images."""
    images = source.images()
    blocks = (block for group in ([""], texts) for block in source.text_blocks(group, period=period))
    counts = torch.cat([torch.stack([s.n_correct for s in images.score(block)]) for block in blocks], dim=1)  # (K, P)
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
    common = math.lcm(*n_images)
    return sum(correct * (common // size) for correct, size in zip(n_correct, n_images, strict=True))


def target_role(roles: Sequence[str]) -> str:
    """The role whose mean accuracy the bound maximises: xd, or dg if there is no xd."""
    return "xd" if "xd" in roles else "dg"


def ranked_on_targets(table: pa.Table) -> list[str]:
    """Texts of `transfer` except "" by falling mean accuracy over the targets; ties keep pool order."""
    role = target_role(table["role"].to_pylist())
    by_text: dict[str, list[tuple[int, int]]] = {}
    for line in table.to_pylist():
        if line["text"] and line["role"] == role:
            by_text.setdefault(line["text"], []).append((line["n_correct"], line["n_images"]))
    counts = {text: list(zip(*pairs, strict=True)) for text, pairs in by_text.items()}
    means = {text: mean_accuracy(n_correct, n_images=n_images) for text, (n_correct, n_images) in counts.items()}
    return sorted(means, key=lambda text: -means[text])


def upper_bound(ranked: Sequence[str], *, grid: Grid, m: int) -> list[Member]:
    """Algorithm 1 on the targets' own test images.

    Args:
        ranked: descriptors by falling mean accuracy over the targets.
        grid: all datasets; those of other roles are ignored.
        m: maximum number of members.

    Returns:
        Members in the order in which they were added; `n_correct` is the soup's count over the targets.
    """
    if not ranked:
        return []
    role = target_role([test.role for test in grid.tests])
    targets = [test for test in grid.tests if test.role == role]
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
        return [mean_accuracy(counts, n_images=sizes) for counts in by_text], list(map(sum, by_text))

    return greedy_soup(ranked, features=grid.blocks, measure=measure, m=m)
