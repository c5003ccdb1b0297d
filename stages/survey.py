"""Unselected texts on every dataset, random word chains on the source, and the upper bound selected on the targets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.transfer import Grid, ranked_on_targets, sample, transfer, upper_bound
from wsoup.pipeline import stage
from wsoup.search.rank.params import CandidatesParams
from wsoup.search.rank.pools import read_pool
from wsoup.search.rank.source import load_source
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    candidates: CandidatesParams
    evaluate: EvaluateParams


def main(owner: Owner) -> None:
    """Write descriptors.parquet and chains.parquet of the survey, and the upper bound as a soup."""
    params, artifacts = load(Wanted), Artifacts()
    wanted = params.evaluate.survey
    encoder = load_encoder(params.encoder)
    tests = load_tests(artifacts, datasets=store.read_object(artifacts.evaluated)["datasets"], encoder=encoder)
    texts = PromptEncoder.of(encoder)
    drawn = sample(read_pool(artifacts.pool("descriptors")), size=wanted.descriptors)
    grid = Grid(["", *drawn], tests=tests, encoder=texts)
    table = transfer(grid)
    members = upper_bound(ranked_on_targets(table), grid=grid, m=wanted.m)

    images = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    lengths = [wanted.chain_length] * wanted.chains
    chains = random_chains(read_pool(artifacts.pool("words")), lengths=lengths, seed=params.seeds[0])
    subsets = images.images()
    by_block = [
        subsets.score(block)
        for group in ([""], chains)
        for block in images.text_blocks(group, period=params.candidates.words.period)
    ]
    scores = pa.concat_tables(
        pa.table(
            {
                "text": ["", *chains],
                "seed": np.repeat(seed, 1 + len(chains)),
                "n_correct": torch.cat([scores.n_correct for scores in of_seed]).cpu().numpy(),
                "n_images": np.repeat(of_seed[0].n_images, 1 + len(chains)),
            }
        )
        for seed, of_seed in zip(params.seeds, zip(*by_block, strict=True), strict=True)
    )
    attributes = {"encoder": encoder.id, "made_with": dict(owner.packages)}
    with store.replacing(artifacts.survey) as folder:
        store.write_table(folder / "descriptors.parquet", table, attributes=attributes)
        store.write_table(folder / "chains.parquet", scores, attributes=attributes)
    bound = Soup("upper_bound", params.seeds[0], images.template, encoder.id, tuple(members), owner.packages)
    bound.save(artifacts.upper_bound)
    print(
        f"{artifacts.survey}: {len(drawn)} descriptors on {len(tests)} datasets, {len(chains)} chains; "
        f"upper bound of {len(members)}; datasets: {texts.encoded}; source: {images.texts.encoded}"
    )


if __name__ == "__main__":
    stage.run(main)
