"""The loss landscape of one method with one tuned soft descriptor, first seed. A shard is a row of the plane.

At the paper's scale (ViT-B-16, some 2,500 class prompts, 13 x 13 points) it takes about two hours on one CPU core.
"""

import json
from dataclasses import replace
from functools import partial

from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate import landscape
from wsoup.evaluate.params import LandscapeParams
from wsoup.evaluate.testsets import load_tests
from wsoup.finetune.tuned import load_tuned
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import Run, SourceParams, load_source
from wsoup.soup.soup import Soup


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    landscape: LandscapeParams


def main(owner: Owner, method: str) -> None:
    """Count correct images over the plane of METHOD, one of landscape.methods, and the first member of a soup."""
    params = load(Wanted)
    section, seed = params.landscape, params.seeds[0]
    one_of("landscape.methods", dict.fromkeys(section.methods), method)
    run = replace(Run.of(owner, params), seeds=(seed,))
    artifacts, encoder, source = run.artifacts, run.encoder, load_source(run)
    tests = landscape.shown_datasets(load_tests(artifacts, encoder=encoder), source=source, seed=seed)
    member = Soup.load(artifacts.soup(section.soup, seed=seed), encoder=encoder.id).texts[0]
    tuned, template = load_tuned(artifacts.tuned(method, seed=seed), encoder=encoder), source.template
    plane = landscape.Plane(tuned, encoder=encoder, template=template, seed=seed, member=member, tests=tests)
    axis = landscape.axis(steps=section.steps, margin=section.margin)
    inputs = [tuned.id, template, member, axis, landscape.identity(tests)]

    def count(y: float) -> bytes:
        return json.dumps([plane.count(x, y) for x in axis]).encode()

    shards = [Shard(owner, [*inputs, y], partial(count, y)) for y in axis]
    rows = map(json.loads, finish_shards(shards, label=f"landscape {method}", unit="row"))
    counts = {(x, y): counted for y, row in zip(axis, rows, strict=True) for x, counted in zip(axis, row, strict=True)}
    out = artifacts.results / "landscape" / f"{method}.parquet"
    store.write_table(out, landscape.table(counts, tests=tests, seed=seed), attributes=run.about | {"method": method})
    print(f"{out}: {method}, seed {seed}, {len(axis)} x {len(axis)} points; B: {member!r}")


if __name__ == "__main__":
    stage.run(main)
