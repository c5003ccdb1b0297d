"""Unselected texts on every dataset: does accuracy on the source predict accuracy on the targets?

This is the paper's second figure.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.evaluate.classifiers import check_rows
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import COUNTS, WHERE, ClassPrompts, TestSet, count_right
from wsoup.search.rank.source import Source
from wsoup.texts.encoder import PromptEncoder

SCHEMA = pa.schema([("text", pa.string()), *WHERE, *COUNTS])


def sample(pool: Sequence[str], *, size: int | None) -> list[str]:
    """A fixed random sample of the pool, in pool order; the whole pool if it is smaller or `size` is None."""
    generator = member_generator(purpose="survey", seed=0, member=0)
    order = generator.permutation(len(pool))
    # They stay in pool order, by which equal descriptors of the upper bound rank.
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
