"""One soup of params.yaml for every seed: a ranked pool -> soups/<name>/seed<k>.json. A shard is a chain of a seed."""

from __future__ import annotations

import json

import numpy as np

from wsoup import store
from wsoup.artifacts import Artifacts
from wsoup.errors import ParamsError
from wsoup.params.encoder import EncoderParams
from wsoup.params.search import CandidatesParams, Soups
from wsoup.params.section import Name, Sections, Seeds, load
from wsoup.runtime import stage
from wsoup.runtime.shards import Owner, Shards, finish_shards
from wsoup.search import soups
from wsoup.search.source import identity, load_source, ranked_texts
from wsoup.soup import Member, Soup
from wsoup.towers import load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    candidates: CandidatesParams
    soups: Soups


def main(owner: Owner, name: str) -> None:
    """Build the soup NAME of section `soups` for every seed."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.soups:
        raise ParamsError(f"soups has no {name!r}; it has {', '.join(params.soups)}")
    wanted = params.soups[name]
    period = params.candidates.period(wanted.pool)
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    scores = artifacts.scores(wanted.pool)
    ranked = {
        seed: soups.candidates(wanted, ranked_texts(scores, seed=seed, encoder=encoder.id)) for seed in params.seeds
    }
    about = [identity(source, encoder=encoder), soups.identity(wanted), period]
    work = [Shards(owner, inputs=[*about, seed, ranked[seed]], n=soups.parts(wanted)) for seed in params.seeds]

    def task(number: int, part: int) -> dict[str, np.ndarray]:
        seed = params.seeds[number]
        found = soups.members(wanted, ranked=ranked[seed], source=source, seed=seed, part=part, period=period)
        return {"members": np.frombuffer(json.dumps([member.as_json() for member in found]).encode(), dtype=np.uint8)}

    finish_shards(work, task=task, label=f"soup {name}", unit="part")
    with store.replacing(artifacts.soups(name)) as folder:
        for seed, shards in zip(params.seeds, work, strict=True):
            members = [Member.from_json(m) for part in shards.load() for m in json.loads(part["members"].tobytes())]
            made = Soup(wanted.kind, seed, source.template, encoder.id, tuple(members), owner.packages)
            made.save(folder / f"seed{seed}.json")
            print(f"seed {seed}: {len(members)} members, the first: {members[0].text!r}")


if __name__ == "__main__":
    stage.run(main)
