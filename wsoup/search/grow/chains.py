"""Algorithm 2 of arXiv 2311.13612, the word soup, over passed-in counts: m chains of words, independent of each other.

A word is added only where the integer count of correct images rises strictly. Words are tried in speculative batches,
as in `greedy`, with the result of the one-by-one loop.

Differs from the authors' pseudo-code, which forgets to raise the bar after an accepted word; their text and their code
(Chris210634/word_soups, preprocess/get_greedy_word_soup.py) raise it. Differs from their code in that every draw comes
from a generator of its own, and ties rank by pool order.

`first_word` and `random_length_chain` are controls with the same draws: what is left of Algorithm 2 without growth, and
with chains as long as its own whose words no count was asked about. Source: this project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from wsoup.core.draws import member_generator
from wsoup.search.grow.greedy import LARGEST_BATCH, SMALLEST_BATCH
from wsoup.soup.member import Member, Step


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


def draw_chain_words(
    ranked: Sequence[str], *, k0: int, k1: int, patience: int, generator: np.random.Generator
) -> tuple[str, list[str]]:
    """First word from the top k0, then the top k1 shuffled and cut to `patience`: (first, candidates).

    There are k1 words at least: `wsoup.search.grow.soups.candidates` sees to that.
    """
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


def first_word(ranked: Sequence[str], *, member: int, seed: int, k0: int) -> str:
    """The word that Algorithm 2 starts member number `member` with: any of the top k0 (members may start alike)."""
    return ranked[int(member_generator(purpose="word_soup", seed=seed, member=member).integers(k0))]


def random_length_chain(grown: Member, *, ranked: Sequence[str], member: int, seed: int, k1: int) -> str:
    """The first word of a chain of Algorithm 2 and as many words behind it as that has, any of the top k1.

    Args:
        grown: the chain of Algorithm 2, `word_soup_member` of the same member and seed; its length is all that the
            search decides.
        ranked, member, seed, k1: see `word_soup_member`. The words come from a generator of their own.
    """
    generator = member_generator(purpose="random_lengths", seed=seed, member=member)
    further = generator.permutation(k1)[: len(grown.trace) - 1]
    return " ".join([grown.trace[0].added, *(ranked[i] for i in further)])
