"""Unselected texts on every dataset, random word chains on the source, and the upper bound selected on the targets."""

import json
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate import testsets
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.transfer import SCHEMA, Grid, sample, source_counts, transfer
from wsoup.evaluate.upper_bound import upper_bound
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_by_key
from wsoup.search.pools.lists import read_pool
from wsoup.search.pools.params import CandidatesParams
from wsoup.search.rank.source import Source, identity_of_source, load_source
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.run import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    candidates: CandidatesParams
    evaluate: EvaluateParams


def main(owner: Owner) -> None:
    """Write descriptors.parquet and chains.parquet, and the upper bound as a soup."""
    params = load(Wanted)
    run = Run.of(owner, params)
    survey = params.evaluate.survey
    artifacts = run.artifacts
    text_encoder = PromptEncoder.of(run.encoder)
    tests = testsets.load_tests(artifacts, encoder=run.encoder)
    drawn = sample(read_pool(artifacts.pool("descriptors")), size=survey.descriptors)
    grid = Grid(["", *drawn], tests=tests, text_encoder=text_encoder)

    source = load_source(run)
    lengths = [survey.chain_length] * survey.chains
    chains = random_chains(read_pool(artifacts.pool("words")), lengths=lengths, seed=params.seeds[0])
    period = params.candidates.words.period

    on_targets = [run.encoder.id, testsets.identity_of_tests(tests), drawn, survey.m]
    on_source = [identity_of_source(source), chains, period]
    shards = {
        "descriptors": Shard(owner, on_targets, partial(surveyed, grid, m=survey.m)),
        "chains": Shard(owner, on_source, partial(counted, source, chains=chains, period=period)),
    }
    made = {}
    for part, payload in finish_by_key(shards, label="survey", unit="part"):
        made[part] = json.loads(payload)
    table = pa.Table.from_pylist(made["descriptors"]["lines"], schema=SCHEMA)
    counts = pa.Table.from_pylist(made["chains"])
    # Without targets nothing is selected: the class name alone stands for the bound, and evaluation leaves its row out.
    members = [Member.from_json(member) for member in made["descriptors"]["members"]]
    if not members:
        members = [Member("")]
    with store.replacing(artifacts.survey) as folder:
        store.write_table(folder / "descriptors.parquet", table, attributes=run.about)
        store.write_table(folder / "chains.parquet", counts, attributes=run.about)
    bound = Soup("upper_bound", params.seeds[0], source.template, run.encoder.id, tuple(members), owner.packages)
    bound.save(artifacts.upper_bound)
    print(
        f"{artifacts.survey}: {len(drawn)} descriptors on {len(tests)} datasets, {len(chains)} chains; "
        f"upper bound of {len(members)}; datasets: {text_encoder.encoded}; source: {source.text_encoder.encoded}"
    )


def surveyed(grid: Grid, *, m: int) -> bytes:
    """Counts of every descriptor on every dataset, and the at most `m` members of the upper bound, as JSON."""
    table = transfer(grid)
    members = upper_bound(table, grid=grid, m=m)
    made = {"lines": table.to_pylist(), "members": [member.as_json() for member in members]}
    return json.dumps(made).encode()


def counted(source: Source, *, chains: Sequence[str], period: bool) -> bytes:
    """Counts of random chains on the few-shot images of every seed, as JSON."""
    table = source_counts(source, chains, period=period)
    return json.dumps(table.to_pylist()).encode()


if __name__ == "__main__":
    stage.run(main)
