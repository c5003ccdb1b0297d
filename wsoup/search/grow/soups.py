"""From a definition in params.yaml to the members of a soup: the one place that knows all kinds.

To add a kind, add its model to `wsoup.search.grow.params` and a case to `_chosen`, and write its algorithm in a module
beside this one, unless it is as short as `top` and `sample`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wsoup.base.errors import PoolError
from wsoup.core.draws import member_generator
from wsoup.search.grow.chains import (
    first_word,
    fitted_scale,
    joint_soup,
    likely_on,
    random_length_chain,
    word_soup_member,
)
from wsoup.search.grow.greedy import Measure, greedy_soup, right_on
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
from wsoup.search.rank.ranking import Ranked, count_and_likelihood
from wsoup.search.rank.source import Meter, Source
from wsoup.soup.member import NOTHING, Cost, Member, Step
from wsoup.soup.soup import COUNTED_TOGETHER, Soup

Part = tuple[list[Member], Cost]
"""Members of one part of a soup (a chain, or all of them), and what their search cost."""


def candidates(definition: SoupParams, ranked: Ranked) -> Ranked:
    """The candidates of the ranked pool that a soup may use; after a race, only its finalists.

    Raises:
        PoolError: there are fewer than the definition requires.
    """
    check_enough(definition, len(ranked.texts))
    able = ranked if definition.unranked else ranked.finalists()
    where = f"{len(able.texts)} of the pool {definition.pool} went through all rounds of score.racing"
    if problem := definition.shortage(len(able.texts), where=where, otherwise="let its last round keep more"):
        raise PoolError(problem)
    return able if definition.limit is None else able.cut(definition.limit[1])


def check_enough(definition: SoupParams, size: int) -> None:
    """Raise PoolError if a pool of `size` texts is smaller than the definition requires."""
    where = f"the pool {definition.pool} holds {size}"
    if problem := definition.shortage(size, where=where, otherwise="add texts"):
        raise PoolError(problem)


def ranking_cost(definition: SoupParams, ranked: Ranked) -> Cost:
    """The cost of the ranking that a soup needs: none if it samples the whole pool."""
    return NOTHING if definition.unranked else ranked.cost


def identity(definition: SoupParams) -> dict[str, object]:
    """What determines one part of the soup, as JSON values for the resume key: for chains, all but their number."""
    return definition.model_dump(exclude={"m"} if definition.parts > 1 else None)


def members(definition: SoupParams, *, ranked: Ranked, source: Source, seed: int, part: int) -> Part:
    """The members of one part of one seed's soup, with their counts on that seed's few-shot images, and their cost.

    Args:
        definition: an entry of section ``soups``.
        ranked: `candidates`.
        source: what selection may see.
        seed: the seed.
        part: number of the part, below `definition.parts`.
    """
    searched = search(definition, ranked=ranked, source=source, seed=seed, part=part)
    return finish(definition, searched, ranked=ranked, source=source, seed=seed, part=part)


def search(definition: SoupParams, *, ranked: Ranked, source: Source, seed: int, part: int) -> Part:
    """Search the members of a part; arguments as for `members`."""
    meter = Meter(source, seed=seed, period=ranked.period)
    chosen = _chosen(definition, ranked=ranked, meter=meter, part=part)
    return chosen, meter.cost()


def finish(definition: SoupParams, searched: Part, *, ranked: Ranked, source: Source, seed: int, part: int) -> Part:
    """Turn the result of `search` into members of the soup, with final counts."""
    chosen, cost = searched
    if isinstance(definition, RandomLengthsSoup):
        draw: dict[str, Any] = {"ranked": ranked.texts, "member": part, "seed": seed, "k1": definition.k1}
        chosen = [Member(random_length_chain(grown, **draw)) for grown in chosen]
    if definition.kind not in COUNTED_TOGETHER:
        counts = source.count([member.text for member in chosen], seed=seed, period=True)
        chosen = [replace(member, n_correct=int(count)) for member, count in zip(chosen, counts, strict=True)]
    elif not ranked.period:  # the search counted without the final period, but evaluation has it
        chosen = _recounted(chosen, definition, source=source, seed=seed)
    return [replace(member, n_images=len(source.subsets[seed])) for member in chosen], cost


def assemble(
    definition: SoupParams,
    parts: Sequence[Part],
    *,
    pool: Ranked,
    source: Source,
    seed: int,
    made_with: Mapping[str, str],
) -> Soup:
    """Make a soup from its parts.

    Args:
        definition: an entry of section ``soups``.
        parts: `members` of all parts, in order.
        pool: the whole ranking, before `candidates` cut it.
        source: what selection saw.
        seed: the seed.
        made_with: versions of the packages that determine the result.
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


