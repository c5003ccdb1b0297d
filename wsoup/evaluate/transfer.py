"""Texts that nobody selected, each alone on every dataset: how well the source predicts accuracy on the targets.

The paper's second figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.core.scoring import ImageSet
from wsoup.evaluate.fits import check_texts
from wsoup.evaluate.testsets import COSINES, COUNTS, WHERE, ClassPrompts, TestSet
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
        check_texts(self.texts, tests=tests, tokenizer=encoder.tokenizer)
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
            for i, text in enumerate(grid.texts[start : start + len(block)]):
                lines.append(
                    {
                        "text": text,
                        **test.where,
                        "n_correct": int(scores.n_correct[i]),
                        "n_images": scores.n_images,
                        "alignment": float(scores.alignment[i]),
                        "uniformity": float(scores.uniformity[i]),
                    }
                )
        start += len(block)
    return pa.Table.from_pylist(lines, schema=SCHEMA)
