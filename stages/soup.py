"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner, Shards
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.grow import soups
from wsoup.search.grow.params import SoupParams, Soups
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
    inputs = [[identity(source), seed, ranked[seed].as_json()] for seed in params.seeds]
    work = [Shards(owner, inputs=[soups.identity(definition), *of_seed], n=definition.parts) for of_seed in inputs]
    searches = _shared(params.soups, name, owner=owner, inputs=inputs)

    def task(number: int, part: int) -> dict[str, np.ndarray]:
        seed = params.seeds[number]
        arguments: dict[str, Any] = {"ranked": ranked[seed], "source": source, "seed": seed, "part": part}
        shared = searches[number] if searches else None
        if shared is not None and shared.done(part):
            path = shared.path(part)
            searched = soups.unpack(store.unpack_arrays(store.read_checked(path), origin=path))
        else:
            searched = soups.search(definition, **arguments)
            if shared is not None and shared.folder.is_dir():  # a node of a cluster may not share it
                shared.save(part, soups.pack(searched))
        return soups.pack(soups.finish(definition, searched, **arguments))

    finish_shards(work, task=task, label=f"soup {name}", unit="part")
    with store.replacing(artifacts.soups(name)) as folder:
        for seed, shards in zip(params.seeds, work, strict=True):
            parts = [soups.unpack(part) for part in shards.load()]
            soup = soups.assemble(
                definition, parts, pool=pools[seed], source=source, seed=seed, made_with=owner.packages
            )
            soup.save(folder / f"seed{seed}.json")
            first, tokens = soup.members[0].text, soup.cost["search"].tokens
            print(f"seed {seed}: {len(soup.members)} members, the first: {first!r}; {tokens} tokens searched")
    print(f"soup {name}: {source.texts.encoded}")


def _shared(
    definitions: Mapping[str, SoupParams], name: str, *, owner: Owner, inputs: Sequence[list[object]]
) -> list[Shards] | None:
    """For each seed, the search that this soup shares with its variants; None if no other soup has the same.

    Its shards belong to the last of the variants in params.yaml, which removes them: DVC runs soups in that order.
    """
    key = soups.shared_search(definitions[name])
    variants = [other for other, soup in definitions.items() if key is not None and soups.shared_search(soup) == key]
    if len(variants) < 2:
        return None
    last = replace(owner, name=owner.name.removesuffix(name) + variants[-1])
    searches = [Shards(last, inputs=[key, *of_seed], n=definitions[name].parts) for of_seed in inputs]
    for shards in searches:
        shards.begin()
    print(f"soup {name}: shares its search with {', '.join(other for other in variants if other != name)}")
    return searches


if __name__ == "__main__":
    stage.run(main)
