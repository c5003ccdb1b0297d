"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.errors import ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.grow import soups
from wsoup.search.grow.params import SoupParams, Soups
from wsoup.search.rank.ranking import Ranked, read_ranked
from wsoup.search.rank.source import identity, load_source
from wsoup.soup.member import Cost, Member
from wsoup.towers.encoder import load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    soups: Soups


def main(owner: Owner, name: str) -> None:
    """Build the soup NAME of section `soups` for every seed."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.soups:
        raise ParamsError(f"soups has no {name!r}; it has {', '.join(params.soups)}")
    wanted = params.soups[name]
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    scores = artifacts.scores(wanted.pool)
    pools = {seed: read_ranked(scores, seed=seed, encoder=encoder.id) for seed in params.seeds}
    ranked = {seed: soups.candidates(wanted, pool) for seed, pool in pools.items()}
    seen = [[identity(source, encoder=encoder), seed, _facts(ranked[seed])] for seed in params.seeds]
    work = [Shards(owner, inputs=[soups.identity(wanted), *facts], n=wanted.parts) for facts in seen]
    searches = _shared(params.soups, name, owner=owner, seen=seen)

    def task(number: int, part: int) -> dict[str, np.ndarray]:
        seed = params.seeds[number]
        how: dict[str, Any] = {"ranked": ranked[seed], "source": source, "seed": seed, "part": part}
        kept = searches[number] if searches else None
        if kept is not None and kept.done(part):
            found = _unpacked(store.unpack_arrays(store.read_checked(kept.path(part)), origin=kept.path(part)))
        else:
            found = soups.search(wanted, **how)
            if kept is not None and kept.folder.is_dir():  # a node of a cluster may not share it
                kept.save(part, _packed(found))
        return _packed(soups.finished(wanted, found, **how))

    finish_shards(work, task=task, label=f"soup {name}", unit="part")
    with store.replacing(artifacts.soups(name)) as folder:
        for seed, shards in zip(params.seeds, work, strict=True):
            parts = [_unpacked(part) for part in shards.load()]
            made = soups.made(wanted, parts, pool=pools[seed], source=source, seed=seed, made_with=owner.packages)
            made.save(folder / f"seed{seed}.json")
            first, tokens = made.members[0].text, made.cost["search"].tokens
            print(f"seed {seed}: {len(made.members)} members, the first: {first!r}; {tokens} tokens searched")
    print(f"soup {name}: {source.texts.encoded}")


def _shared(
    defined: Mapping[str, SoupParams], name: str, *, owner: Owner, seen: Sequence[list[object]]
) -> list[Shards] | None:
    """For each seed the searches that variants of this soup make once; None where no other soup has the same.

    They belong to all that decided them, as every shard does, and lie with the last of the variants, whose end removes
    them: DVC runs the soups of a pool in the order of params.yaml.
    """
    key = soups.shared_search(defined[name])
    sharing = [other for other, soup in defined.items() if key is not None and soups.shared_search(soup) == key]
    if len(sharing) < 2:
        return None
    keeper = replace(owner, name=owner.name.removesuffix(name) + sharing[-1])
    searches = [Shards(keeper, inputs=[key, *facts], n=defined[name].parts) for facts in seen]
    for shards in searches:
        shards.begin()
    print(f"soup {name}: shares its search with {', '.join(other for other in sharing if other != name)}")
    return searches


def _packed(part: soups.Part) -> dict[str, np.ndarray]:
    chosen, cost = part
    value = {"members": [member.as_json() for member in chosen], "cost": cost.as_json()}
    return {"found": np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)}


def _unpacked(arrays: Mapping[str, np.ndarray]) -> soups.Part:
    part = json.loads(arrays["found"].tobytes())
    return [Member.from_json(member) for member in part["members"]], Cost(**part["cost"])


def _facts(ranked: Ranked) -> list[object]:
    """What of a ranking decides a soup, as JSON values."""
    return [ranked.texts, ranked.n_correct.tolist(), ranked.log_likelihood.tolist(), ranked.period]


if __name__ == "__main__":
    stage.run(main)
