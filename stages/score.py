"""Score every candidate of one pool on the source's few-shot images, all seeds in one pass over the texts."""

import numpy as np
import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.pools.lists import read_pool
from wsoup.search.pools.params import CandidatesParams, ScoreParams
from wsoup.search.rank.meter import cost_of
from wsoup.search.rank.source import check_fits, load_source
from wsoup.search.rank.statistics import COLUMNS, scores_in_shards
from wsoup.towers.run import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    candidates: CandidatesParams
    score: ScoreParams


def main(owner: Owner, pool: str) -> None:
    """Score POOL, one of candidates.pools, on the source's training features, for the splits of all seeds."""
    params = load(Wanted)
    run = Run.of(owner, params)
    source = load_source(run)
    path = run.artifacts.pool(pool)
    pooled = read_pool(path)
    check_fits(pooled, source=source, origin=path, otherwise=", or set candidates.on_long_text: skip")
    # The bare class name is scored, too: candidates are compared with it.
    texts = ["", *pooled]
    period = params.candidates.period(pool)
    columns, peak = scores_in_shards(
        source,
        texts,
        period=period,
        likelihood=pool in params.score.likelihood,
        size=params.score.shard_size,
        owner=owner,
        label=f"score {pool}",
    )
    n_images = [len(index) for index in source.subsets.values()]
    repeated = {
        "text": texts * len(n_images),
        "seed": np.repeat(params.seeds, len(texts)),
        "n_images": np.repeat(n_images, len(texts)),
    }
    attributes = run.about | {
        "pool": pool,
        "period": period,
        "template": source.template,
        "cost": cost_of(pooled, period=period, source=source).as_json(),
    }
    by_seed = {name: columns[name].ravel() for name in COLUMNS}
    table = pa.table(repeated | by_seed)
    store.write_table(run.artifacts.scores(pool), table, attributes=attributes)
    # In a file of its own, which only the report reads: another device must not make soups anew.
    store.write_checked_object(run.artifacts.memory("score", pool), {"peak_device_mib": peak})
    best = int(columns["n_correct"][0].argmax())
    best_text = repr(texts[best]) if texts[best] else "none (the class name alone)"
    n_near_ties = int(columns["near_ties"].sum())
    n_answers = sum(n_images) * len(texts)
    print(
        f"{run.artifacts.scores(pool)}: {len(pooled)} candidates; best for seed {params.seeds[0]}: {best_text}; "
        f"{n_near_ties} of {n_answers} answers are near ties (within 1e-6); "
        f"{source.text_encoder.encoded}"
    )


if __name__ == "__main__":
    stage.run(main)
