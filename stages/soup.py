"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from __future__ import annotations

import json

import numpy as np

from wsoup.core.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner, Shards
from wsoup.params.base.encoder import EncoderParams
from wsoup.params.base.section import Name, Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.grow import soups
from wsoup.search.grow.params import Soups
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
    about = [identity(source, encoder=encoder), soups.identity(wanted)]
    work = [Shards(owner, inputs=[*about, seed, _facts(ranked[seed])], n=wanted.parts) for seed in params.seeds]

    def task(number: int, part: int) -> dict[str, np.ndarray]:
        seed = params.seeds[number]
        chosen, cost = soups.members(wanted, ranked=ranked[seed], source=source, seed=seed, part=part)
        value = {"members": [member.as_json() for member in chosen], "cost": cost.as_json()}
        return {"found": np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)}

    finish_shards(work, task=task, label=f"soup {name}", unit="part")
    with store.replacing(artifacts.soups(name)) as folder:
        for seed, shards in zip(params.seeds, work, strict=True):
            parts = [json.loads(part["found"].tobytes()) for part in shards.load()]
            parts_made = [([Member.from_json(m) for m in part["members"]], Cost(**part["cost"])) for part in parts]
            made = soups.made(wanted, parts_made, pool=pools[seed], source=source, seed=seed, made_with=owner.packages)
            made.save(folder / f"seed{seed}.json")
            first, tokens = made.members[0].text, made.cost["search"].tokens
            print(f"seed {seed}: {len(made.members)} members, the first: {first!r}; {tokens} tokens searched")
    print(f"soup {name}: {source.texts.encoded}")


def _facts(ranked: Ranked) -> list[object]:
    """What of a ranking decides a soup, as JSON values."""
    return [ranked.texts, ranked.n_correct.tolist(), ranked.log_likelihood.tolist(), ranked.period]


if __name__ == "__main__":
    stage.run(main)
