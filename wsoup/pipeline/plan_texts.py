"""How many texts and tokens each stage encodes: the stages' own way of encoding, with a model that only counts.

What a search asks for depends on what it finds, so soups come as a range: from chains that stop growing at once to
chains that grow at the worst moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from wsoup.core.prompts import stems, with_comma
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.classifiers import ClassRow, Row
from wsoup.evaluate.cost import flops_per_token
from wsoup.evaluate.counts import mean_of_stems, mean_prompts
from wsoup.evaluate.encoded import CLASS_PROMPTS
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.evaluate.transfer import Grid, sample
from wsoup.params.evaluation import SurveyParams
from wsoup.search.grow.chains import word_soup_member
from wsoup.search.grow.greedy import LARGEST_BATCH
from wsoup.search.grow.params import Growth, JointSoup, SoupParams
from wsoup.search.grow.soups import check_enough
from wsoup.search.rank.racing import Round, part_of
from wsoup.search.rank.scores import shards
from wsoup.search.rank.source import Source
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tokens import token_lengths
from wsoup.towers.encoder import Encoder

MANY_TEXTS = 2_000_000
"""Beyond so many texts shards are sampled, and the rest is told from them."""


@dataclass(frozen=True)
class Count:
    """What a stage encodes: at least and at most; FLOPs go with the most.

    Attributes:
        texts, tokens: (least, most).
        flops: multiplications and additions in matrix products.
        exact: False where some of it was counted on a sample.
    """

    texts: tuple[int, int]
    tokens: tuple[int, int]
    flops: int
    exact: bool = True

    def times(self, factor: float, *, once: Count | None = None) -> Count:
        """So many times as much; `once` is the part that comes once."""
        if once is not None:
            return (self + once.minus()).times(factor) + once
        low, high = (tuple(round(pair[i] * factor) for pair in (self.texts, self.tokens)) for i in (0, 1))
        return replace(
            self, texts=(low[0], high[0]), tokens=(low[1], high[1]), flops=round(self.flops * factor), exact=False
        )

    def minus(self) -> Count:
        """To be taken off."""
        (texts, most), (tokens, most_tokens) = self.texts, self.tokens
        return Count((-texts, -most), (-tokens, -most_tokens), -self.flops, self.exact)

    def __add__(self, other: Count) -> Count:
        pairs = [
            (a[0] + b[0], a[1] + b[1]) for a, b in ((self.texts, other.texts), (self.tokens, other.tokens))
        ]  # fmt: skip
        return Count(pairs[0], pairs[1], self.flops + other.flops, self.exact and other.exact)


class Counter:
    """Counts what one process encodes, with the check against `encode_text` that comes first."""

    def __init__(self, texts: PromptEncoder) -> None:
        self.texts = texts
        self._token_flops = flops_per_token(texts, prompt="a")
        self.checked = self.done()

    def done(self, *, exact: bool = True) -> Count:
        """Everything so far."""
        n, tokens = self.texts.texts_encoded, self.texts.tokens_encoded
        flops = self.texts.flops if self.texts.way == "fast" else tokens * self._token_flops
        return Count((n, n), (tokens, tokens), flops, exact)


def weightless_source(encoder: Encoder, *, template: str, class_names: list[str]) -> Source:
    """The source's class texts without its images."""
    return Source(
        encoder=encoder,
        image_features=torch.empty(0, 0),
        labels=torch.empty(0, dtype=torch.int64),
        subsets={},
        template=template,
        class_names=class_names,
    )


def score(source: Source, pool: Sequence[str], *, heats: Sequence[Round], n_seeds: int, **how: Any) -> list[Count]:
    """Stage score, each round of it: every candidate with every class; in a race, those that are left with its classes.

    How many texts are left is between what one seed keeps and what all keep, which ones the race decides: at least the
    shortest, at most the longest.

    Args:
        heats: `wsoup.search.rank.racing.rounds`.
        n_seeds: each keeps its own.
        how: of `_scored`.
    """
    found, least, most = [], len(pool), len(pool)
    by_length = sorted(pool, key=len)
    for heat in heats:
        part = part_of(source, heat.classes)
        if most == len(pool) == least:
            found.append(_scored(part, pool, **how))
        else:
            low, high = (_scored(part, texts, **how) for texts in (by_length[:least], by_length[-most:]))
            counts = (low.texts[0], high.texts[1]), (low.tokens[0], high.tokens[1])
            found.append(Count(*counts, high.flops, exact=False))
        if heat.keep is not None:
            least, most = min(heat.keep, least), min(heat.keep * n_seeds, most)
    return found


