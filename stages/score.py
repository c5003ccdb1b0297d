"""Score every candidate of one pool on the source's few-shot images, all seeds in one pass over the texts."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.rank.params import CandidatesParams, ScoreParams
from wsoup.search.rank.pools import read_pool
from wsoup.search.rank.racing import race, racing_cost, rounds_of
from wsoup.search.rank.source import Run, Source, SourceParams, check_fits, load_source
from wsoup.search.rank.statistics import COLUMNS, scores_in_shards


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    candidates: CandidatesParams
    score: ScoreParams


def main(owner: Owner, pool: str) -> None:
    """Score POOL (words or descriptors) on the source's training features, for the splits of all seeds."""
    params = load(Wanted)
    run = Run.of(owner, params)
    source, path = load_source(run), run.artifacts.pool(pool)
    pooled = read_pool(path)
    check_fits(pooled, source=source, origin=path, otherwise=", or set candidates.on_long_text: skip")
    texts, period = ["", *pooled], params.candidates.period(pool)  # the first row is the bare class name
    rounds = rounds_of(params.score.race(pool), n_classes=len(source.class_names))
    encoded: list[str] = []

    def score(part: Source, left: Sequence[str]) -> dict[str, np.ndarray]:
        label = f"score {pool}" + (f": round {len(encoded) + 1} of {len(rounds)}" if len(rounds) > 1 else "")
        scored = scores_in_shards(part, left, period=period, size=params.score.shard_size, owner=owner, label=label)
        encoded.append(f"{len(left) - 1} on {len(part.class_names)} classes: {part.texts.encoded}")
        return scored

    columns = race(source, texts, rounds, score=score)  # (K, P)
    seeds = np.repeat(params.seeds, len(texts))
    in_order = ("n_images", "n_classes", *COLUMNS)
    table = pa.table(
        {"text": texts * len(params.seeds), "seed": seeds, **{name: columns[name].ravel() for name in in_order}}
    )
    cost, by_seed = racing_cost(source, texts, rounds, n_classes=columns["n_classes"], period=period)
    attributes = run.about | {
        "pool": pool,
        "period": period,
        "template": source.template,
        "cost": cost.as_json(),
        "cost_by_seed": {str(seed): own.as_json() for seed, own in zip(params.seeds, by_seed, strict=True)},
        "racing": [{"classes": len(each.classes), "keep": each.keep} for each in rounds],
    }
    store.write_table(run.artifacts.scores(pool), table, attributes=attributes)
    finalist = columns["n_classes"][0] == len(source.class_names)
    best = int(np.where(finalist, columns["n_correct"][0], -1).argmax())
    print(
        f"{run.artifacts.scores(pool)}: {len(texts) - 1} candidates; best for seed {params.seeds[0]}: {texts[best]!r}; "
        f"{int(columns['near_ties'].sum())} of {int(columns['n_images'].sum())} answers are near ties (within 1e-6); "
        f"{'; '.join(encoded)}"
    )


if __name__ == "__main__":
    stage.run(main)
