"""Algorithm 1 (descriptor soup) and Algorithm 2 (word soup) of arXiv 2311.13612, over passed-in features and counts.

Accuracy is an integer count, and a text is added only where the count rises strictly. Candidates are tried in
speculative batches: a whole batch is counted against the soup or chain as it stands, the first one that rises is
accepted, and those after it are counted again against the new state. The result is that of the one-by-one loop, to the
letter, whatever the batch sizes.

Differs from the authors' pseudo-code, which forgets to raise the bar after an accepted word; their text and their code
(Chris210634/word_soups, preprocess/get_greedy_word_soup.py) raise it. Differs from their code in that every draw comes
from a generator of its own, and ties rank by pool order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsoup.errors import PoolError
from wsoup.scoring import correct_per_candidate, normalize

SMALLEST_BATCH, LARGEST_BATCH = 8, 64
"""Speculative batches start small after an acceptance, when the next one is likely, and double while nothing rises."""


@dataclass(frozen=True)
class Step:
    """One thing added, and the count of correct images after it."""

    added: str
    n_correct: int


@dataclass(frozen=True)
class Member:
    """One text of a soup and how it came about.

    Attributes:
        text: descriptor or chain of words, bare.
        n_correct: source training images right. For a descriptor soup: of the soup up to and with this member; for a
            word chain: of this chain alone, as it stood in the search.
        trace: what was added and the count after it.
    """

    text: str
    n_correct: int
    trace: tuple[Step, ...]

    def as_json(self, *, n_images: int, n_correct: int | None = None) -> dict[str, object]:
        """A member as a soup file holds it; `n_correct` replaces the search's count by that of the finished text."""
        return {
            "text": self.text,
            "n_correct": self.n_correct if n_correct is None else n_correct,
            "n_images": n_images,
            "trace": [{"added": step.added, "n_correct": step.n_correct} for step in self.trace],
        }


Measure = Callable[[Tensor], tuple[Sequence[int], Sequence[int]]]
"""Sums of member features (B, classes, D) -> for each of the B what must rise, and its correct images."""


def descriptor_soup(
    ranked: Sequence[str], *, features: Callable[[Sequence[str]], Iterator[Tensor]], measure: Measure, m: int
) -> list[Member]:
    """Algorithm 1: start with the best descriptor, add each next one that makes the centroid strictly better.

    Args:
        ranked: descriptors by falling accuracy.
        features: texts -> blocks (b, C, D) of their L2-normalised features, in order. Only as many texts as the walk
            needs are asked for.
        measure: what is to rise; `right_on` for the algorithm of the paper.
        m: stop with so many members; the walk may end with fewer.

    Returns:
        At most m members, in the order in which they were added. A longer soup begins with a shorter one.

    Raises:
        PoolError: there are no descriptors.
    """
    if not ranked:
        raise PoolError("the pool of descriptors is empty: there is nothing to make a soup of")
    members: list[Member] = []
    total, bar, position = torch.zeros(()), -1, 0
    for block in features(ranked):
        start, batch = 0, SMALLEST_BATCH
        while start < len(block) and len(members) < m:
            tried = block[start : start + (batch if members else 1)]
            values, counts = measure(total + tried)
            risen = next((i for i, value in enumerate(values) if value > bar), None)
            if risen is None:
                start, batch = start + len(tried), min(2 * batch, LARGEST_BATCH)
                continue
            total, bar, n_correct = total + tried[risen], values[risen], counts[risen]
            text = ranked[position + start + risen]
            members.append(Member(text=text, n_correct=n_correct, trace=(Step(text, n_correct),)))
            start, batch = start + risen + 1, SMALLEST_BATCH
        position += len(block)
        if len(members) == m:
            break
    return members


def right_on(image_features: Tensor, labels: Tensor) -> Measure:
    """Measure soups by the images (N, D) with labels (N,) that their centroids get right."""

    def measure(sums: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        # A mean is its sum once normalised.
        counts = correct_per_candidate(image_features, labels, normalize(sums)).sum(dim=1).tolist()
        return counts, counts

    return measure


def word_chain(
    first: str,
    *,
    candidates: Sequence[str],
    count: Callable[[Sequence[str]], Tensor | np.ndarray],
    max_words: int,
) -> Member:
    """The inner loop of Algorithm 2: grow one chain from its first word.

    Args:
        first: the first word.
        candidates: words to try, each once, in this order.
        count: texts -> (P,) correct counts, for whole chains such as ``"alpha beta"``.
        max_words: stop when the chain has so many words.
    """
    chain, bar = first, int(count([first])[0])
    trace = [Step(first, bar)]
    start, batch = 0, SMALLEST_BATCH
    while start < len(candidates) and len(trace) < max_words:
        tried = candidates[start : start + batch]
        counts = np.asarray(count([f"{chain} {word}" for word in tried]))
        risen = np.flatnonzero(counts > bar)
        if len(risen):
            word, bar = tried[risen[0]], int(counts[risen[0]])
            chain = f"{chain} {word}"
            trace.append(Step(word, bar))
            start, batch = start + int(risen[0]) + 1, SMALLEST_BATCH
        else:
            start, batch = start + len(tried), min(2 * batch, LARGEST_BATCH)
    return Member(text=chain, n_correct=bar, trace=tuple(trace))


def member_generator(*, purpose: str, seed: int, member: int) -> np.random.Generator:
    """The generator of one soup member, independent of all others."""
    return np.random.default_rng([*purpose.encode(), seed, member])


def draw_chain_words(
    ranked: Sequence[str], *, k0: int, k1: int, patience: int, generator: np.random.Generator
) -> tuple[str, list[str]]:
    """First word from the top k0, then the top k1 shuffled and cut to `patience`: (first, candidates).

    Raises:
        PoolError: fewer words than k1.
    """
    if len(ranked) < k1:
        raise PoolError(f"word_soup.k1 is {k1} but the pool has {len(ranked)} words; lower k1 or give more words")
    first = ranked[int(generator.integers(k0))]
    order = generator.permutation(k1)[:patience]
    return first, [ranked[i] for i in order]


def word_soup_member(
    ranked: Sequence[str],
    *,
    member: int,
    seed: int,
    k0: int,
    k1: int,
    patience: int,
    max_words: int,
    count: Callable[[Sequence[str]], Tensor | np.ndarray],
) -> Member:
    """Algorithm 2 for member number `member`: the m chains of a soup are independent of each other.

    Args:
        ranked: words by falling accuracy.
        member, seed: name this chain's generator, so that a soup of 16 begins with the soup of 8.
        k0, k1, patience, max_words: as in params.yaml.
        count: see `word_chain`.
    """
    generator = member_generator(purpose="word_soup", seed=seed, member=member)
    first, candidates = draw_chain_words(ranked, k0=k0, k1=k1, patience=patience, generator=generator)
    return word_chain(first, candidates=candidates, count=count, max_words=max_words)
