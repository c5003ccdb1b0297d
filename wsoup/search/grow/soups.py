"""From a definition in params.yaml to the members of a soup: the one place that knows which kinds there are.

To add a kind: its model in `wsoup.search.grow.params`, its function in a module beside this one, a case in `_chosen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from wsoup.core.errors import PoolError
from wsoup.search.grow.chains import first_word, random_length_chain, word_soup_member
from wsoup.search.grow.greedy import Measure, greedy_soup, right_on
from wsoup.search.grow.joint import fitted_scale, joint_soup, likely_on
from wsoup.search.grow.params import (
    ChainsSoup,
    FirstWordsSoup,
    GreedySoup,
    JointSoup,
    RandomLengthsSoup,
    SampleSoup,
    SoupParams,
    TopSoup,
)
from wsoup.search.grow.singles import sample, top
from wsoup.search.rank.cost import Meter
from wsoup.search.rank.ranking import Ranked
from wsoup.search.rank.source import Source
from wsoup.soup.member import NOTHING, Cost, Member, Step
from wsoup.soup.soup import COUNTED_TOGETHER, Soup

Part = tuple[list[Member], Cost]


def candidates(definition: SoupParams, ranked: Ranked) -> Ranked:
    """What of the ranked pool can get into the soup: where it raced, those that went through all rounds.

    Raises:
        PoolError: the pool is smaller than the definition says, or fewer went through all rounds.
    """
    check_enough(definition, len(ranked.texts))
    able = ranked if definition.unranked else ranked.finalists()
    where = f"{len(able.texts)} of the pool {definition.pool} went through all rounds of score.racing"
    if problem := definition.shortage(len(able.texts), where=where, otherwise="let its last round keep more"):
        raise PoolError(problem)
    return able if definition.limit is None else able.cut(definition.limit[1])


def check_enough(definition: SoupParams, size: int) -> None:
    """Raise PoolError where a pool of so many texts is smaller than the definition says."""
    where = f"the pool {definition.pool} holds {size}"
    if problem := definition.shortage(size, where=where, otherwise="give more texts"):
        raise PoolError(problem)


def ranking_cost(definition: SoupParams, ranked: Ranked) -> Cost:
    """What the ranking took that the soup begins with; nothing where the whole pool is sampled."""
    return NOTHING if definition.unranked else ranked.cost


def identity(definition: SoupParams) -> dict[str, object]:
    """What of a definition decides a part of the soup, as JSON values: of chains all but how many there are."""
    return definition.model_dump(exclude={"m"} if definition.parts > 1 else None)


def shared_search(definition: SoupParams) -> dict[str, object] | None:
    """What of Algorithm 2's definition decides its search, which its variants share; None of other soups."""
    if not isinstance(definition, ChainsSoup | RandomLengthsSoup):
        return None
    return definition.model_dump(exclude={"kind", "m", "class_name_weight"})


def members(definition: SoupParams, *, ranked: Ranked, source: Source, seed: int, part: int) -> Part:
    """The members of one part of one seed's soup, each with its count on that seed's few-shot images; and their cost.

    Args:
        definition: from section ``soups``.
        ranked: `candidates`.
        source: what selection may see.
        seed: whose images.
        part: which of `definition.parts`.
    """
    found = search(definition, ranked=ranked, source=source, seed=seed, part=part)
    return finished(definition, found, ranked=ranked, source=source, seed=seed, part=part)


def search(definition: SoupParams, *, ranked: Ranked, source: Source, seed: int, part: int) -> Part:
    """The members of a part as they stood in the search, and their cost; arguments as `members`."""
    meter = Meter(source, seed=seed, period=ranked.period)
    chosen = _chosen(definition, ranked=ranked, meter=meter, part=part)
    return chosen, meter.cost()


def finished(definition: SoupParams, found: Part, *, ranked: Ranked, source: Source, seed: int, part: int) -> Part:
    """What `search` found, or that of an equal `shared_search`, as the soup's members."""
    chosen, cost = found
    if isinstance(definition, RandomLengthsSoup):
        drawn = partial(random_length_chain, ranked=ranked.texts, member=part, seed=seed, k1=definition.k1)
        chosen = [Member(drawn(grown)) for grown in chosen]
    if definition.kind not in COUNTED_TOGETHER:
        counts = source.count([member.text for member in chosen], seed=seed, period=True)
        chosen = [replace(member, n_correct=int(count)) for member, count in zip(chosen, counts, strict=True)]
    elif not ranked.period:  # they were counted without it, and are evaluated with it
        chosen = _recounted(chosen, definition, source=source, seed=seed)
    return [replace(member, n_images=len(source.subsets[seed])) for member in chosen], cost


