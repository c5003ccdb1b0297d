"""The paper's loss landscape: the plane of a random start, a word soup's start and one tuned soft descriptor.

A point is a descriptor of n soft tokens, T + x (B - T) + y (A - T), as in the authors' code (Chris210634/word_soups,
figures/python_scripts/main_cross_dataset.wise_errors.2d.py): T the tuned tokens (x = 0, y = 0), B the first member of a
word soup (x = 1, y = 0), A random words (x = 0, y = 1). So the figure is the parallelogram that begins at T, with the
0-1 loss on training images and its mean over the ten cross-dataset test sets. Its left edge is the line from T to A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.draws import named_seed
from wsoup.evaluate.landscape import CLASSES_PER_PASS
from wsoup.evaluate.testsets import TestSet
from wsoup.finetune.params import SoftDescriptorsTune
from wsoup.finetune.student import Student
from wsoup.finetune.text_tower import TrainableTextTower
from wsoup.finetune.tuners import make_student
from wsoup.search.rank.source import Source
from wsoup.towers.encoder import Encoder


def starts(encoder: Encoder, *, tuned: Encoder, template: str, seed: int, soup: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The two initialisations, random words and the soup's first member: (n, width) each.

    The random one is that of a method with this seed that starts at random.
    """
    model: Any = tuned.model

    def start(texts: Sequence[str]) -> Tensor:
        made = make_student(
            encoder.model,
            tokenizer=encoder.tokenizer,
            tune=SoftDescriptorsTune(
                kind="soft_descriptors",
                members=1,
                tokens=len(model.soft_descriptors[0]),
                start="soup" if texts else "random",
                prompt_tokens=0,
            ),
            template=template,
            generator=torch.Generator().manual_seed(named_seed(seed, "start")),
            soup=texts,
        )
        return made.soft_descriptors[0].detach()

    return start(()), start(soup[:1])


class SoftPlane:
    """Text features anywhere on the plane.

    Args:
        tuned: an encoder with one tuned soft descriptor and nothing else tuned.
        starts: A and B, (n, width) each.
        stems: S class prompts without their final period.
        batch_size: texts in one pass.
    """

    def __init__(
        self,
        tuned: Encoder,
        *,
        starts: tuple[Tensor, Tensor],
        stems: Sequence[str],
        batch_size: int = CLASSES_PER_PASS,
    ) -> None:
        model: Any = tuned.model
        student: Student = model
        self.encoder, self.tower = tuned, TrainableTextTower(student.model)
        self.corners = (*starts, student.soft_descriptors[0].detach().clone())
        tokens = tuned.tokenizer([f"{stem}." for stem in stems]).to(tuned.device)
        moved, places = student.with_descriptor(tokens)
        groups = [slice(i, i + batch_size) for i in range(0, len(stems), batch_size)]
        self._groups = [
            (self.tower.prepare(moved[group], before=int(places[group].min())), places[group]) for group in groups
        ]

    @torch.no_grad()
    def texts(self, x: float, y: float) -> Tensor:
        """Features of every class prompt at one point: (S, D) float32, L2-normalised."""
        a, b, tuned = self.corners
        # At the corners the corner itself, and no sum that rounding takes away from it.
        exact = {(0.0, 0.0): tuned, (1.0, 0.0): b, (0.0, 1.0): a}
        soft = exact.get((x, y), tuned + x * (b - tuned) + y * (a - tuned))
        parts = []
        for texts, places in self._groups:
            with self.encoder.autocast():
                features = self.tower(texts, soft=(places, soft))
            parts.append(F.normalize(features.float(), dim=-1))
        return torch.cat(parts)


def shown_datasets(tests: Sequence[TestSet], *, source: Source, seed: int) -> list[TestSet]:
    """The few-shot training images of one seed in place of the source's test images, and the cross-dataset targets."""
    images, labels = source.images_of(seed)
    rows = source.subsets[seed].cpu().numpy()
    return [
        replace(test, name=f"{test.name} (training images)", image_features=images, labels=labels, rows=rows)
        if test.role == "source"
        else test
        for test in tests
        if test.role in ("source", "xd")
    ]
