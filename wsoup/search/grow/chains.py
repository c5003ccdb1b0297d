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

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from torch import Tensor

from wsoup.core.draws import member_generator
from wsoup.search.grow.greedy import BATCHES, Judgement, next_rise
from wsoup.soup.member import Member, Step


def word_chain(
    first: str,
    *,
    candidates: Sequence[str],
    count: Callable[[Sequence[str]], Tensor | np.ndarray],
    max_words: int,
    batches: tuple[int, int] = BATCHES,
) -> Member:
    """The inner loop of Algorithm 2: grow one chain from its first word.

    Args:
        first: the first word.
        candidates: words to try, each once, in this order.
        count: texts -> (P,) correct counts, for whole chains such as ``"alpha beta"``.
        max_words: stop when the chain has so many words.
        batches: words that are tried together, at first and at most; they change nothing but the speed.
    """

    def judge(texts: Sequence[str]) -> list[Judgement]:
        return [(int(n_correct), int(n_correct)) for n_correct in count(texts)]

    return grown_chain(first, candidates=candidates, judge=judge, max_words=max_words, batches=batches)[0]


def grown_chain(
    first: str,
    *,
    candidates: Sequence[str],
    judge: Callable[[Sequence[str]], Iterable[Judgement]],
    max_words: int,
    batches: tuple[int, int],
) -> tuple[Member, Judgement]:
    """A chain that takes every word with which it is judged better, and its own judgement.

    Args:
        first, candidates, max_words, batches: as of `word_chain`.
        judge: whole chains -> what must rise, the correct count, and what else is wanted of the chain in the end.
    """
    chain, start = first, 0
    (judged,) = judge([first])
    trace = [Step(first, judged[1])]

    def judge_further(tried: slice) -> Iterable[Judgement]:
        return judge([f"{chain} {word}" for word in candidates[tried]])

    while len(trace) < max_words:
        rise = next_rise(len(candidates), start=start, bar=judged[0], judge=judge_further, batches=batches)
        if rise is None:
            break
        place, judged = rise
        chain, start = f"{chain} {candidates[place]}", place + 1
        trace.append(Step(candidates[place], judged[1]))
    return Member(text=chain, n_correct=judged[1], trace=tuple(trace)), judged


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
