"""The loss landscape of one method with a tuned prompt or soft descriptor, first seed. A shard is a row of the plane.

At the paper's scale (ViT-B-16, some 2,500 class prompts, 13 x 13 points) it takes about two hours on one CPU core.
"""

from dataclasses import replace
from functools import partial

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate import landscape
from wsoup.evaluate.params import LandscapeParams
from wsoup.evaluate.testsets import ClassPrompts, load_tests
from wsoup.finetune.tuned import load_tuned
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import Run, SourceParams, load_source
from wsoup.soup.soup import Soup

RANDOM_WORDS = "random words"
"""Stands for a text in the attributes if a soft descriptor started at random."""


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    landscape: LandscapeParams


def main(owner: Owner, method: str) -> None:
    """Count correct images over the plane of METHOD, one of landscape.methods, and members of a soup."""
    params = load(Wanted)
    section, seed = params.landscape, params.seeds[0]
    if method not in section.methods:
        known = ", ".join(section.methods) or "none"
        raise ParamsError(f"landscape.methods has no {method!r} (it has {known}); add it there in params.yaml")
    run = replace(Run.of(owner, params), seeds=(seed,))
    artifacts, encoder = run.artifacts, run.encoder
    tests = load_tests(artifacts, encoder=encoder)
    soup = Soup.load(artifacts.soup(section.soup, seed=seed), encoder=encoder.id).texts
    tuned = load_tuned(artifacts.tuned(method, seed=seed), encoder=encoder)
    template = next(test.template for test in tests if test.name == params.source)
    plane: landscape.PromptPlane | landscape.SoftDescriptorPlane
    if tuned.model.soft_descriptors is not None:
        pair, origin = (RANDOM_WORDS, soup[0]), "tuned"
        tests = landscape.shown_datasets(tests, source=load_source(run), seed=seed)
        plane = landscape.SoftDescriptorPlane(
            tuned, encoder=encoder, template=template, seed=seed, soup=soup, stems=ClassPrompts(tests).stems
        )
    else:
        pair, origin = landscape.choose_pair(soup, name=section.soup, tokenizer=encoder.tokenizer), "A"
        plane = landscape.PromptPlane(
            tuned, encoder=encoder, template=template, pair=pair, stems=ClassPrompts(tests).stems
        )
    axis = landscape.axis(steps=section.steps, margin=section.margin)
    inputs = [tuned.id, template, pair, axis, landscape.identity(tests)]

    def count(y: float) -> bytes:
        return store.pack_arrays({"n_correct": landscape.count_row(plane.texts, y=y, axis=axis, tests=tests)})

    shards = [Shard(owner, [*inputs, y], partial(count, y)) for y in axis]
    counted = finish_shards(shards, label=f"landscape {method}", unit="row")
    rows = [store.unpack_arrays(payload, origin=method)["n_correct"] for payload in counted]
    attributes = run.about | {
        "method": method,
        "members": pair,
        "origin": origin,
        "cut": any(text not in (*soup, RANDOM_WORDS) for text in pair),
    }
    out = artifacts.results / "landscape" / f"{method}.parquet"
    store.write_table(out, landscape.table(rows, axis=axis, tests=tests, seed=seed), attributes=attributes)
    print(f"{out}: {method}, seed {seed}, {len(axis)} x {len(axis)} points; A: {pair[0]!r}, B: {pair[1]!r}")


if __name__ == "__main__":
    stage.run(main)
