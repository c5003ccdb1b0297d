"""Piles of unlabelled photos drawn from photo sets, and class texts of several strengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from benchmarks.heads.folders import lifted, only
from benchmarks.heads.photos import PhotoSet
from wsoup.core.class_texts import normalize
from wsoup.core.draws import named_generator
from wsoup.heads.prototypes import class_means
from wsoup.photos.adaptation import FEWEST
from wsoup.photos.trial import CLASS_NAME, TEMPLATES

SIZES = (3, 5, 10, 20, 45)
"""Classes of the piles that are drawn beside the whole set, where it has more than these."""
SMALLEST = 50
LARGEST = 2000
"""Photos of a pile."""
FOR_TEXTS = 6
"""One in so many photos of each class strengthens texts, and does nothing else."""
STRENGTHS = {CLASS_NAME: 0.0, TEMPLATES: 0.0, "half": 0.5, "full": 1.0}
"""a of t -> norm(t + a m); m is the direction of the mean of a sixth of the class's photos, t the class name's text."""
UNEVEN = 0.5
"""Of the Dirichlet distribution that classes of an unequal pile follow."""
FEW = 5
"""One in so many classes occurs in a pile of few."""
FOREIGN = {"foreign 1/5": 1 / 5, "foreign 1/2": 1 / 2}
"""Share of the pile that is of no class."""
OTHERS = 1 / 10
"""Share of other classes in a pile of nearly one."""
KINDS = ("equal", "unequal", "half", "few", "one", "one + 10 %", *FOREIGN)


@dataclass(frozen=True)
class Pile:
    """Photos without labels, and what judges their answers.

    Attributes:
        source, kind, strength: where it comes from, how its classes occur, and which texts it has.
        features, labels: (N, D) float32, and (N,), -1 for a photo of no class.
        texts: (D, C), columns of length 1.
        logit_scale: of the encoder.
    """

    source: str
    kind: str
    strength: str
    features: Tensor
    labels: Tensor
    texts: Tensor
    logit_scale: float


def piles(sets: Sequence[PhotoSet], *, draws: range) -> Iterator[Pile]:
    """Every kind of pile of every set with every strength of texts, in so many draws.

    A pile that is too small for any adaptation is left out.
    """
    for photos, draw in product(sets, draws):
        n_classes = len(photos.class_names)
        for size in [size for size in SIZES if size < n_classes] + [n_classes]:
            chosen = np.sort(named_generator("classes", photos.name, size, draw).permutation(n_classes)[:size])
            for kind in KINDS:
                yield from _of_kind(photos, kind=kind, classes=torch.from_numpy(chosen), sets=sets, draw=draw)


def _of_kind(photos: PhotoSet, *, kind: str, classes: Tensor, sets: Sequence[PhotoSet], draw: int) -> Iterator[Pile]:
    """The piles of one draw, which differ in their texts alone."""
    generator = named_generator("pile", photos.name, len(classes), kind, draw)
    labels = torch.full((len(photos.class_names),), -1)
    labels[classes] = torch.arange(len(classes))
    own_labels = labels[photos.labels]
    for_texts = torch.zeros(len(own_labels), dtype=torch.bool)
    for label in range(len(classes)):
        of_class = torch.from_numpy(generator.permutation((own_labels == label).nonzero()[:, 0].numpy()))
        for_texts[of_class[: len(of_class) // FOR_TEXTS]] = True
    rest = ((own_labels >= 0) & ~for_texts).nonzero()[:, 0]
    drawn = rest[_drawn(own_labels[rest], kind=kind, n_classes=len(classes), generator=generator)]
    features = photos.features[drawn]
    pile_labels = own_labels[drawn]
    if kind in FOREIGN:
        wanted = round(len(drawn) * FOREIGN[kind] / (1 - FOREIGN[kind]))
        others = _foreign(photos, is_own=own_labels >= 0, sets=sets)
        foreign = others[generator.permutation(len(others))[:wanted]]
        features = torch.cat([features, foreign])
        pile_labels = torch.cat([pile_labels, torch.full((len(foreign),), -1)])
        if len(foreign) < wanted:
            return
    if len(features) < max(SMALLEST, FEWEST * len(classes)):
        return
    means = class_means(photos.features[for_texts], own_labels[for_texts], n_classes=len(classes))
    for strength, share in STRENGTHS.items():
        row = TEMPLATES if strength == TEMPLATES else CLASS_NAME
        texts = normalize(photos.texts[row][classes] + share * means).T.contiguous()
        yield Pile(photos.name, kind, strength, features, pile_labels, texts, photos.logit_scale)


def _foreign(photos: PhotoSet, *, is_own: Tensor, sets: Sequence[PhotoSet]) -> Tensor:
    """Photos of no class of the pile: of the set's other classes, or where it has none, of those of other sets."""
    if not is_own.all():
        return photos.features[~is_own]
    parts = []
    for other in sets:
        is_other = torch.tensor([name not in photos.class_names for name in other.class_names])
        parts.append(other.features[is_other[other.labels]])
    return torch.cat(parts)


