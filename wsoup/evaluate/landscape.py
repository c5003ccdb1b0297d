"""The loss landscape, a figure of the paper's appendix: the 0-1 loss around a tuned soft descriptor.

Three descriptors of n soft tokens span a plane: the tuned tokens T, the words B of a soup's first member, and random
words A. A point (x, y) is T + x (B - T) + y (A - T), so that T lies at (0, 0), B at (1, 0) and A at (0, 1), as in the
authors' code (Chris210634/word_soups, figures/python_scripts/main_cross_dataset.wise_errors.2d.py). Beside the plane
are the lines from T to B and to A, which go on beyond both ends (main_cross_dataset.wise_errors.py: half as far again).

The figure shows the loss on the training images, and its mean over the cross-dataset targets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.draws import named_seed
from wsoup.evaluate.testsets import COUNTS, WHERE, ClassPrompts, TestSet, count_right
from wsoup.finetune.student import Student
from wsoup.finetune.text_tower import Texts, TrainableTextTower
from wsoup.finetune.tune_params import SoftDescriptorsTune
from wsoup.finetune.tuners import make_student
from wsoup.search.rank.source import Source
from wsoup.towers.encoder import Encoder

Point = tuple[float, float]
"""x and y: how far towards the soup's member, and towards random words."""
CLASSES_PER_PASS = 256
"""Texts in one forward pass: enough to keep a GPU busy, with some 200 MiB of activations in ViT-B."""
SCHEMA = pa.schema([("x", pa.float64()), ("y", pa.float64()), *WHERE, ("seed", pa.int64()), *COUNTS])


def rows_of_points(*, steps: int, margin: int) -> list[list[Point]]:
    """The points to measure, in rows: the square between the corners, and what the two lines have beyond it.

    They include the corners exactly, so that the initialisations and the tuned point are measured, not interpolated.

    Args:
        steps: grid steps from the tuned point to either initialisation.
        margin: grid steps of the lines beyond each end.

    >>> rows_of_points(steps=1, margin=1)
    [[(0.0, 0.0), (1.0, 0.0)], [(0.0, 1.0), (1.0, 1.0)], [(-1.0, 0.0), (2.0, 0.0)], [(0.0, -1.0), (0.0, 2.0)]]
    """
    inside = [i / steps for i in range(steps + 1)]
    before = [i / steps for i in range(-margin, 0)]
    after = [i / steps for i in range(steps + 1, steps + margin + 1)]
    rows = []
    for y in inside:
        rows.append([(x, y) for x in inside])
    if margin:
        rows.append([(x, 0.0) for x in before + after])
        rows.append([(0.0, y) for y in before + after])
    return rows


@dataclass(frozen=True)
class Corners:
    """The soft descriptors that span the plane, (n, width) each.

    Attributes:
        random: A, random words, which a method with a random start would begin with.
        soup: B, the words of a soup's member.
        tuned: T.
    """

    random: Tensor
    soup: Tensor
    tuned: Tensor

    def at(self, point: Point) -> Tensor:
        """The descriptor at a point: (n, width)."""
        # At a corner the sum would round.
        exact = {(0.0, 0.0): self.tuned, (1.0, 0.0): self.soup, (0.0, 1.0): self.random}
        if point in exact:
            return exact[point]
        x, y = point
        return self.tuned + x * (self.soup - self.tuned) + y * (self.random - self.tuned)


def find_corners(
    tuned: Encoder, *, pretrained: Encoder, template: str, words: Sequence[str], member: str, seed: int
) -> Corners:
    """The corners of the plane of one tuned soft descriptor.

    Args:
        tuned: an encoder of which only one soft descriptor was tuned.
        pretrained: what it was tuned from.
        template: the source's.
        words: what the random words are drawn from; empty: common words of the tokenizer.
        member: a bare text of a soup.
        seed: names the draw of the random words.
    """
    student = cast(Student, tuned.model)
    end = student.soft_descriptors[0].detach().clone()

    def start(kind: Literal["random", "soup"]) -> Tensor:
        tune = SoftDescriptorsTune(kind="soft_descriptors", members=1, tokens=len(end), start=kind, prompt_tokens=0)
        # Drawn as `wsoup.finetune.train.Trainer` draws it.
        generator = torch.Generator().manual_seed(named_seed(seed, "start"))
        begun = make_student(
            pretrained.model,
            tokenizer=pretrained.tokenizer,
            tune=tune,
            template=template,
            generator=generator,
            words=words,
            soup=[member],
        )
        return begun.soft_descriptors[0].detach()

    return Corners(random=start("random"), soup=start("soup"), tuned=end)


class Plane:
    """Text features of the class prompts of some datasets at points of the plane, and how many images they get right.

    Args:
        tuned: an encoder of which only one soft descriptor was tuned.
        corners: see `find_corners`.
        tests: the datasets, with image features of the pretrained model.
        batch_size: texts in one forward pass.
    """

    def __init__(
        self, tuned: Encoder, *, corners: Corners, tests: Sequence[TestSet], batch_size: int = CLASSES_PER_PASS
    ) -> None:
        student = cast(Student, tuned.model)
        self.encoder = tuned
        self.corners = corners
        self.tests = tests
        self.classes = ClassPrompts(tests)
        self.tower = TrainableTextTower(student.model)
        self._batches: list[tuple[Texts, Tensor]] = []
        """Class prompts with room for the descriptor, and its positions (b, n) in them."""
        for start in range(0, len(self.classes.stems), batch_size):
            stems = self.classes.stems[start : start + batch_size]
            tokens = tuned.tokenizer([f"{stem}." for stem in stems]).to(tuned.device)
            texts, positions = student.prepare(self.tower, tokens)
            assert positions is not None  # the student has a soft descriptor
            self._batches.append((texts, positions))

    @torch.no_grad()
    def texts(self, point: Point) -> Tensor:
        """Features of every class prompt at a point: (S, D) float32, L2-normalised."""
        descriptor = self.corners.at(point)
        parts = []
        for texts, positions in self._batches:
            with self.encoder.training():
                features = self.tower(texts, soft=(positions, descriptor))
            parts.append(F.normalize(features.float(), dim=-1))
        return torch.cat(parts)

    def count(self, point: Point) -> list[int]:
        """Correct images of each dataset at a point."""
        features = self.texts(point)
        counts = []
        for test in self.tests:
            class_features = features[self.classes.of(test)]
            counts.append(int(count_right(test, class_features[None])))
        return counts


def table(counts: Mapping[Point, Sequence[int]], *, tests: Sequence[TestSet], seed: int) -> pa.Table:
    """The counts of every point, one for each dataset; columns of `SCHEMA`."""
    lines = []
    for (x, y), of_point in counts.items():
        for test, n_correct in zip(tests, of_point, strict=True):
            counted = {"n_correct": n_correct, "n_images": len(test.labels)}
            lines.append({"x": x, "y": y, **test.where, "seed": seed, **counted})
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def shown_datasets(tests: Sequence[TestSet], *, source: Source, seed: int) -> list[TestSet]:
    """The datasets of the paper's figure: the source's few-shot training images of one seed, and the XD targets."""
    shown = []
    for test in tests:
        if test.role == "source":
            images, labels = source.images_of(seed)
            rows = source.subsets[seed].cpu().numpy()
            name = f"{test.name} (training images)"
            shown.append(replace(test, name=name, image_features=images, labels=labels, rows=rows))
        elif test.role == "xd":
            shown.append(test)
    return shown
