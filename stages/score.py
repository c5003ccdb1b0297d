"""Score every candidate of one pool on the source's few-shot images: one pass over the texts for all seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.params import CandidatesParams, ScoreParams
from wsoup.search.rank.pools import read_pool
from wsoup.search.rank.racing import images_scored, part_of, race, racing_cost, rounds_of
from wsoup.search.rank.source import check_fits, identity, load_source
from wsoup.search.rank.statistics import COLUMNS, right_by_name, scores, shards
from wsoup.towers.encoder import load_encoder


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
    otherwise = ", or set candidates.on_long_text: skip"
    check_fits(pooled, source=source, origin=artifacts.pool(pool), otherwise=otherwise)
    size, period = params.score.shard_size, params.candidates.period(pool)
    rounds = rounds_of(params.score.race(pool), n_classes=len(source.class_names))

    def scored(number: int, left: Sequence[str]) -> dict[str, np.ndarray]:
        part = part_of(source, rounds[number].classes)
        images = part.images()
        inputs = [identity(part, encoder=encoder), store.fingerprint(list(left)), size, period]
        baseline_right = right_by_name(part, images=images, period=period)
        cut = shards(left, size=size)
        work = Shards(owner, inputs=inputs, n=len(cut))

        def task(_: int, shard: int) -> dict[str, np.ndarray]:
            return scores(part, cut[shard], images=images, baseline_right=baseline_right, period=period)

        label = f"score {pool}" + (f": round {number + 1} of {len(rounds)}" if len(rounds) > 1 else "")
        finish_shards([work], task=task, label=label, unit="shard")
        encoded.append(f"{len(left) - 1} on {len(rounds[number].classes)} classes: {part.texts.encoded}")
        done = work.load()
        return {name: np.concatenate([part[name] for part in done], axis=1) for name in COLUMNS}  # (K, P')

    encoded: list[str] = []
    columns = race(texts, rounds, n_seeds=len(params.seeds), score=scored)  # (K, P)
    n_images = images_scored(source, rounds, n_classes=columns["n_classes"])
    table = pa.table(
        {
            "text": texts * len(params.seeds),
            "seed": np.repeat(params.seeds, len(texts)),
            "n_images": n_images.ravel(),
            "n_classes": columns["n_classes"].ravel(),
            **{name: columns[name].ravel() for name in COLUMNS},
        }
    )
    cost, by_seed = racing_cost(source, texts, rounds, n_classes=columns["n_classes"], period=period)
    attributes = {
        "encoder": encoder.id,
        "pool": pool,
        "period": period,
        "template": source.template,
        "cost": cost.as_json(),
        "cost_by_seed": {str(seed): one.as_json() for seed, one in zip(params.seeds, by_seed, strict=True)},
        "racing": [{"classes": len(one.classes), "keep": one.keep} for one in rounds],
        "made_with": dict(owner.packages),
    }
    store.write_table(artifacts.scores(pool), table, attributes=attributes)
    finalist = columns["n_classes"][0] == len(source.class_names)
    best = int(np.where(finalist, columns["n_correct"][0], -1).argmax())
    print(
        f"{artifacts.scores(pool)}: {len(texts) - 1} candidates; best for seed {params.seeds[0]}: {texts[best]!r}; "
        f"{int(columns['near_ties'].sum())} of {int(n_images.sum())} answers are near ties (within 1e-6); "
        f"{'; '.join(encoded)}"
    )


if __name__ == "__main__":
    stage.run(main)
