"""Score every candidate of one pool on the source's few-shot images: one pass over the texts for all seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from wsoup import store
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.runtime.shards import Shards
from wsoup.scoring import CandidateScores
from wsoup.search.source import check_fits, identity, load_source
from wsoup.towers import load_encoder

COLUMNS = ("n_correct", "alignment", "uniformity", "near_ties")

Option = Annotated[Path, typer.Option()]


def main(pool: Option, embeddings: Option, splits: Option, out: Option) -> None:
    """Score POOL (one text a line) on the training features EMBEDDINGS for all SPLITS into the Parquet file OUT."""
    params = load_params()
    encoder = load_encoder(params.encoder)
    source = load_source(embeddings, splits=splits, seeds=params.seeds, encoder=encoder)
    pooled = store.require(pool, made_by="candidates").read_text(encoding="utf-8").splitlines()
    texts = ["", *pooled]  # the first row is the class name without a descriptor
    check_fits(pooled, source=source, encoder=encoder, origin=pool)
    images, size, period = source.images(), params.score.shard_size, params.score.search_period
    inputs = [identity(source, encoder=encoder), store.fingerprint(texts), size, period]
    shards = Shards("score", inputs=inputs, n=1 + -(-(len(texts) - 1) // size))

    def task(_: int, shard: int) -> dict[str, np.ndarray]:
        chosen = texts[:1] if shard == 0 else texts[1 + (shard - 1) * size : 1 + shard * size]
        blocks = [images.score(block) for block in source.text_blocks(chosen, period=period)]
        return {name: _gather(blocks, name) for name in COLUMNS}

    stage.finish_shards([shards], task=task, label=f"score {pool.stem}", unit="shard")
    parts = shards.load()
    columns = {name: np.concatenate([part[name] for part in parts], axis=1) for name in COLUMNS}  # (K, P)
    table = pa.table(
        {
            "text": texts * len(params.seeds),
            "seed": np.repeat(params.seeds, len(texts)),
            "n_correct": columns["n_correct"].ravel(),
            "n_images": np.repeat([len(index) for index in source.subsets.values()], len(texts)),
            "alignment": columns["alignment"].ravel(),
            "uniformity": columns["uniformity"].ravel(),
            "near_ties": columns["near_ties"].ravel(),
        }
    )
    store.write_table(out, table, attributes={"encoder": encoder.id, "pool": pool.stem, "template": source.template})
    best = int(columns["n_correct"][0].argmax())
    print(
        f"{out}: {len(texts) - 1} candidates; best for seed {params.seeds[0]}: {texts[best]!r}; "
        f"{int(columns['near_ties'].sum())} of {sum(table['n_images'].to_pylist())} answers hang on rounding"
    )


def _gather(blocks: list[list[CandidateScores]], name: str) -> np.ndarray:
    """One column of all seeds from the results of consecutive blocks: (K, P)."""
    return np.stack(
        [np.concatenate([getattr(block[k], name).cpu().numpy() for block in blocks]) for k in range(len(blocks[0]))]
    )


if __name__ == "__main__":
    stage.run(main)
