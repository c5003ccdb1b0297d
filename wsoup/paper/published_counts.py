"""Counting test images with the texts of a published figure, and again with one thing otherwise."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.base.folder_names import key
from wsoup.core.class_texts import normalize
from wsoup.core.prompts import clean_class_name
from wsoup.core.scoring import own_against_others
from wsoup.evaluate.testsets import TestSet
from wsoup.paper.published import OF_IMAGENET, Metric, PublishedDataset, names_of, templates_of
from wsoup.paper.verify import DEVIATIONS, HALF_PRECISION
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.models import imagenet_class_names

RESIZED = 0.2
"""Two classes closer than this share of the spread of all images' gaps may change places with another resizing. With a
small encoder, bicubic to bilinear moved the gap between the two best classes by 0.08 to 0.11 of its spread (median)
and 0.19 to 0.35 (90 %), on 210 and 808 photographs; accuracy moved by 0.5 and 0.2 points."""
ROUNDED = 0.005
"""Points: the figures have four decimal places of a share."""
IN_BLOCK = 4096
"""Images whose scores are in memory at a time."""
PLAIN = "a photo of a {}."


class Counted(NamedTuple):
    """What a classifier makes of the test images of each class: (C,) each.

    Attributes:
        right: images that it gets right.
        near: images whose answer half precision may change.
        near_resized: the same of another resizing.
        n: images.
    """

    right: Tensor
    near: Tensor
    near_resized: Tensor
    n: Tensor

    def figure(self, metric: Metric) -> float:
        """Per cent: of images, or the mean over classes."""
        if metric == "accuracy":
            return 100.0 * int(self.right.sum()) / int(self.n.sum())
        has_images = self.n > 0
        return 100.0 * float((self.right[has_images].double() / self.n[has_images]).mean())

    def within(self, metric: Metric, *, resized: bool) -> float:
        """Points by which the figure may move: near ties tip either way like coins."""
        near = (self.near_resized if resized else self.near).double()
        if metric == "accuracy":
            variance = float(near.sum()) / float(self.n.sum()) ** 2
        else:
            has_images = self.n > 0
            variance = float((near[has_images] / self.n[has_images] ** 2).sum()) / int(has_images.sum()) ** 2
        return 100.0 * DEVIATIONS * math.sqrt(variance) + ROUNDED


def count(test: TestSet, *, text_encoder: PromptEncoder, names: Sequence[str], templates: Sequence[str]) -> Counted:
    """Count the test images by class, with the mean of some templates: a classifier as open_clip builds it."""
    clean = [clean_class_name(name) for name in names]
    total = text_encoder.encode([templates[0].replace("{}", name) for name in clean])  # (C, D)
    for template in templates[1:]:
        total = total + text_encoder.encode([template.replace("{}", name) for name in clean])
    classes = normalize(total)
    gaps: list[Tensor] = []
    wins: list[Tensor] = []
    for block, images in test.blocks():
        labels = test.labels[block]
        for start in range(0, len(labels), IN_BLOCK):
            part = slice(start, start + IN_BLOCK)
            scores = (images[part] @ classes.T)[:, None]  # (n, 1, C)
            own, best, right = own_against_others(scores, labels[part])
            gaps.append((own - best)[:, 0])
            wins.append(right[:, 0])
    gap = torch.cat(gaps)
    spread = float(gap.std()) if len(gap) > 1 else 0.0

    def by_class(chosen: Tensor) -> Tensor:
        return test.labels[chosen].bincount(minlength=len(names))

    return Counted(
        by_class(torch.cat(wins)),
        near=by_class(gap.abs() < HALF_PRECISION),
        near_resized=by_class(gap.abs() < max(RESIZED * spread, HALF_PRECISION)),
        n=by_class(torch.ones_like(gap, dtype=torch.bool)),
    )


def recounts(
    test: TestSet, dataset: PublishedDataset, *, text_encoder: PromptEncoder, counted: Counted
) -> Iterator[tuple[str, float]]:
    """What the figure would be if one thing were otherwise: the cause in words, and per cent."""
    other: Metric = "accuracy" if dataset.metric == "mean_per_class" else "mean_per_class"
    in_words = {"accuracy": "over all images", "mean_per_class": "as a mean over classes"}
    yield f"metric: their figure is ours counted {in_words[other]}", counted.figure(other)
    theirs, n_other = _their_names(test.class_names, dataset)
    if n_other:
        again = count(test, text_encoder=text_encoder, names=theirs, templates=templates_of(dataset))
        words = f"class names: {n_other} of {len(theirs)} are not spelled as theirs ({_example(test, theirs)})"
        yield words, again.figure(dataset.metric)
    for template in dict.fromkeys((PLAIN, test.template)):
        if [template] != templates_of(dataset):
            again = count(test, text_encoder=text_encoder, names=test.class_names, templates=[template])
            yield f"templates: their figure is of {template!r} alone", again.figure(dataset.metric)


def _their_names(names: Sequence[str], dataset: PublishedDataset) -> tuple[list[str], int]:
    """Our classes as they spell them, and how many are spelled otherwise; ours where theirs are not known.

    ImageNet's are known by their order, others by what two spellings have in common; those that have nothing in common
    are taken in alphabetical order.
    """
    theirs = list(names_of(dataset))
    if dataset.templates == OF_IMAGENET and len(names) == dataset.n_classes == 1000:
        theirs = imagenet_class_names()
    else:
        by_key = {key(name): name for name in theirs}
        unknown = sorted(name for name in names if key(name) not in by_key)
        left = sorted({*by_key} - {key(name) for name in names})
        if len(by_key) != len(names) or len(unknown) != len(left):
            return list(names), 0
        by_key |= {key(name): by_key[other] for name, other in zip(unknown, left, strict=True)}
        theirs = [by_key[key(name)] for name in names]
    n_other = sum(clean_class_name(ours) != name for ours, name in zip(names, theirs, strict=True))
    return theirs, n_other


def _example(test: TestSet, theirs: Sequence[str]) -> str:
    """The first class that is spelled otherwise."""
    pairs = zip(test.class_names, theirs, strict=True)
    ours, name = next((ours, name) for ours, name in pairs if clean_class_name(ours) != name)
    return f"{ours!r}, theirs {name!r}"
