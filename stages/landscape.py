"""The loss landscape around one method with one tuned soft descriptor, first seed: counts as Parquet."""

import json
from dataclasses import replace
from functools import partial

from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate import landscape
from wsoup.evaluate.params import LandscapeParams
from wsoup.evaluate.testsets import identity_of_tests, load_tests
from wsoup.finetune.training_set import start_words
from wsoup.finetune.tuned import load_tuned, read_tuned_config
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import load_source
from wsoup.towers.run import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    landscape: LandscapeParams


def main(owner: Owner, method: str) -> None:
    """Count correct images over the plane of METHOD, one of landscape.methods, and the first member of a soup."""
    params = load(Wanted)
    section = params.landscape
    one_of("landscape.methods", dict.fromkeys(section.methods), method)
    seed = params.seeds[0]
    run = replace(Run.of(owner, params), seeds=(seed,))
    artifacts = run.artifacts
    pretrained = run.encoder
    source = load_source(run)
    tests = landscape.shown_datasets(load_tests(artifacts, encoder=pretrained), source=source, seed=seed)
    soup = Soup.load(artifacts.soup(section.soup, seed=seed), encoder=pretrained.id)
    member = soup.texts[0]
    folder = artifacts.tuned(method, seed=seed)
    _, tune = read_tuned_config(folder)
    tuned = load_tuned(folder, encoder=pretrained)
    corners = landscape.find_corners(
        tuned, pretrained=pretrained, template=source.template, words=start_words(tune), member=member, seed=seed
    )
    plane = landscape.Plane(tuned, corners=corners, tests=tests)

    def count(row: list[landscape.Point]) -> bytes:
        return json.dumps([plane.count(point) for point in row]).encode()

    rows = landscape.rows_of_points(steps=section.steps, margin=section.margin)
    # A shard is a row of points, not the whole plane, so that a kill costs little.
    inputs = [tuned.id, source.template, member, identity_of_tests(tests)]
    shards = [Shard(owner, [*inputs, row], partial(count, row), size=len(row)) for row in rows]
    counts: dict[landscape.Point, list[int]] = {}
    finished = finish_shards(shards, label=f"landscape {method}", unit="point")
    for row, counted in zip(rows, finished, strict=True):
        counts.update(zip(row, json.loads(counted), strict=True))
    out = artifacts.results / "landscape" / f"{method}.parquet"
    made = landscape.table(counts, tests=tests, seed=seed)
    store.write_table(out, made, attributes=run.about | {"method": method, "member": member})
    print(f"{out}: {method}, seed {seed}, {len(counts)} points; B: {member!r}")


if __name__ == "__main__":
    stage.run(main)
