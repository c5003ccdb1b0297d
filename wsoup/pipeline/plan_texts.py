"""How many texts and tokens each stage encodes: the stages' own code runs with a model that only counts.

Texts, tokens and FLOPs (multiplications and additions in matrix products) are an array (3,) float64; a range from least
to most is an array (2, 3). What a search encodes depends on what it accepts, so soups are a range: from chains that
stop growing at once to chains that grow at the worst moments.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch

from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.classifiers import Row
from wsoup.evaluate.counts import CLASS_PROMPTS, mean_of_stems, mean_prompts
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
from wsoup.towers.encoder import Encoder

MANY_TEXTS = 2_000_000
"""Of more texts than this a sample is encoded, and the rest is computed from it."""
TEXTS, TOKENS, FLOPS = 0, 1, 2


def weightless_source(encoder: Encoder, *, template: str, class_names: list[str]) -> Source:
    """A source's class texts without its images."""
    return Source(
        encoder=encoder,
        image_features=torch.empty(0, 0),
        labels=torch.empty(0, dtype=torch.int64),
        subsets={},
        template=template,
        class_names=class_names,
    )


def so_far(texts: PromptEncoder) -> np.ndarray:
    """Everything encoded so far: (3,), with the check against `encode_text`, which precedes all else."""
    assert texts.way  # makes the check
    return np.array([texts.texts_encoded, texts.tokens_encoded, texts.flops], dtype=np.float64)


def encoded(texts: PromptEncoder, blocks: Iterable[object]) -> np.ndarray:
    """Encode some blocks and count them: (3,)."""
    before = so_far(texts)
    for _ in blocks:
        pass
    return so_far(texts) - before


def _with_classes(source: Source, texts: Sequence[str], *, period: bool) -> np.ndarray:
    """Encode texts with every class, and count what is not kept already: (3,)."""
    return encoded(source.texts, source.text_blocks(list(texts), period=period))


def score(
    source: Source, pool: Sequence[str], *, rounds: Sequence[Round], n_seeds: int, period: bool, shard_size: int
) -> list[np.ndarray]:
    """Stage score: the range of every round. Without a race there is one round, of every candidate with every class.

    A later round has between as many candidates as one seed keeps and as many as all seeds keep together; the race
    decides which, so at least the shortest and at most the longest.
    """
    ranges, least, most = [], len(pool), len(pool)
    by_length = sorted(pool, key=len)
    for race_round in rounds:
        part = part_of(source, race_round.classes)
        groups = [pool] if least == len(pool) else [by_length[:least], by_length[-most:]]
        # Each group has an encoder of its own, which has kept nothing yet.
        counts = [_scored(replace(part), texts, period=period, shard_size=shard_size) for texts in groups]
        ranges.append(np.stack([counts[0], counts[-1]]))
        if race_round.keep is not None:
            least, most = min(race_round.keep, least), min(race_round.keep * n_seeds, most)
    return ranges


def _scored(source: Source, pool: Sequence[str], *, period: bool, shard_size: int) -> np.ndarray:
    """One round, shard by shard: (3,)."""
    check = so_far(source.texts)
    chosen = sampled(pool, shard_size=shard_size, n_classes=len(source.class_names))
    for texts in ([""], *chosen):  # first the class name alone, to which the statistics compare
        _with_classes(source, texts, period=period)
    share = sum(map(len, chosen)) / (len(pool) + 1)
    return check + (so_far(source.texts) - check) / share


