"""From a definition in params.yaml to the members of a soup: the one place that knows which kinds there are.

To add a kind: its model in `wsoup.params.search`, its function in a module beside this one, a case in `members`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from wsoup.errors import PoolError
from wsoup.params.search import ChainsSoup, GreedySoup, SoupParams
from wsoup.search.chains import word_soup_member
from wsoup.search.greedy import greedy_soup, right_on
from wsoup.search.source import Source
from wsoup.soup import Member


def parts(definition: SoupParams) -> int:
    """Into how many parts a soup falls that are made independently of each other: the chains, or one."""
    return definition.m if isinstance(definition, ChainsSoup) else 1


def candidates(definition: SoupParams, ranked: Sequence[str]) -> list[str]:
    """What of the ranked pool can get into the soup.

    Raises:
        PoolError: the pool is smaller than k1.
    """
    if isinstance(definition, ChainsSoup):
        if len(ranked) < definition.k1:
            raise PoolError(f"k1 is {definition.k1} but the pool {definition.pool} holds {len(ranked)}; lower k1")
        return list(ranked[: definition.k1])
    return list(ranked)


def identity(definition: SoupParams) -> dict[str, object]:
    """What of a definition decides a part of the soup, as JSON values: of chains all but how many there are."""
    return definition.model_dump(exclude={"m"} if isinstance(definition, ChainsSoup) else None)


def members(
    definition: SoupParams, *, ranked: Sequence[str], source: Source, seed: int, part: int, period: bool
) -> list[Member]:
    """The members of one part of one seed's soup, each with its count on that seed's few-shot images.

    Args:
        definition: from section ``soups``.
        ranked: `candidates`, by falling accuracy.
        source: what selection may see.
        seed: whose images.
        part: which of `parts`.
        period: whether texts carry the final period in the search. A finished member's count is with it, as it is
            evaluated: of a chain alone, of a greedy soup up to and with this member.
    """
    n_images = len(source.subsets[seed])
    match definition:
        case GreedySoup():
            found = greedy_soup(
                ranked,
                features=lambda texts: source.text_blocks(texts, period=period),
                measure=right_on(*source.images_of(seed)),
                m=definition.m,
            )
            if not period:
                found = _recounted(found, source=source, seed=seed)
        case ChainsSoup():
            chain = word_soup_member(
                ranked,
                member=part,
                seed=seed,
                k0=definition.k0,
                k1=definition.k1,
                patience=definition.patience,
                max_words=definition.max_words,
                count=lambda texts: source.count(texts, seed=seed, period=period),
            )
            finished = source.count([chain.text], seed=seed, period=True)
            found = [replace(chain, n_correct=int(finished[0]))]
    return [replace(member, n_images=n_images) for member in found]


def _recounted(members: Sequence[Member], *, source: Source, seed: int) -> list[Member]:
    """Members of a greedy soup with the counts of its beginnings, each text with the final period."""
    measure = right_on(*source.images_of(seed))
    features = torch.cat(list(source.text_blocks([member.text for member in members], period=True)))  # (M, C, D)
    counts = [measure(total[None])[1][0] for total in features.cumsum(dim=0)]
    return [replace(member, n_correct=count) for member, count in zip(members, counts, strict=True)]
