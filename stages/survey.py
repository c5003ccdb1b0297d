"""Unselected texts on every dataset, random word chains on the source, and the upper bound selected on the targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import torch
import typer

from wsoup import store
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.transfer import Grid, ranked_on_targets, sample, survey, upper_bound
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.search.pools import read_pool
from wsoup.search.source import load_source
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(source: str, embeddings: Option, splits: Option, pools: Option, out: Option, soup: Option) -> None:
    """Write descriptors.parquet and chains.parquet into folder OUT, and the upper bound into SOUP."""
    params = load_params()
    wanted = params.evaluate.survey
    encoder = load_encoder(params.encoder)
    tests = load_tests(embeddings, params=params, encoder=encoder)
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device, dtype=encoder.dtype)
    drawn = sample(read_pool(pools / "descriptors.txt"), size=wanted.descriptors)
    grid = Grid(["", *drawn], tests=tests, encoder=texts)
    table = survey(grid)
    members = upper_bound(ranked_on_targets(table), grid=grid, m=wanted.m)

    images = load_source(embeddings / f"{source}-train.zarr", splits=splits, seeds=params.seeds, encoder=encoder)
    lengths = [wanted.chain_length] * wanted.chains
    chains = random_chains(read_pool(pools / "words.txt"), lengths=lengths, seed=params.seeds[0])
    subsets = images.images()
    found = [
        subsets.score(block)
        for group in ([""], chains)
        for block in images.text_blocks(group, period=params.score.search_period)
    ]
    scores = pa.concat_tables(
        pa.table(
            {
                "text": ["", *chains],
                "seed": np.repeat(seed, 1 + len(chains)),
                "n_correct": torch.cat([block[k].n_correct for block in found]).cpu().numpy(),
                "n_images": np.repeat(len(images.subsets[seed]), 1 + len(chains)),
            }
        )
        for k, seed in enumerate(params.seeds)
    )
    n_targets = sum(len(test.labels) for test in tests if test.role != "source")
    attributes = {"encoder": encoder.id}
    with store.replacing(out) as folder:
        store.write_table(folder / "descriptors.parquet", table, attributes=attributes)
        store.write_table(folder / "chains.parquet", scores, attributes=attributes)
    store.write_soup(
        soup,
        kind="upper_bound",
        seed=params.seeds[0],
        template=images.template,
        encoder=encoder.id,
        members=[member.as_json(n_images=n_targets) for member in members],
    )
    print(
        f"{out}: {len(drawn)} descriptors on {len(tests)} datasets, {len(chains)} chains; upper bound of {len(members)}"
    )


if __name__ == "__main__":
    stage.run(main)
