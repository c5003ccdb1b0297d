"""The loss landscape of one method with a trained prompt or soft descriptor, first seed. A shard is a row of the plane.

At the paper's scale (ViT-B-16, some 2,500 class prompts, 13 x 13 points) that is about two hours of one CPU core.
"""

from __future__ import annotations

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.errors import ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.evaluate import landscape
from wsoup.evaluate.params import LandscapeParams
from wsoup.evaluate.soft_plane import SoftPlane, shown_datasets, starts
from wsoup.evaluate.testsets import ClassPrompts, load_tests
from wsoup.finetune.tuned import load_tuned
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import load_source
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import load_encoder

RANDOM_WORDS = "random words"
"""What stands in place of a text at the start of a soft descriptor."""


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    landscape: LandscapeParams


def main(owner: Owner, method: str) -> None:
    """Count correct test images over the plane of METHOD, one of landscape.methods, with members of a soup."""
    params, artifacts = load(Wanted), Artifacts()
    wanted, seed = params.landscape, params.seeds[0]
    if method not in wanted.methods:
        known = ", ".join(wanted.methods) or "none"
        raise ParamsError(f"landscape.methods has no {method!r} (it has {known}); add it there in params.yaml")
    encoder = load_encoder(params.encoder)
    tests = load_tests(artifacts, datasets=store.read_object(artifacts.evaluated)["datasets"], encoder=encoder)
    soup = Soup.load(artifacts.soup(wanted.soup, seed=seed), encoder=encoder.id).texts
    tuned = load_tuned(artifacts.tuned(method, seed=seed), encoder=encoder)
    template = next(test.template for test in tests if test.name == params.source)
    texts: landscape.TextsAt
    if tuned.model.soft_descriptors is not None:
        pair, origin = (RANDOM_WORDS, soup[0]), "tuned"
        source = load_source(artifacts, source=params.source, seeds=[seed], encoder=encoder)
        tests = shown_datasets(tests, source=source, seed=seed)
        corners = starts(encoder, tuned=tuned, template=template, seed=seed, soup=soup)
        texts = SoftPlane(tuned, starts=corners, stems=ClassPrompts(tests).stems).texts
    else:
        pair, origin = landscape.choose_pair(soup, name=wanted.soup, tokenizer=encoder.tokenizer), "A"
        start = landscape.starting_prompt(encoder, tuned=tuned, template=template)
        texts = landscape.Plane(tuned, start=start, pair=pair, stems=ClassPrompts(tests).stems).texts
    axis = landscape.axis(steps=wanted.steps, margin=wanted.margin)
    shards = Shards(owner, inputs=[tuned.id, template, pair, axis, landscape.identity(tests)], n=len(axis))

    def task(_: int, row: int) -> dict[str, np.ndarray]:
        return {"n_correct": landscape.count_row(texts, y=axis[row], axis=axis, tests=tests)}

    finish_shards([shards], task=task, label=f"landscape {method}", unit="row")
    counts = [part["n_correct"] for part in shards.load()]
    attributes = {
        "encoder": encoder.id,
        "method": method,
        "members": pair,
        "origin": origin,
        "cut": any(text not in (*soup, RANDOM_WORDS) for text in pair),
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / "landscape" / f"{method}.parquet"
    store.write_table(out, landscape.table(counts, axis=axis, tests=tests, seed=seed), attributes=attributes)
    print(f"{out}: {method}, seed {seed}, {len(axis)} x {len(axis)} points; A: {pair[0]!r}, B: {pair[1]!r}")


if __name__ == "__main__":
    stage.run(main)
