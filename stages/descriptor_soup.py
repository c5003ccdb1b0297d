"""Algorithm 1 for every seed: ranked descriptors -> soups/descriptor/seed<k>.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup import store
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.search.algorithms import descriptor_soup, right_on
from wsoup.search.source import load_source, ranked_texts
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(scores: Option, embeddings: Option, splits: Option, out: Option) -> None:
    """Build a descriptor soup per seed from SCORES, the source's EMBEDDINGS and few-shot SPLITS into folder OUT."""
    params = load_params()
    encoder = load_encoder(params.encoder)
    source = load_source(embeddings, splits=splits, seeds=params.seeds, encoder=encoder)
    with store.replacing(out) as folder:
        for seed in stage.progress(params.seeds, label="descriptor soup", unit="seed"):
            index = source.subsets[seed]
            members = descriptor_soup(
                ranked_texts(scores, seed=seed, encoder=encoder.id),
                features=lambda texts: source.text_blocks(texts, period=params.score.search_period),
                measure=right_on(source.image_features[index], source.labels[index]),
                m=params.descriptor_soup.m,
            )
            store.write_soup(
                folder / f"seed{seed}.json",
                kind="descriptor",
                seed=seed,
                template=source.template,
                encoder=encoder.id,
                members=[member.as_json(n_images=len(index)) for member in members],
            )
            print(f"seed {seed}: {len(members)} descriptors, {members[-1].n_correct} of {len(index)} right")


if __name__ == "__main__":
    stage.run(main)