def pack(part: Part) -> bytes:
    """A part as JSON, for a shard."""
    chosen, cost = part
    return json.dumps({"members": [member.as_json() for member in chosen], "cost": cost.as_json()}).encode()


def unpack(payload: bytes) -> Part:
    """The inverse of `pack`."""
    value = json.loads(payload)
    return [Member.from_json(member) for member in value["members"]], Cost(**value["cost"])


def _chosen(definition: SoupParams, *, ranked: Ranked, meter: Meter, part: int) -> list[Member]:
    """The members as the search counts them."""
    texts, seed = ranked.texts, meter.seed
    match definition:
        case GreedySoup():
            measure = _with_class_name(right_on(*meter.source.images_of(seed)), definition, source=meter.source)
            return greedy_soup(texts, features=meter.blocks, measure=measure, m=definition.m)
        case TopSoup(m=m, k1=k1, rank_by=rank_by):
            return _singles(top(ranked, m=m, k1=k1, rank_by=rank_by), ranked=ranked)
        case SampleSoup():
            return _singles(sample(texts, m=definition.m, seed=seed), ranked=ranked)
        case FirstWordsSoup(k0=k0):
            first = [first_word(texts, member=i, seed=seed, k0=k0) for i in range(definition.m)]
            return _singles(first, ranked=ranked)
        case ChainsSoup() | RandomLengthsSoup():
            return [word_soup_member(texts, member=part, seed=seed, count=meter.count, **definition.growth)]
        case JointSoup():
            images, labels = meter.source.images_of(seed)
            scale = fitted_scale(images, labels, _class_name(meter.source))
            likely = likely_on(images, labels, scale=scale)
            measure = _with_class_name(likely, definition, source=meter.source)
            return joint_soup(
                texts, seed=seed, m=definition.m, features=meter.features, measure=measure, **definition.growth
            )


def _singles(texts: Sequence[str], *, ranked: Ranked) -> list[Member]:
    """Members of one text each; the trace is the count in the ranking, if that was on all classes."""
    finalists = ranked.finalists()
    counts = dict(zip(finalists.texts, finalists.n_correct.tolist(), strict=True))
    return [Member(text, trace=(Step(text, counts[text]),) if text in counts else ()) for text in texts]


def top(ranked: Ranked, *, m: int, k1: int, rank_by: Literal["count", "count_k2"]) -> list[str]:
    """The m best single texts. Source: this project.

    With ``count_k2``, by z(n_correct) + z(k2) among the top k1 by count, where z(x) = (x - mean x) / std x over these
    k1, and 0 if all are equal: a count over few images is coarse, and k2 measures how confident it is.

    Args:
        ranked: the ranking, by falling count.
        m: number of members, at most `k1`.
        k1: number of texts to consider.
        rank_by: ``count`` or ``count_k2``. Ties keep the order of the ranking.
    """
    if rank_by == "count":
        return ranked.texts[:m]
    value = count_and_likelihood(ranked.n_correct[:k1], ranked.log_likelihood[:k1])
    return [ranked.texts[i] for i in np.argsort(-value, kind="stable")[:m]]


def sample(texts: Sequence[str], *, m: int, seed: int) -> list[str]:
    """Draw m texts without replacement: the control that any selection must beat. A draw of 16 starts with that of 8.

    Raises:
        PoolError: fewer than m texts.
    """
    if len(texts) < m:
        raise PoolError(f"cannot sample {m} of {len(texts)} texts; lower m or add texts")
    order = member_generator(purpose="sample", seed=seed, member=0).permutation(len(texts))
    return [texts[i] for i in order[:m]]


def _recounted(members: Sequence[Member], definition: SoupParams, *, source: Source, seed: int) -> list[Member]:
    """Members with the counts of the soup up to each of them, all texts with the final period."""
    measure = _with_class_name(right_on(*source.images_of(seed)), definition, source=source)
    features = torch.cat(list(source.text_blocks([member.text for member in members], period=True)))  # (M, C, D)
    counts = [measure(total[None])[1][0] for total in features.cumsum(dim=0)]
    return [replace(member, n_correct=count) for member, count in zip(members, counts, strict=True)]


def _with_class_name(measure: Measure, definition: SoupParams, *, source: Source) -> Measure:
    """Measure soups as they will be used, including the class name at its weight."""
    if not definition.class_name_weight:
        return measure
    start = definition.class_name_weight * _class_name(source)
    return lambda sums: measure(start + sums)


def _class_name(source: Source) -> Tensor:
    """Features of the bare class names, as evaluated: (C, D)."""
    (block,) = source.text_blocks([""], period=True)
    return block[0]
