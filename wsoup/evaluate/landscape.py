"""The loss landscape, the paper's figure: 0-1 error over the plane of two initialisations and a tuned soft descriptor.

A point (x, y) is a descriptor of n soft tokens, T + x (B - T) + y (A - T), as in the authors' code
(Chris210634/word_soups, figures/python_scripts/main_cross_dataset.wise_errors.2d.py): the tuned tokens T at (0, 0), the
first member B of a word soup at (1, 0), and random words A at (0, 1). The figure shows the 0-1 loss on training images,
and its mean over the ten cross-dataset test sets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.draws import named_seed
from wsoup.core.scoring import count_correct
from wsoup.disk import store
from wsoup.evaluate.testsets import COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.finetune.params import SoftDescriptorsTune
from wsoup.finetune.student import Student
from wsoup.finetune.towers import TrainableTextTower
from wsoup.finetune.tuners import make_student
from wsoup.search.rank.source import Source
from wsoup.towers.encoder import Encoder

CLASSES_PER_PASS = 256
"""Texts in one forward pass: enough to keep a GPU busy, with some 200 MiB of activations in ViT-B."""
SCHEMA = pa.schema([("x", pa.float64()), ("y", pa.float64()), *WHERE, ("seed", pa.int64()), *COUNTS])


def axis(*, steps: int, margin: int) -> list[float]:
    """Coordinates of the grid, the same in both directions: `steps` from 0 to 1, and `margin` more on either side.

    They include 0 and 1 exactly, so the initialisations and the tuned point are measured rather than interpolated.

    >>> axis(steps=2, margin=1)
    [-0.5, 0.0, 0.5, 1.0, 1.5]
    """
    return [i / steps for i in range(-margin, steps + margin + 1)]


class Plane:
    """Text features of the class prompts of some datasets on the plane, and how many images they get right.

    Args:
        tuned: an encoder of which only one soft descriptor was tuned.
        encoder: the pretrained one.
        template: the source's.
        seed: names the random words A, which are those that a method with a random start would begin with.
        member: B, of a word soup.
        tests: the datasets, with image features of the pretrained model.
        batch_size: texts in one forward pass.

    Attributes:
        corners: A, B and T, (n, width) each.
    """

    def __init__(
        self,
        tuned: Encoder,
        *,
        encoder: Encoder,
        template: str,
        seed: int,
        member: str,
        tests: Sequence[TestSet],
        batch_size: int = CLASSES_PER_PASS,
    ) -> None:
        model = cast(Student, tuned.model)
        self.encoder, self.tower = tuned, TrainableTextTower(model.model)
        self.tests, self.classes = tests, ClassPrompts(tests)
        end = model.soft_descriptors[0].detach().clone()

        def start(kind: Literal["random", "soup"]) -> Tensor:
            tune = SoftDescriptorsTune(kind="soft_descriptors", members=1, tokens=len(end), start=kind, prompt_tokens=0)
            student = make_student(
                encoder.model,
                tokenizer=encoder.tokenizer,
                tune=tune,
                template=template,
                generator=torch.Generator().manual_seed(named_seed(seed, "start")),
                soup=[member],
            )
            return student.soft_descriptors[0].detach()

        self.corners = start("random"), start("soup"), end
        tokens = tuned.tokenizer([f"{stem}." for stem in self.classes.stems]).to(tuned.device)
        moved, positions = model.with_descriptor(tokens)
        self._groups = [
            (self.tower.prepare(part, before=int(at.min())), at)
            for part, at in zip(moved.split(batch_size), positions.split(batch_size), strict=True)
        ]

    @torch.no_grad()
    def texts(self, x: float, y: float) -> Tensor:
        """Features of every class prompt at a point: (S, D) float32, L2-normalised."""
        a, b, tuned = self.corners
        # Corners are exact; the sum would round.
        exact = {(0.0, 0.0): tuned, (1.0, 0.0): b, (0.0, 1.0): a}
        soft = exact.get((x, y), tuned + x * (b - tuned) + y * (a - tuned))
        parts = []
        for texts, positions in self._groups:
            with self.encoder.autocast():
                features = self.tower(texts, soft=(positions, soft))
            parts.append(F.normalize(features.float(), dim=-1))
        return torch.cat(parts)

    def count(self, x: float, y: float) -> list[int]:
        """Correct images of each dataset at a point."""
        features = self.texts(x, y)
        return [count_correct(test.image_features, test.labels, features[self.classes.of(test)]) for test in self.tests]


def identity(tests: Sequence[TestSet]) -> list[object]:
    """What determines the counts on these datasets, as JSON values for the resume key."""

    def images(test: TestSet) -> str:
        return store.fingerprint([test.labels.tolist(), test.image_features.double().sum(dim=1).tolist()])

    return [[test.name, test.template, test.class_names, images(test)] for test in tests]


def table(counts: Mapping[tuple[float, float], Sequence[int]], *, tests: Sequence[TestSet], seed: int) -> pa.Table:
    """The counts of every point (x, y), one for each dataset; columns of `SCHEMA`."""
    lines = [
        {"x": x, "y": y, **test.where, "seed": seed, "n_correct": n_correct, "n_images": len(test.labels)}
        for (x, y), of_point in counts.items()
        for test, n_correct in zip(tests, of_point, strict=True)
    ]
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def shown_datasets(tests: Sequence[TestSet], *, source: Source, seed: int) -> list[TestSet]:
    """The datasets of the paper's figure: the source's few-shot training images of one seed, and the XD targets."""
    images, labels = source.images_of(seed)
    rows = source.subsets[seed].cpu().numpy()
    return [
        replace(test, name=f"{test.name} (training images)", image_features=images, labels=labels, rows=rows)
        if test.role == "source"
        else test
        for test in tests
        if test.role in ("source", "xd")
    ]
