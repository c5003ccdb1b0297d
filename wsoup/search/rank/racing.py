"""Ranking a pool by racing: successive halving over classes, so that most candidates are scored on few classes only.

A candidate costs one text per class. In each round the remaining candidates are scored on the images of a share of the
classes, among those classes alone, and the ones with the highest z(count) + z(k2) stay (`count_and_likelihood`). The
last round has all classes and images, and gives the same columns as ranking the whole pool. Classes are drawn once for
all seeds, and each round includes those of the one before; images come with their classes, and cost no tokens.

Each seed keeps its own candidates, judged on its own images; those that only other seeds keep are encoded in the same
pass but ignored. With C classes the first round has at least two, or 2 / C of the tokens of the whole ranking, so
racing saves little with few classes. Source: this project, after successive halving (Jamieson and Talwalkar 2016).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add

import numpy as np
import torch

from wsoup.core.draws import named_generator
from wsoup.search.rank.params import RacingRound
from wsoup.search.rank.ranking import count_and_likelihood
from wsoup.search.rank.source import Source, cost_of
from wsoup.search.rank.statistics import COLUMNS
from wsoup.soup.member import NOTHING, Cost

FEWEST_CLASSES = 2
"""With one class, every prediction is right."""


@dataclass(frozen=True)
class Round:
    """One round of a race.

    Attributes:
        classes: labels in rising order.
        keep: number of candidates for the next round; None for the last round, which has all classes.
    """

    classes: tuple[int, ...]
    keep: int | None


def rounds_of(race: Sequence[RacingRound], *, n_classes: int) -> list[Round]:
    """The rounds of a race, followed by one with all classes; without a race, only that one.

    Rounds that would have the same classes, if there are few, become one, which keeps what the later one keeps.
    """
    order = named_generator("racing").permutation(n_classes)
    keep = {max(FEWEST_CLASSES, round(params.classes * n_classes)): params.keep for params in race}
    first = [Round(tuple(sorted(order[:size].tolist())), keep[size]) for size in sorted(keep) if size < n_classes]
    return [*first, Round(tuple(range(n_classes)), None)]


def part_of(source: Source, classes: Sequence[int]) -> Source:
    """The source with only these classes and their images, labelled in their order; itself if these are all classes."""
    if len(classes) == len(source.class_names):
        return source
    device = source.labels.device
    label = torch.full((len(source.class_names),), -1, device=device)
    label[torch.tensor(classes, device=device)] = torch.arange(len(classes), device=device)
    inside = label[source.labels] >= 0
    position = torch.cumsum(inside, dim=0) - 1
    return replace(
        source,
        image_features=source.image_features[inside],
        labels=label[source.labels[inside]],
        subsets={seed: position[index[inside[index]]] for seed, index in source.subsets.items()},
        class_names=[source.class_names[i] for i in classes],
    )


def race(
    source: Source,
    texts: Sequence[str],
    rounds: Sequence[Round],
    *,
    score: Callable[[Source, Sequence[str]], Mapping[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Run a race.

    Args:
        source: its classes and images, for K seeds.
        texts: P distinct candidates; "", the bare class name, goes through all rounds.
        rounds: `rounds_of`.
        score: (part of the source, P' of the texts, in order) -> `COLUMNS`, (K, P') each.

    Returns:
        `COLUMNS`, ``n_classes`` and ``n_images``, (K, P) each: for each seed the scores of a candidate in its last
        round, and the size of that round. Only candidates with equally many classes are comparable.
    """
    shape = len(source.subsets), len(texts)
    left = np.ones(shape, dtype=bool)
    candidate = np.array([bool(text) for text in texts], dtype=bool)
    columns: dict[str, np.ndarray] = {name: np.zeros(shape, dtype=np.int64) for name in ("n_classes", "n_images")}
    for each in rounds:
        part = part_of(source, each.classes)
        scored = np.flatnonzero(left.any(axis=0))
        scores = score(part, [texts[i] for i in scored.tolist()])
        for name in COLUMNS:
            values = columns.setdefault(name, np.zeros(shape, dtype=scores[name].dtype))
            values[:, scored] = np.where(left[:, scored], scores[name], values[:, scored])
        columns["n_classes"][left] = len(each.classes)
        for k, images in enumerate(part.subsets.values()):
            columns["n_images"][k, left[k]] = len(images)
            here = np.flatnonzero(left[k] & candidate)
            if each.keep is not None and len(here) > each.keep:
                value = count_and_likelihood(columns["n_correct"][k, here], columns["k2"][k, here])
                left[k, here[np.argsort(-value, kind="stable")[each.keep :]]] = False  # of equal ones the first stay
    return columns


def racing_cost(
    source: Source, texts: Sequence[str], rounds: Sequence[Round], *, n_classes: np.ndarray, period: bool
) -> tuple[Cost, list[Cost]]:
    """The cost of a race: for all seeds together, and for each seed alone.

    Every round is paid in full, although it includes the classes of the one before.

    Args:
        source, texts, rounds, period: as they raced.
        n_classes: (K, P), from `race`.
    """
    together, alone = NOTHING, [NOTHING] * len(n_classes)
    for number, each in enumerate(rounds):
        part = part_of(source, each.classes)
        inside: np.ndarray = n_classes >= len(each.classes)
        whole = _cost(part, texts, np.any(inside, axis=0), period=period)
        by_seed = (
            [_cost(part, texts, of_seed, period=period) for of_seed in inside] if number else [whole] * len(inside)
        )
        together, alone = together + whole, list(map(add, alone, by_seed))
    return together, alone


def _cost(part: Source, texts: Sequence[str], inside: np.ndarray, *, period: bool) -> Cost:
    return cost_of([texts[i] for i in np.flatnonzero(inside).tolist() if texts[i]], period=period, source=part)
