"""From a definition in params.yaml to the soup of one seed, whatever its kind."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from wsoup.base.errors import PoolError
from wsoup.core.member import NOTHING, Cost, Member
from wsoup.core.prompts import is_template
from wsoup.core.soup import Soup
from wsoup.disk import code
from wsoup.disk.shards import Owner, Shard
from wsoup.runtime.peak import DevicePeak, highest
from wsoup.search.grow.kind import TEMPLATES_IN_CHAINS, AnySoup
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.ranking import Ranked
from wsoup.search.rank.source import Source, identity_of_source


@dataclass(frozen=True)
class Search:
    """The search of one seed's soup, in parts that do not depend on each other: the chains, or all members at once.

    Attributes:
        definition: an entry of section ``soups``.
        pool: the whole ranking on this seed.
        source: what selection may see.
        seed: the seed.
    """

    definition: AnySoup
    pool: Ranked
    source: Source
    seed: int

    @cached_property
    def ranked(self) -> Ranked:
        """The candidates that the soup may use.

        Raises:
            PoolError: there are fewer than the definition requires.
        """
        problem = self.definition.shortage(len(self.pool.texts))
        if problem is not None:
            raise PoolError(problem)
        if self.definition.joins and any(map(is_template, self.pool.texts)):
            raise PoolError(TEMPLATES_IN_CHAINS)
        if self.definition.limit is None:
            return self.pool
        return self.pool.cut(self.definition.limit)

    def shards(self, owner: Owner) -> list[Shard]:
        """The parts as shards of a stage, in order; `owner` is of the stage's resume state."""
        # The stage's script does not import a kind by name, so that an edited one runs no soup of another kind again.
        owner = owner.using(code.kinds()[self.definition.kind])
        inputs = self.inputs
        return [Shard(owner, [*inputs, part], partial(self.part, part)) for part in range(self.definition.parts)]

    @property
    def inputs(self) -> list[object]:
        """What determines a part, as JSON values for the resume key: for chains, all but their number."""
        definition = self.definition
        settings = definition.meant()
        if definition.parts > 1:
            del settings["m"]  # of a soup of 16, the first 8 parts are those of a soup of 8
        likelihood = None
        if definition.reads_k2:
            likelihood = self.ranked.log_likelihood.tolist()
        ranking = [self.ranked.texts, self.ranked.n_correct.tolist(), likelihood, self.ranked.period]
        return [settings, identity_of_source(self.source, seed=self.seed), ranking]

    def part(self, number: int) -> bytes:
        """Search the members of one part: JSON for `soup`."""
        peak = DevicePeak(self.source.encoder.device)
        # Two meters: what the search encoded is its cost, and counting its result is not.
        period = self.ranked.period or self.definition.finished
        meter = Meter(self.source, seed=self.seed, period=period)
        chosen = self.definition.members(self.ranked, meter, part=number)
        members = self._counted(chosen)
        made: dict[str, object] = {
            "members": [member.as_json() for member in members],
            "cost": meter.cost().as_json(),
        }
        if number == 0:
            # Beside the first members, so that a run whose parts are finished encodes nothing.
            (count,) = Meter(self.source, seed=self.seed, period=True).count([""])
            made["class_name_correct"] = int(count)
        made["peak_device_mib"] = peak.mib()
        return json.dumps(made).encode()

    def _counted(self, members: Sequence[Member]) -> list[Member]:
        """Members with their final counts, in the way of their kind; texts have the final period."""
        n_images = len(self.source.subsets[self.seed])
        searched = all(member.n_correct is not None for member in members)
        if searched and self.ranked.period:  # these very texts were counted
            return [replace(member, n_images=n_images) for member in members]
        meter = Meter(self.source, seed=self.seed, period=True)
        counts = self.definition.final_counts([member.text for member in members], meter)
        counted = []
        for member, count in zip(members, counts, strict=True):
            counted.append(replace(member, n_correct=count, n_images=n_images))
        return counted

    def soup(self, parts: Iterable[bytes], *, made_with: Mapping[str, str]) -> Soup:
        """The soup of all parts, in order; `made_with` are versions of the packages that determine it."""
        made = [json.loads(part) for part in parts]
        members: list[Member] = []
        search_cost = NOTHING
        for part in made:
            members += [Member.from_json(member) for member in part["members"]]
            search_cost += Cost(**part["cost"])
        ranking_cost = self.pool.cost
        # A random text of the whole pool would be the same without a ranking.
        if self.definition.unranked:
            ranking_cost = NOTHING
        return Soup(
            kind=self.definition.kind,
            seed=self.seed,
            template=self.source.template,
            encoder=self.source.encoder.id,
            members=tuple(members),
            made_with=made_with,
            preprocessing=self.source.encoder.preprocessing,
            class_name_correct=made[0]["class_name_correct"],
            definition=self.definition.meant(mode="json"),
            cost={"ranking": ranking_cost, "search": search_cost},
        )


def peak_of(parts: Iterable[bytes]) -> int | None:
    """The highest device memory in MiB of some finished parts; None on a CPU."""
    return highest(json.loads(part)["peak_device_mib"] for part in parts)