def _drawn(labels: Tensor, *, kind: str, n_classes: int, generator: np.random.Generator) -> Tensor:
    """Indices of photos of the pile, by their labels: as many of each class as its kind says."""
    there = torch.bincount(labels, minlength=n_classes).double()
    shares = torch.from_numpy(_shares(kind, n_classes=n_classes, generator=generator))
    # So large a pile that no class has to give more than it has.
    most = float((there / shares.clamp(min=1e-9)).min())
    if kind == "unequal":
        most = len(labels) / 2
    most = min(most, LARGEST)
    least = min(most, max(SMALLEST, FEWEST * n_classes))
    n_photos = float(np.exp(generator.uniform(np.log(least), np.log(most))))
    wanted = (shares * n_photos).round().minimum(there).long()
    parts = []
    for label in range(n_classes):
        of_class = generator.permutation((labels == label).nonzero()[:, 0].numpy())
        parts.append(torch.from_numpy(of_class[: wanted[label]]))
    return torch.cat(parts)


def _shares(kind: str, *, n_classes: int, generator: np.random.Generator) -> np.ndarray:
    """Share of each class (C,) in a pile."""
    occurring = {"half": (n_classes + 1) // 2, "few": max(2, n_classes // FEW), "one": 1, "one + 10 %": 1}
    shares = np.zeros(n_classes)
    shares[generator.permutation(n_classes)[: occurring.get(kind, n_classes)]] = 1.0
    if kind == "one + 10 %":
        shares = (1 - OTHERS) * shares + OTHERS * (1 - shares) / (n_classes - 1)
    if kind == "unequal":
        shares = generator.dirichlet([UNEVEN] * n_classes)
    return shares / shares.sum()


def with_random_texts(pile: Pile) -> Pile:
    """The same pile with directions drawn at random for texts."""
    generator = named_generator("random texts", pile.source, *pile.texts.shape, pile.kind, len(pile.labels))
    drawn = torch.from_numpy(generator.standard_normal(pile.texts.T.shape)).float()
    return replace(pile, texts=normalize(drawn).T.contiguous())


def every_other(photos: PhotoSet, *, first: int) -> PhotoSet:
    """Photos of every other class, from the first or the second on."""
    classes = np.arange(first, len(photos.class_names), 2)
    return replace(only(photos, classes=classes), name=photos.name)


def together(sets: Sequence[PhotoSet]) -> PhotoSet:
    """Photos of the same classes in several styles."""
    return replace(
        sets[0],
        name=" and ".join(photos.name for photos in sets),
        features=torch.cat([photos.features for photos in sets]),
        labels=torch.cat([photos.labels for photos in sets]),
    )


def in_cone(pile: Pile, *, length: float) -> Pile:
    """The same pile with a constant of this length added to all photos, and another to all texts.

    Both are normalised again and the scale is larger, so that the texts' own logits stay.
    """
    return replace(
        pile,
        features=lifted(pile.features, cone=length, axis=0),
        texts=lifted(pile.texts.T, cone=length, axis=1).T.contiguous(),
        logit_scale=pile.logit_scale * (1 + length**2),
    )