def sampled(pool: Sequence[str], *, shard_size: int, n_classes: int) -> list[Sequence[str]]:
    """The shards of a pool to encode: all, or every n-th if they hold more than `MANY_TEXTS`."""
    every = shards(["", *pool], size=shard_size)
    return every[:: -(-len(every) // max(2, MANY_TEXTS // (shard_size * n_classes)))]


def soup(
    source: Source, ranked: Sequence[str], definition: SoupParams, *, seeds: Sequence[int], period: bool
) -> np.ndarray:
    """Stage soup: the range of every seed's search, and of counting the soup in the end."""
    check = so_far(source.texts)
    check_enough(definition, len(ranked))
    longest = sorted(ranked, key=len)[-definition.m :]
    if isinstance(definition, Growth):
        search = definition.m * _chain(source, ranked[: definition.k1], definition, seed=seeds[0], period=period)
    elif definition.walks:
        search = _greedy(source, ranked, period=period)
        search[1] += _with_classes(source, longest, period=True)
    else:
        first = _with_classes(source, ranked[: definition.m], period=True)
        search = np.stack([first * [1, 0, 0], first + _with_classes(source, longest, period=True) * [0, 1, 1]])
    name = _with_classes(replace(source), [""], period=True)  # encoded again unless it is kept
    times = 3 if isinstance(definition, JointSoup) else 1  # how often the class name alone is encoded, at most
    return check + len(seeds) * (search + np.stack([name * [1, 0, 0], times * name]))


def _greedy(source: Source, ranked: Sequence[str], *, period: bool) -> np.ndarray:
    """From the first block of the pool to all of it: (2, 3)."""
    most = max(1, MANY_TEXTS // len(source.class_names))
    blocks = source.text_blocks(ranked[:most], period=period)
    first = encoded(source.texts, islice(blocks, 1))
    total = first + encoded(source.texts, blocks)
    return np.stack([first, total * max(1.0, len(ranked) / most)])


def _chain(source: Source, ranked: Sequence[str], definition: Growth, *, seed: int, period: bool) -> np.ndarray:
    """One chain, bounded by a chain that never grows and one that always does: (2, 3)."""
    # The first one also encodes the class prompts, which the others find kept.
    never, always, never_again = (
        _grown(source, list(ranked), definition, seed=seed, period=period, rise=rise) for rise in (0, 1, 0)
    )
    n_classes, growths = len(source.class_names), min(definition.max_words, len(ranked)) - 1
    recounted = growths * min(BATCHES[1] - 1, definition.patience) * n_classes  # texts counted again after a growth
    texts = never[TEXTS] + recounted
    longest = min(8, max(len(word) for word in ranked))  # no token is shorter than a letter
    tokens = never[TOKENS] / never[TEXTS] * texts + n_classes * (growths + 1) * longest * (growths + 2)
    most = np.array([texts, tokens, never[FLOPS] * tokens / never[TOKENS]])
    return np.round(np.stack([np.minimum(never_again, always), most]))


def _grown(source: Source, ranked: list[str], definition: Growth, *, seed: int, period: bool, rise: int) -> np.ndarray:
    """A chain for which every counted text scores `rise` more than the one before: (3,)."""
    before, bar = so_far(source.texts), 0

    def count(texts: Sequence[str]) -> np.ndarray:
        nonlocal bar
        _with_classes(source, texts, period=period)
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
    _with_classes(source, [chain.text], period=True)
    return so_far(source.texts) - before


def evaluation(
    texts: PromptEncoder,
    rows: Sequence[Row],
    *,
    class_rows: Sequence[Row],
    beside: Sequence[Row],
    tests: Sequence[TestSet],
) -> np.ndarray:
    """Everything that `texts` has encoded after an evaluation: (3,).

    The rows are encoded with blocks of class prompts, then the prompts by class, then the random rows beside the soups
    in one go.
    """
    stems = ClassPrompts(tests).stems
    for start in range(0, len(stems), CLASS_PROMPTS):
        mean_of_stems(rows, stems=stems[start : start + CLASS_PROMPTS], encoder=texts)
    for row in class_rows:
        mean_prompts(row, encoder=texts)
    mean_of_stems(beside, stems=stems, encoder=texts)
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
    """Stage survey: descriptors on every dataset, once more for the upper bound unless they are kept, and chains."""
    texts = PromptEncoder.of(source.encoder)
    drawn = sample(descriptors, size=params.descriptors)
    grid = Grid(["", *drawn], tests=tests, encoder=texts)
    once = so_far(texts) + encoded(texts, grid.blocks(grid.texts))
    twice = once + encoded(texts, grid.blocks(drawn))
    chains = random_chains(words, lengths=[params.chain_length] * params.chains, seed=seed)
    for group in ([""], chains):
        _with_classes(source, group, period=period)
    return np.stack([once, twice]) + so_far(source.texts)
