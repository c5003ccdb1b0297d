"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from functools import partial
from itertools import islice

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.grow import soups
from wsoup.search.grow.params import Soups
from wsoup.search.rank.ranking import read_ranked
from wsoup.search.rank.source import SourceParams, identity, load_source
from wsoup.towers.encoder import load_encoder


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    soups: Soups


def main(owner: Owner, name: str) -> None:
    """Build the soup NAME of section `soups` for every seed."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.soups:
        raise ParamsError(f"soups has no {name!r}; it has {', '.join(params.soups)}")
    definition = params.soups[name]
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    scores = artifacts.scores(definition.pool)
    pools = {seed: read_ranked(scores, seed=seed, encoder=encoder.id) for seed in params.seeds}
    ranked = {seed: soups.candidates(definition, pool) for seed, pool in pools.items()}

    about = {
        seed: [soups.identity(definition), identity(source, seed=seed), ranked[seed].as_json()] for seed in params.seeds
    }

    def search(seed: int, part: int) -> bytes:
        return soups.pack(soups.members(definition, ranked=ranked[seed], source=source, seed=seed, part=part))

    shards = [
        Shard(owner, [*about[seed], part], partial(search, seed, part))
        for seed in params.seeds
        for part in range(definition.parts)
    ]
    payloads = finish_shards(shards, label=f"soup {name}", unit="part")
    with store.replacing(artifacts.soups(name)) as folder:
        for seed in params.seeds:
            parts = [soups.unpack(payload) for payload in islice(payloads, definition.parts)]
            soup = soups.assemble(
                definition, parts, pool=pools[seed], source=source, seed=seed, made_with=owner.packages
            )
            soup.save(folder / f"seed{seed}.json")
            first, tokens = soup.members[0].text, soup.cost["search"].tokens
            print(f"seed {seed}: {len(soup.members)} members, the first: {first!r}; {tokens} tokens searched")
    print(f"soup {name}: {source.texts.encoded}")


if __name__ == "__main__":
    stage.run(main)
