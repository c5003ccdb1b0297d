"""Unselected texts on every dataset, random word chains on the source, and the upper bound selected on the targets."""

from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.transfer import Grid, sample, source_counts, transfer, upper_bound
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.rank.lists import read_pool
from wsoup.search.rank.params import CandidatesParams
from wsoup.search.rank.source import Run, SourceParams, load_source
from wsoup.soup.soup import Member, Soup
from wsoup.texts.encoder import PromptEncoder


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
    texts = PromptEncoder.of(run.encoder)
    tests = load_tests(artifacts, encoder=run.encoder)
    drawn = sample(read_pool(artifacts.pool("descriptors")), size=survey.descriptors)
    grid = Grid(["", *drawn], tests=tests, encoder=texts)
    table = transfer(grid)
    # Without targets nothing is selected: the class name alone stands for the bound, and evaluation leaves its row out.
    members = upper_bound(table, grid=grid, m=survey.m) or [Member("")]

    source = load_source(run)
    lengths = [survey.chain_length] * survey.chains
    chains = random_chains(read_pool(artifacts.pool("words")), lengths=lengths, seed=params.seeds[0])
    counts = source_counts(source, chains, period=params.candidates.words.period)
    with store.replacing(artifacts.survey) as folder:
        store.write_table(folder / "descriptors.parquet", table, attributes=run.about)
        store.write_table(folder / "chains.parquet", counts, attributes=run.about)
    bound = Soup("upper_bound", params.seeds[0], source.template, run.encoder.id, tuple(members), owner.packages)
    bound.save(artifacts.upper_bound)
    print(
        f"{artifacts.survey}: {len(drawn)} descriptors on {len(tests)} datasets, {len(chains)} chains; "
        f"upper bound of {len(members)}; datasets: {texts.encoded}; source: {source.texts.encoded}"
    )


if __name__ == "__main__":
    stage.run(main)
