"""Algorithm 2 of arXiv 2311.13612, the word soup: m independent chains of words.

A word is added only if the integer count of correct images rises strictly. Unlike the authors' pseudo-code, and like
their text and code (Chris210634/word_soups, preprocess/get_greedy_word_soup.py), the bar rises after an accepted word.
Unlike their code, every draw has its own generator, and ties rank by pool order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from wsoup.core.member import Member, Step
from wsoup.search.grow.kind import Growth, counted_alone
from wsoup.search.grow.rising import Judgement, rises

if TYPE_CHECKING:
    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked


class ChainsSoup(Growth):
    """Algorithm 2: m chains of words, each grown by every word that raises the chain's own count."""

    kind: Literal["chains"]

    @property
    def parts(self) -> int:
        """The chains are independent."""
        return self.m

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """One chain: the inner loop of Algorithm 2."""
        words = self.draw(ranked.texts, member=part, seed=meter.seed)
        trace: list[Step] = []

        def judge(some: Sequence[str]) -> Iterator[Judgement]:
            chain = [step.added for step in trace]
            longer = [" ".join([*chain, word]) for word in some]
            counts = meter.count(longer)
            return (Judgement(count, count) for count in counts.tolist())

        for index, judged in islice(rises(words, judge=judge), self.max_words):
            trace.append(Step(words[index], judged.n_correct))
        # Never empty: without a bar, the first word is accepted.
        text = " ".join(step.added for step in trace)
        return [Member(text, trace[-1].n_correct, trace=tuple(trace))]

    def final_counts(self, texts: Sequence[str], meter: Meter) -> list[int]:
        """Of each chain alone."""
        return counted_alone(texts, meter)