def _scored(source: Source, pool: Sequence[str], *, period: bool, shard_size: int) -> Count:
    """One round, shard by shard."""
    counter = Counter(source.texts)
    _use_up(source.text_blocks([""], period=period))  # what the statistics compare with
    cut = shards(["", *pool], size=shard_size)
    most = max(2, MANY_TEXTS // (shard_size * len(source.class_names)))
    step = -(-len(cut) // most)
    for shard in cut[::step]:
        _use_up(source.text_blocks(shard, period=period))
    counted = sum(map(len, cut[::step]))
    found = counter.done()
    return found if step == 1 else found.times((len(pool) + 1) / counted, once=counter.checked)


def soup(source: Source, ranked: Sequence[str], definition: SoupParams, *, seeds: Sequence[int], period: bool) -> Count:
    """Stage soup: the search of every seed at least and at most, and the counts of what it found."""
    check_enough(definition, len(ranked))
    counter = Counter(source.texts)
    if isinstance(definition, Growth):
        found = _chains(source, ranked[: definition.k1], definition, seed=seeds[0], period=period)
        found = found.times(definition.m)
    elif definition.walks:
        found = _greedy(source, ranked, period=period)
        counted = _asked(source, sorted(ranked, key=len)[-definition.m :], period=True)
        found += replace(counted, texts=(0, counted.texts[1]), tokens=(0, counted.tokens[1]))
    else:
        found = _asked(source, ranked[: definition.m], period=True)
        longest = _asked(source, sorted(ranked, key=len)[-definition.m :], period=True)
        found = replace(found, tokens=(0, found.tokens[1] + longest.tokens[1]))
    name = _asked(source, [""], period=True)
    names = 3 if isinstance(definition, JointSoup) else 1  # of the class name alone, at most
    found += Count((name.texts[0], names * name.texts[1]), (0, names * source_tokens(source)), names * name.flops)
    return found.times(len(seeds)) + counter.checked


def source_tokens(source: Source) -> int:
    """Tokens of all class prompts, whole: no beginning of theirs costs more."""
    prompts = with_comma(stems(source.template, source.class_names))
    return int(token_lengths(prompts, tokenizer=source.encoder.tokenizer).sum())


def _asked(source: Source, texts: Sequence[str], *, period: bool) -> Count:
    """What some texts take, of what is not kept yet."""
    counter = Counter(source.texts)
    _use_up(source.text_blocks(list(texts), period=period))
    return counter.done() + counter.checked.minus()


def _greedy(source: Source, ranked: Sequence[str], *, period: bool) -> Count:
    """From the first block of the pool to all of it."""
    counter = Counter(source.texts)
    most = max(1, MANY_TEXTS // len(source.class_names))
    blocks = source.text_blocks(ranked[:most], period=period)
    next(blocks)
    first = counter.done() + counter.checked.minus()
    _use_up(blocks)
    whole = counter.done() + counter.checked.minus()
    if len(ranked) > most:
        whole = whole.times(len(ranked) / most)
    return Count((first.texts[0], whole.texts[1]), (first.tokens[0], whole.tokens[1]), whole.flops, whole.exact)


def _chains(source: Source, kept: Sequence[str], definition: Growth, *, seed: int, period: bool) -> Count:
    """One chain, told from the one that never grows and the one that always does."""
    # The first one computes the class prompts, too; to the others they are known.
    never, always, again_never = (
        _chain(source, list(kept), definition, seed=seed, period=period, grows=grows) for grows in (0, 1, 0)
    )
    classes, growths = len(source.class_names), min(definition.max_words, len(kept)) - 1
    again = growths * min(LARGEST_BATCH - 1, definition.patience) * classes  # texts counted again after a growth
    texts = never.texts[1] + again
    each = never.tokens[1] / never.texts[1]
    longest = min(8, max(len(word) for word in kept))  # no token is shorter than a letter
    tokens = round(each * texts) + classes * (growths + 1) * longest * (growths + 2)
    low = [min(getattr(again_never, name)[0], getattr(always, name)[0]) for name in ("texts", "tokens")]
    return Count((low[0], texts), (low[1], tokens), round(never.flops * tokens / never.tokens[1]), exact=False)


def _chain(source: Source, ranked: list[str], definition: Growth, *, seed: int, period: bool, grows: int) -> Count:
    counter, bar = Counter(source.texts), 0

    def count(texts: Sequence[str]) -> np.ndarray:
        nonlocal bar
        _use_up(source.text_blocks(texts, period=period))
        bar += grows
        return np.full(len(texts), bar)

    chain = word_soup_member(
        ranked,
        member=0,
        seed=seed,
        k0=definition.k0,
        k1=definition.k1,
        patience=definition.patience,
        max_words=definition.max_words,
        count=count,
    )
    _use_up(source.text_blocks([chain.text], period=True))
    return counter.done() + counter.checked.minus()


def rows(
    encoder: Encoder,
    some: Sequence[Row],
    *,
    class_rows: Sequence[ClassRow],
    beside: Sequence[Row],
    tests: Sequence[TestSet],
) -> Count:
    """Evaluation: every text of the rows with every class prompt, block by block, the prompts by class, and random rows
    beside the soups, in one go."""
    texts = PromptEncoder.of(encoder)
    counter, every = Counter(texts), ClassPrompts(tests).stems
    for start in range(0, len(every), CLASS_PROMPTS):
        mean_of_stems(some, stems=every[start : start + CLASS_PROMPTS], encoder=texts)
    for row in class_rows:
        mean_prompts(row, encoder=texts)
    mean_of_stems(beside, stems=every, encoder=texts)
    return counter.done()


def survey(
    encoder: Encoder,
    params: SurveyParams,
    *,
    tests: Sequence[TestSet],
    source: Source,
    words: Sequence[str],
    descriptors: Sequence[str],
    seed: int,
    period: bool,
) -> Count:
    """Stage survey: its descriptors on every dataset, again for the upper bound where they are not kept, and chains."""
    texts = PromptEncoder.of(encoder)
    drawn = sample(descriptors, size=params.descriptors)
    grid, counter = Grid(["", *drawn], tests=tests, encoder=texts), Counter(texts)
    _use_up(grid.blocks(grid.texts))
    once = counter.done()
    _use_up(grid.blocks(drawn))
    twice = counter.done()
    on_source, lengths = Counter(source.texts), [params.chain_length] * params.chains
    for group in ([""], random_chains(words, lengths=lengths, seed=seed)):
        _use_up(source.text_blocks(group, period=period))
    ranged = Count((once.texts[0], twice.texts[1]), (once.tokens[0], twice.tokens[1]), twice.flops)
    return ranged + on_source.done()


def _use_up(blocks: object) -> None:
    for _ in blocks:  # type: ignore[attr-defined]
        pass
