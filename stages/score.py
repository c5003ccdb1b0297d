"""Score every candidate of one pool on the source's few-shot images: one pass over the texts for all seeds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wsoup import store
from wsoup.artifacts import Artifacts
from wsoup.params.encoder import EncoderParams
from wsoup.params.search import CandidatesParams, ScoreParams
from wsoup.params.section import Name, Sections, Seeds, load
from wsoup.runtime import stage
from wsoup.runtime.shards import Owner, Shards, finish_shards
from wsoup.search.pools import read_pool
from wsoup.search.scores import COLUMNS, pool_cost, right_by_name, scores
from wsoup.search.source import check_fits, identity, load_source
from wsoup.towers import load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    candidates: CandidatesParams
    score: ScoreParams


def main(owner: Owner, pool: str) -> None:
    """Score POOL (words, descriptors) on the source's training features, for the splits of all seeds."""
    params, artifacts = load(Wanted), Artifacts()
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    pooled = read_pool(artifacts.pool(pool))
    texts = ["", *pooled]  # the first row is the class name without a descriptor
    check_fits(pooled, source=source, origin=artifacts.pool(pool))
    images, size, period = source.images(), params.score.shard_size, params.candidates.period(pool)
    inputs = [identity(source, encoder=encoder), store.fingerprint(texts), size, period]
    named = right_by_name(source, images=images, period=period)
    shards = Shards(owner, inputs=inputs, n=1 + -(-(len(texts) - 1) // size))

    def task(_: int, shard: int) -> dict[str, np.ndarray]:
        chosen = texts[:1] if shard == 0 else texts[1 + (shard - 1) * size : 1 + shard * size]
        return scores(source, chosen, images=images, named=named, period=period)

    finish_shards([shards], task=task, label=f"score {pool}", unit="shard")
    parts = shards.load()
    columns = {name: np.concatenate([part[name] for part in parts], axis=1) for name in COLUMNS}  # (K, P)
    n_images = [len(index) for index in source.subsets.values()]
    table = pa.table(
        {
            "text": texts * len(params.seeds),
            "seed": np.repeat(params.seeds, len(texts)),
            "n_images": np.repeat(n_images, len(texts)),
            **{name: columns[name].ravel() for name in COLUMNS},
        }
    )
    cost = pool_cost(source, pooled, period=period)
    attributes = {
        "encoder": encoder.id,
        "pool": pool,
        "period": period,
        "template": source.template,
        "cost": cost.as_json(),
        "made_with": dict(owner.packages),
    }
    store.write_table(artifacts.scores(pool), table, attributes=attributes)
    best = int(columns["n_correct"][0].argmax())
    print(
        f"{artifacts.scores(pool)}: {len(texts) - 1} candidates; best for seed {params.seeds[0]}: {texts[best]!r}; "
        f"{int(columns['near_ties'].sum())} of {len(texts) * sum(n_images)} answers hang on rounding; "
        f"{source.texts.encoded}"
    )


if __name__ == "__main__":
    stage.run(main)
