"""From a definition in params.yaml to a soup: the one place that knows all kinds.

To add a kind, add its model to `wsoup.search.grow.params` and a case to `Search.part`, and write its algorithm in a
module beside this one, unless it is as short as `top` and `sample`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from wsoup.base.errors import PoolError
from wsoup.core.draws import member_generator
from wsoup.search.grow.chains import (
    counted_alone,
    draw_chain_words,
    fitted_scale,
    grow_chain,
    joint_soup,
    likely_on,
)
from wsoup.search.grow.greedy import greedy_soup, right_on
from wsoup.search.grow.params import ChainsSoup, GreedySoup, JointSoup, SampleSoup, SoupParams, TopSoup
from wsoup.search.rank.ranking import Ranked, count_and_likelihood
from wsoup.search.rank.source import Meter, Source, identity
from wsoup.soup.member import NOTHING, Cost, Member, Step
from wsoup.soup.soup import COUNTED_TOGETHER, Soup


@dataclass(frozen=True)
class Search:
    """The search of one seed's soup, in parts that do not depend on each other: the chains, or all members at once.

    Attributes:
        definition: an entry of section ``soups``.
        pool: the whole ranking on this seed.
        source: what selection may see.
        seed: the seed.
    """

    definition: SoupParams
    pool: Ranked
    source: Source
    seed: int

    @cached_property
    def ranked(self) -> Ranked:
        """The candidates that the soup may use; after a race, only its finalists.

        Raises:
            PoolError: there are fewer than the definition requires.
        """
        wanted = self.definition
        check_enough(wanted, len(self.pool.texts))
        able = self.pool if wanted.unranked else self.pool.finalists()
        where = f"{len(able.texts)} of the pool {wanted.pool} went through all rounds of score.racing"
        if problem := wanted.shortage(len(able.texts), where=where, otherwise="let its last round keep more"):
            raise PoolError(problem)
        return able if wanted.limit is None else able.cut(wanted.limit)

    @property
    def inputs(self) -> list[object]:
        """What determines a part, as JSON values for the resume key: for chains, all but their number."""
        definition = self.definition.model_dump(exclude={"m"} if self.definition.parts > 1 else None)
        ranked = self.ranked
        # Only this kind reads the likelihood, whose last bits depend on the images of the other seeds.
        likelihood = ranked.log_likelihood.tolist() if self.definition.kind == "top" else None
        ranking = [ranked.texts, ranked.n_correct.tolist(), likelihood, ranked.period]
        return [definition, identity(self.source, seed=self.seed), ranking]

    def part(self, number: int) -> bytes:
        """Search the members of one part: JSON for `soup`."""
        wanted, texts = self.definition, self.ranked.texts
        meter = Meter(self.source, seed=self.seed, period=self.ranked.period)
        match wanted:
            case GreedySoup():
                members = greedy_soup(texts, features=meter.blocks, measure=right_on(*meter.images), m=wanted.m)
            case TopSoup():
                members = singles(top(self.ranked, m=wanted.m, rank_by=wanted.rank_by), ranked=self.ranked)
            case SampleSoup():
                members = singles(sample(texts, m=wanted.m, seed=self.seed), ranked=self.ranked)
            case ChainsSoup():
                words = draw_chain_words(texts, wanted, member=number, seed=self.seed)
                members = [grow_chain(words, judge=counted_alone(meter.count), max_words=wanted.max_words)[0]]
            case JointSoup():
                (name,) = self.source.text_blocks([""], period=True)
                measure = likely_on(*meter.images, scale=fitted_scale(*meter.images, name[0]))
                draws = (draw_chain_words(texts, wanted, member=i, seed=self.seed) for i in range(wanted.m))
                members = joint_soup(draws, features=meter.features, measure=measure, max_words=wanted.max_words)
        counted = [member.as_json() for member in self._counted(members)]
        return json.dumps({"members": counted, "cost": meter.cost().as_json()}).encode()

    def _counted(self, members: Sequence[Member]) -> list[Member]:
        """Members with their final counts: alone, or of the soup up to each of them; texts have the final period."""
        meter, texts = Meter(self.source, seed=self.seed, period=True), [member.text for member in members]
        if self.definition.kind not in COUNTED_TOGETHER:
            counts = meter.count(texts).tolist()
        elif not self.ranked.period:  # the search counted without it
            counts = [right_on(*meter.images)(total[None])[1][0] for total in meter.features(texts).cumsum(dim=0)]
        else:
            counts = [member.n_correct for member in members]
        n_images = len(self.source.subsets[self.seed])
        return [
            replace(member, n_correct=count, n_images=n_images) for member, count in zip(members, counts, strict=True)
        ]

    def soup(self, parts: Iterable[bytes], *, made_with: Mapping[str, str]) -> Soup:
        """The soup of all parts, in order; `made_with` are versions of the packages that determine it."""
        found = [json.loads(part) for part in parts]
        return Soup(
            kind=self.definition.kind,
            seed=self.seed,
            template=self.source.template,
            encoder=self.source.encoder.id,
            members=tuple(Member.from_json(member) for part in found for member in part["members"]),
            made_with=made_with,
            preprocessing=self.source.encoder.preprocessing,
            class_name_correct=int(Meter(self.source, seed=self.seed, period=True).count([""])[0]),
            cost={
                "ranking": NOTHING if self.definition.unranked else self.pool.cost,
                "search": sum((Cost(**part["cost"]) for part in found), NOTHING),
            },
        )


def check_enough(definition: SoupParams, size: int) -> None:
    """Raise PoolError if a pool of `size` texts is smaller than the definition requires."""
    where = f"the pool {definition.pool} holds {size}"
    if problem := definition.shortage(size, where=where, otherwise="add texts"):
        raise PoolError(problem)


def singles(texts: Sequence[str], *, ranked: Ranked) -> list[Member]:
    """Members of one text each; the trace is the count in the ranking, if that was on all classes."""
    finalists = ranked.finalists()
    counts = dict(zip(finalists.texts, finalists.n_correct.tolist(), strict=True))
    return [Member(text, trace=(Step(text, counts[text]),) if text in counts else ()) for text in texts]


def top(ranked: Ranked, *, m: int, rank_by: Literal["count", "count_k2"]) -> list[str]:
    """The m best single texts. Source: this project.

    With ``count_k2``, by z(n_correct) + z(k2), where z(x) = (x - mean x) / std x over the candidates, and 0 if all are
    equal: a count over few images is coarse, and k2 measures how confident it is.

    Args:
        ranked: the top k1 of the ranking, by falling count.
        m: number of members.
        rank_by: ``count`` or ``count_k2``. Ties keep the order of the ranking.
    """
    if rank_by == "count":
        return ranked.texts[:m]
    value = count_and_likelihood(ranked.n_correct, ranked.log_likelihood)
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
