"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from functools import partial
from itertools import islice

from wsoup.check.soups import Soups
from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.grow.search import Search
from wsoup.search.rank.ranking import read_ranked
from wsoup.search.rank.source import Run, SourceParams, load_source


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    soups: Soups


def main(owner: Owner, name: str) -> None:
    """Build the soup NAME of section `soups` for every seed."""
    params = load(Wanted)
    definition, run = one_of("soups", params.soups, name), Run.of(owner, params)
    source = load_source(run)
    scores = run.artifacts.scores(definition.pool)
    pools = {seed: read_ranked(scores, seed=seed, encoder=run.encoder.id) for seed in run.seeds}
    searches = [Search(definition, pool, source, seed) for seed, pool in pools.items()]
    shards = [
        Shard(owner, [*inputs, part], partial(search.part, part))
        for search, inputs in ((search, search.inputs) for search in searches)
        for part in range(definition.parts)
    ]
    parts = finish_shards(shards, label=f"soup {name}", unit="part")
    made = []
    with store.replacing(run.artifacts.soups(name)) as folder:
        for search in searches:
            soup = search.soup(islice(parts, definition.parts), made_with=owner.packages)
            soup.save(folder / f"seed{search.seed}.json")
            made.append(f"{len(soup.members)} of seed {search.seed} ({soup.members[0].text!r}, ...)")
    print(f"members: {', '.join(made)}")
    print(f"soup {name}: {source.texts.encoded}")


if __name__ == "__main__":
    stage.run(main)
