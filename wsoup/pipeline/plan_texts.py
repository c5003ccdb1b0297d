"""How many texts and tokens a stage encodes: its own way of encoding, with a model that only counts.

A number of texts, tokens and FLOPs (multiplications and additions in matrix products) is an array (3,) float64, a range
from the least to the most of them an array (2, 3). What a search asks for depends on what it finds, so soups come as a
range: from chains that stop growing at once to chains that grow at the worst moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.classifiers import Row
from wsoup.evaluate.counts import mean_of_stems, mean_prompts
from wsoup.evaluate.encoded import CLASS_PROMPTS
from wsoup.evaluate.params import SurveyParams
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.evaluate.transfer import Grid, sample
from wsoup.search.grow.chains import word_soup_member
from wsoup.search.grow.greedy import BATCHES
from wsoup.search.grow.params import Growth, JointSoup, SoupParams
from wsoup.search.grow.soups import check_enough
from wsoup.search.rank.racing import Round, part_of
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import shards
from wsoup.texts.encoder import PromptEncoder

MANY_TEXTS = 2_000_000
"""Beyond so many texts shards are sampled, and the rest is told from them."""
TEXTS, TOKENS = 0, 1


def so_far(texts: PromptEncoder) -> np.ndarray:
    """What has been encoded: (3,); its check against `encode_text`, which comes before all else, included."""
    assert texts.way  # the check is made
    return np.array([texts.texts_encoded, texts.tokens_encoded, texts.flops], dtype=np.float64)


def encoded(texts: PromptEncoder, blocks: Iterable[object]) -> np.ndarray:
    """What some blocks take: (3,); they are encoded here."""
    before = so_far(texts)
    for _ in blocks:
        pass
    return so_far(texts) - before


def _asked(source: Source, texts: Sequence[str], *, period: bool) -> np.ndarray:
    """What some texts with every class take beyond what is kept: (3,)."""
    return encoded(source.texts, source.text_blocks(list(texts), period=period))


# ------------------------------------------------------------------------------------------------------------- score


def score(
    source: Source, pool: Sequence[str], *, rounds: Sequence[Round], n_seeds: int, period: bool, shard_size: int
) -> list[np.ndarray]:
    """Stage score: the range of every round. Without a race there is one, of every candidate with every class.

    How many candidates are left for a later round is between what one seed keeps and what all keep; which ones, the
    race decides: at least the shortest, at most the longest.
    """
    ranges, least, most = [], len(pool), len(pool)
    by_length = sorted(pool, key=len)
    for one in rounds:
        part = part_of(source, one.classes)
        groups = [pool] if least == len(pool) else [by_length[:least], by_length[-most:]]
        # Each with an encoder of its own, which has kept nothing yet.
        counts = [_scored(replace(part), texts, period=period, shard_size=shard_size) for texts in groups]
        ranges.append(np.stack([counts[0], counts[-1]]))
        if one.keep is not None:
            least, most = min(one.keep, least), min(one.keep * n_seeds, most)
    return ranges


def _scored(source: Source, pool: Sequence[str], *, period: bool, shard_size: int) -> np.ndarray:
    """One round, shard by shard: (3,)."""
    check = so_far(source.texts)
    chosen = sampled(pool, shard_size=shard_size, n_classes=len(source.class_names))
    for texts in ([""], *chosen):  # the class name alone first, which the statistics compare with
        _asked(source, texts, period=period)
    share = sum(map(len, chosen)) / (len(pool) + 1)
    return check + (so_far(source.texts) - check) / share


def sampled(pool: Sequence[str], *, shard_size: int, n_classes: int) -> list[Sequence[str]]:
    """The shards of a pool that are encoded here: all of them, or where they hold too many texts every so many-th."""
    cut = shards(["", *pool], size=shard_size)
    return cut[:: -(-len(cut) // max(2, MANY_TEXTS // (shard_size * n_classes)))]


# ------------------------------------------------------------------------------------------------------------- soups


def soup(
    source: Source, ranked: Sequence[str], definition: SoupParams, *, seeds: Sequence[int], period: bool
) -> np.ndarray:
    """Stage soup: the range of the search of every seed, and of the counts of what it finds."""
    check = so_far(source.texts)
    check_enough(definition, len(ranked))
    longest = sorted(ranked, key=len)[-definition.m :]
    if isinstance(definition, Growth):
        search = definition.m * _chain(source, ranked[: definition.k1], definition, seed=seeds[0], period=period)
    elif definition.walks:
        search = _greedy(source, ranked, period=period)
        search[1] += _asked(source, longest, period=True)
    else:
        first = _asked(source, ranked[: definition.m], period=True)
        search = np.stack([first * [1, 0, 0], first + _asked(source, longest, period=True) * [0, 1, 1]])
    name = _asked(replace(source), [""], period=True)  # encoded again where it is not kept
    times = 3 if isinstance(definition, JointSoup) else 1  # the class name alone is asked for, at most
    return check + len(seeds) * (search + np.stack([name * [1, 0, 0], times * name]))


def _greedy(source: Source, ranked: Sequence[str], *, period: bool) -> np.ndarray:
    """From the first block of the pool to all of it: (2, 3)."""
    most = max(1, MANY_TEXTS // len(source.class_names))
    blocks = source.text_blocks(ranked[:most], period=period)
    first = encoded(source.texts, islice(blocks, 1))
    whole = first + encoded(source.texts, blocks)
    return np.stack([first, whole * max(1.0, len(ranked) / most)])


def _chain(source: Source, kept: Sequence[str], definition: Growth, *, seed: int, period: bool) -> np.ndarray:
    """One chain, told from the one that never grows and the one that always does: (2, 3)."""
    # The first one computes the class prompts, too; to the others they are known.
    never, always, again_never = (
        _grown(source, list(kept), definition, seed=seed, period=period, rise=rise) for rise in (0, 1, 0)
    )
    classes, growths = len(source.class_names), min(definition.max_words, len(kept)) - 1
    again = growths * min(BATCHES[1] - 1, definition.patience) * classes  # texts counted again after a growth
    texts = never[TEXTS] + again
    longest = min(8, max(len(word) for word in kept))  # no token is shorter than a letter
    tokens = never[TOKENS] / never[TEXTS] * texts + classes * (growths + 1) * longest * (growths + 2)
    most = np.array([texts, tokens, never[2] * tokens / never[TOKENS]])
    return np.round(np.stack([np.minimum(again_never, always), most]))


def _grown(source: Source, ranked: list[str], definition: Growth, *, seed: int, period: bool, rise: int) -> np.ndarray:
    """A chain whose count rises by so much with every text that is tried: (3,)."""
    before, bar = so_far(source.texts), 0

    def count(texts: Sequence[str]) -> np.ndarray:
        nonlocal bar
        _asked(source, texts, period=period)
        bar += rise
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
    _asked(source, [chain.text], period=True)
    return so_far(source.texts) - before


# -------------------------------------------------------------------------------------------------------- evaluation


def evaluation(
    texts: PromptEncoder,
    rows: Sequence[Row],
    *,
    class_rows: Sequence[Row],
    beside: Sequence[Row],
    tests: Sequence[TestSet],
) -> np.ndarray:
    """Every text of the rows with every class prompt, block by block, the prompts by class, and random rows beside the
    soups, in one go, with what `texts` encoded before: (3,)."""
    every = ClassPrompts(tests).stems
    for start in range(0, len(every), CLASS_PROMPTS):
        mean_of_stems(rows, stems=every[start : start + CLASS_PROMPTS], encoder=texts)
    for row in class_rows:
        mean_prompts(row, encoder=texts)
    mean_of_stems(beside, stems=every, encoder=texts)
    return so_far(texts)


def survey(
    source: Source,
    params: SurveyParams,
    *,
    tests: Sequence[TestSet],
    words: Sequence[str],
    descriptors: Sequence[str],
    seed: int,
    period: bool,
) -> np.ndarray:
    """Stage survey: its descriptors on every dataset, again for the upper bound where they are not kept, and chains."""
    texts = PromptEncoder.of(source.encoder)
    drawn = sample(descriptors, size=params.descriptors)
    grid = Grid(["", *drawn], tests=tests, encoder=texts)
    once = so_far(texts) + encoded(texts, grid.blocks(grid.texts))
    twice = once + encoded(texts, grid.blocks(drawn))
    chains = random_chains(words, lengths=[params.chain_length] * params.chains, seed=seed)
    for group in ([""], chains):
        _asked(source, group, period=period)
    return np.stack([once, twice]) + so_far(source.texts)