def made(
    definition: SoupParams,
    parts: Sequence[tuple[Sequence[Member], Cost]],
    *,
    pool: Ranked,
    source: Source,
    seed: int,
    made_with: Mapping[str, str],
) -> Soup:
    """A soup of its parts, as `members` gave them.

    Args:
        pool: the whole ranking that `candidates` cut.
        made_with: versions of the packages that decided it.
    """
    return Soup(
        kind=definition.kind,
        seed=seed,
        template=source.template,
        encoder=source.encoder.id,
        members=tuple(member for chosen, _ in parts for member in chosen),
        made_with=made_with,
        preprocessing=source.encoder.preprocessing,
        class_name_weight=definition.class_name_weight,
        class_name_correct=int(source.count([""], seed=seed, period=True)[0]),
        cost={"ranking": ranking_cost(definition, pool), "search": sum((cost for _, cost in parts), NOTHING)},
    )


def _chosen(definition: SoupParams, *, ranked: Ranked, meter: Meter, part: int) -> list[Member]:
    """The members as they stood in the search."""
    texts, seed = ranked.texts, meter.seed
    match definition:
        case GreedySoup():
            measure = _beside_class_name(right_on(*meter.source.images_of(seed)), definition, source=meter.source)
            return greedy_soup(texts, features=meter.blocks, measure=measure, m=definition.m)
        case TopSoup(m=m, k1=k1, rank_by=rank_by):
            best = top(
                texts, n_correct=ranked.n_correct, log_likelihood=ranked.log_likelihood, m=m, k1=k1, rank_by=rank_by
            )
            return _singles(best, ranked=ranked)
        case SampleSoup():
            return _singles(sample(texts, m=definition.m, seed=seed), ranked=ranked)
        case FirstWordsSoup(k0=k0):
            first = [first_word(texts, member=i, seed=seed, k0=k0) for i in range(definition.m)]
            return _singles(first, ranked=ranked)
        case ChainsSoup() | RandomLengthsSoup():
            grown = word_soup_member(
                texts,
                member=part,
                seed=seed,
                k0=definition.k0,
                k1=definition.k1,
                patience=definition.patience,
                max_words=definition.max_words,
                count=meter.count,
            )
            return [grown]
        case JointSoup():
            return _joint(definition, texts=texts, meter=meter)


def _recounted(members: Sequence[Member], definition: SoupParams, *, source: Source, seed: int) -> list[Member]:
    """Members with the counts of the soup up to and with each, every text with the final period."""
    measure = _beside_class_name(right_on(*source.images_of(seed)), definition, source=source)
    features = torch.cat(list(source.text_blocks([member.text for member in members], period=True)))  # (M, C, D)
    counts = [measure(total[None])[1][0] for total in features.cumsum(dim=0)]
    return [replace(member, n_correct=count) for member, count in zip(members, counts, strict=True)]


def _singles(texts: Sequence[str], *, ranked: Ranked) -> list[Member]:
    """Members of one text each, whose trace is their count in the ranking; none where that had not all classes."""
    known = ranked.finalists()
    counts = dict(zip(known.texts, known.n_correct.tolist(), strict=True))
    return [Member(text, trace=(Step(text, counts[text]),) if text in counts else ()) for text in texts]


def _joint(definition: JointSoup, *, texts: Sequence[str], meter: Meter) -> list[Member]:
    images, labels = meter.source.images_of(meter.seed)
    scale = fitted_scale(images, labels, _class_name(meter.source))
    measure = likely_on(images, labels, scale=scale)
    return joint_soup(
        texts,
        seed=meter.seed,
        m=definition.m,
        k0=definition.k0,
        k1=definition.k1,
        patience=definition.patience,
        max_words=definition.max_words,
        features=meter.features,
        measure=_beside_class_name(measure, definition, source=meter.source),
    )


def _beside_class_name(measure: Measure, definition: SoupParams, *, source: Source) -> Measure:
    """Measure soups as they will be used, with the class name in them at its weight."""
    if not definition.class_name_weight:
        return measure
    start = definition.class_name_weight * _class_name(source)
    return lambda sums: measure(start + sums)


def _class_name(source: Source) -> Tensor:
    """Features of the class names without a text, as they are evaluated: (C, D)."""
    (block,) = source.text_blocks([""], period=True)
    return block[0]
