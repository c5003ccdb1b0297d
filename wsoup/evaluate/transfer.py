"""Texts that nobody selected, on every dataset; and the descriptor soup that the targets themselves would select.

The survey shows how far accuracy on the source foretells that on the targets (the paper's second figure). The upper
bound is Algorithm 1 with the mean accuracy over the targets' test images as its measure: no method may do that, and it
is marked as a bound wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import torch
from torch import Tensor

from wsoup import prompts
from wsoup.draws import member_generator
from wsoup.evaluate.testsets import TestSet
from wsoup.scoring import ImageSet, correct_per_candidate, normalize
from wsoup.search.greedy import greedy_soup
from wsoup.soup import Member
from wsoup.texts.encoder import PromptEncoder

KEPT_BYTES = 1 << 29
BATCH = 32
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("dataset", pa.string()),
        ("role", pa.string()),
        ("n_correct", pa.int64()),
        ("n_images", pa.int64()),
        ("alignment", pa.float64()),
        ("uniformity", pa.float64()),
    ]
)


def sample(pool: Sequence[str], *, size: int) -> list[str]:
    """`size` texts of the pool, the same ones always, in pool order; all of a smaller pool."""
    order = member_generator(purpose="survey", seed=0, member=0).permutation(len(pool))
    return [pool[i] for i in sorted(order[:size].tolist())]


class Grid:
    """Features of finished texts with the class prompts of several datasets, each prompt encoded once.

    Features are kept from one use to the next where all of them fit into `KEPT_BYTES`, else encoded again.

    Args:
        texts: P texts, bare.
        tests: the datasets.
        encoder: encodes prompts.
    """

    def __init__(self, texts: Sequence[str], *, tests: Sequence[TestSet], encoder: PromptEncoder) -> None:
        self.texts, self.tests, self.encoder = list(texts), tests, encoder
        self.stems = list(dict.fromkeys(stem for test in tests for stem in test.stems))
        position = {stem: i for i, stem in enumerate(self.stems)}
        self.index = {test.name: torch.tensor([position[stem] for stem in test.stems]) for test in tests}
        self._kept: dict[str, Tensor] = {}

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features (b, S, D) of some of the texts, in the order asked for."""
        if all(text in self._kept for text in texts):
            for start in range(0, len(texts), BATCH):
                yield torch.stack([self._kept[text] for text in texts[start : start + BATCH]])
            return
        endings = [prompts.ending(text, period=True) for text in texts]
        for where, block in self.encoder.grid_blocks(self.stems, endings):
            if block[0].nbytes * len(self.texts) <= KEPT_BYTES:
                self._kept.update(zip(texts[where], block, strict=True))
            yield block


def survey(grid: Grid) -> pa.Table:
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
            scores = images[test.name].score(block[:, grid.index[test.name]])[0]
            for i, text in enumerate(grid.texts[start : start + len(block)]):
                lines.append(
                    {
                        "text": text,
                        "dataset": test.name,
                        "role": test.role,
                        "n_correct": int(scores.n_correct[i]),
                        "n_images": scores.n_images,
                        "alignment": float(scores.alignment[i]),
                        "uniformity": float(scores.uniformity[i]),
                    }
                )
        start += len(block)
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def mean_accuracy(n_correct: Sequence[int], *, n_images: Sequence[int]) -> int:
    """The mean accuracy over datasets as an integer, on a scale that is the same for all: exact to compare.

    >>> mean_accuracy([1, 1], n_images=[2, 3]) > mean_accuracy([0, 2], n_images=[2, 3])
    True
    """
    common = math.lcm(*n_images)
    return sum(found * (common // size) for found, size in zip(n_correct, n_images, strict=True))


def ranked_on_targets(table: pa.Table) -> list[str]:
    """Surveyed texts by falling mean accuracy over the targets, ties in pool order; "" and the source are left out."""
    by_text: dict[str, tuple[list[int], list[int]]] = {}
    for line in table.to_pylist():
        if line["text"] and line["role"] != "source":
            found, sizes = by_text.setdefault(line["text"], ([], []))
            found.append(line["n_correct"])
            sizes.append(line["n_images"])
    return sorted(by_text, key=lambda text: -mean_accuracy(by_text[text][0], n_images=by_text[text][1]))


def upper_bound(ranked: Sequence[str], *, grid: Grid, m: int) -> list[Member]:
    """Algorithm 1 on the targets' own test images: at most m members, in the order in which they were added.

    Args:
        ranked: descriptors by falling mean accuracy over the targets.
        grid: all datasets; the source is left out of account.
        m: stop with so many members.

    Returns:
        Members whose `n_correct` counts the soup's correct images over all targets.
    """
    targets = [test for test in grid.tests if test.role != "source"]
    sizes = [len(test.labels) for test in targets]

    def measure(sums: Tensor) -> tuple[list[int], list[int]]:
        centroids = normalize(sums)  # (b, S, D)
        by_text = torch.stack(
            [
                correct_per_candidate(test.image_features, test.labels, centroids[:, grid.index[test.name]]).sum(dim=1)
                for test in targets
            ],
            dim=1,
        ).tolist()  # (b, targets)
        return [mean_accuracy(found, n_images=sizes) for found in by_text], [sum(found) for found in by_text]

    return greedy_soup(ranked, features=grid.blocks, measure=measure, m=m)
