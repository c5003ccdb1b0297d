"""Ranking a pool by racing: successive halving over classes, so that most candidates are scored on a few classes only.

A candidate costs a text for every class. In each round the candidates that are left are scored on the images of a share
of the classes, among these classes alone, and those with the best z(count) + z(k2) stay (`count_and_likelihood`); the
last round has all classes and images, and its columns are those of the whole ranking. Classes are drawn once, the same
for all seeds, and each round's hold the last one's; images come with their classes, and cost no tokens.

Each seed keeps its own candidates, from its own images: what another seed kept is encoded in the same pass and not
looked at. With C classes the first round takes two at least, which is 2 / C of the whole ranking's tokens: of few
classes racing saves little. Source: this project, after successive halving (Jamieson and Talwalkar 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from wsoup.core.draws import named_generator
from wsoup.search.rank.cost import cost_of
from wsoup.search.rank.params import RacingRound
from wsoup.search.rank.ranking import count_and_likelihood
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import COLUMNS
from wsoup.soup.member import NOTHING, Cost

FEWEST_CLASSES = 2
"""A classifier of one class is always right."""


@dataclass(frozen=True)
class Round:
    """One round of a race.

    Attributes:
        classes: labels in order.
        keep: how many candidates stay for the next round; None in the last one, which has all classes.
    """

    classes: tuple[int, ...]
    keep: int | None


def rounds_of(race: Sequence[RacingRound], *, n_classes: int) -> list[Round]:
    """The rounds of a race and the last one behind them; without a race only that one, the whole ranking.

    With few classes two rounds may have the same: then they are one, which keeps what the later one keeps.
    """
    order = named_generator("racing").permutation(n_classes)
    keep = {max(FEWEST_CLASSES, round(one.classes * n_classes)): one.keep for one in race}
    first = [Round(tuple(sorted(order[:size].tolist())), keep[size]) for size in sorted(keep) if size < n_classes]
    return [*first, Round(tuple(range(n_classes)), None)]


def part_of(source: Source, classes: Sequence[int]) -> Source:
    """The source as if it had only these classes and their images, labelled in their order; itself where it has all."""
    if len(classes) == len(source.class_names):
        return source
    device = source.labels.device
    chosen = torch.tensor(classes, device=device)
    label = torch.full((len(source.class_names),), -1, device=device)
    label[chosen] = torch.arange(len(classes), device=device)
    inside = label[source.labels] >= 0
    place = torch.cumsum(inside, dim=0) - 1
    return Source(
        encoder=source.encoder,
        image_features=source.image_features[inside],
        labels=label[source.labels[inside]],
        subsets={seed: place[index[inside[index]]] for seed, index in source.subsets.items()},
        template=source.template,
        class_names=[source.class_names[i] for i in classes],
    )


def race(
    texts: Sequence[str],
    rounds: Sequence[Round],
    *,
    n_seeds: int,
    score: Callable[[int, Sequence[str]], Mapping[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Run a race.

    Args:
        texts: P candidates, each once; "", the class name alone, goes through all rounds beside them.
        rounds: `rounds_of`.
        n_seeds: K.
        score: (number of the round, P' of the texts in their order) -> `COLUMNS`, (K, P') each.

    Returns:
        `COLUMNS` and ``n_classes``, (K, P) each: the classes of the last round that a candidate was in with a seed, and
        what it scored there. Only those with all classes can be compared with each other as a whole.
    """
    left = np.ones((n_seeds, len(texts)), dtype=bool)
    candidate = np.array([bool(text) for text in texts], dtype=bool)
    columns: dict[str, np.ndarray] = {"n_classes": np.zeros((n_seeds, len(texts)), dtype=np.int64)}
    for number, one in enumerate(rounds):
        asked = np.flatnonzero(left.any(axis=0))
        scored = score(number, [texts[i] for i in asked.tolist()])
        mine = left[:, asked]
        for name in COLUMNS:
            values = columns.setdefault(name, np.zeros((n_seeds, len(texts)), dtype=scored[name].dtype))
            values[:, asked] = np.where(mine, scored[name], values[:, asked])
        columns["n_classes"][left] = len(one.classes)
        for k in range(n_seeds):
            here = np.flatnonzero(left[k] & candidate)
            left[k, here[_eliminated(columns["n_correct"][k, here], columns["k2"][k, here], keep=one.keep)]] = False
    return columns


def _eliminated(n_correct: np.ndarray, log_likelihood: np.ndarray, *, keep: int | None) -> np.ndarray:
    """Places of all but the `keep` best by count and likelihood (None: of none); among equal ones the first stay."""
    if keep is None or len(n_correct) <= keep:
        return np.empty(0, dtype=np.int64)
    order: np.ndarray = np.argsort(-count_and_likelihood(n_correct, log_likelihood), kind="stable")
    return order[keep:]


def images_scored(source: Source, rounds: Sequence[Round], *, n_classes: np.ndarray) -> np.ndarray:
    """How many images the last round of each candidate had: (K, P) int64, `n_classes` being what `race` says."""
    n_images = np.zeros_like(n_classes)
    for one in rounds:
        for k, index in enumerate(part_of(source, one.classes).subsets.values()):
            n_images[k, n_classes[k] == len(one.classes)] = len(index)
    return n_images


def racing_cost(
    source: Source, texts: Sequence[str], rounds: Sequence[Round], *, n_classes: np.ndarray, period: bool
) -> tuple[Cost, list[Cost]]:
    """What a race took: for all seeds together, and what it takes for each seed alone.

    Every round is paid for in full, though its classes hold the last round's.

    Args:
        n_classes: (K, P), what `race` says.
    """
    together, alone = NOTHING, [NOTHING] * len(n_classes)
    for number, one in enumerate(rounds):
        part = part_of(source, one.classes)
        inside: np.ndarray = n_classes >= len(one.classes)
        whole = _cost(part, texts, np.any(inside, axis=0), period=period)
        each = [_cost(part, texts, mine, period=period) for mine in inside] if number else [whole] * len(inside)
        together, alone = together + whole, [one + cost for one, cost in zip(alone, each, strict=True)]
    return together, alone


def _cost(part: Source, texts: Sequence[str], inside: np.ndarray, *, period: bool) -> Cost:
    return cost_of([texts[i] for i in np.flatnonzero(inside).tolist() if texts[i]], period=period, source=part)
