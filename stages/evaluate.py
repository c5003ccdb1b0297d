"""Every zero-shot row on every dataset with the pretrained encoder: counts as Parquet."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED, Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.evaluate.classifiers import class_rows, load_material, pretrained_rows
from wsoup.evaluate.counts import confusion, evaluate, flips, mean_texts
from wsoup.evaluate.encoded import encode_rows
from wsoup.evaluate.judged import random_rows, right_images, selection_counts, together_rows
from wsoup.evaluate.nearest import nearest_prompts
from wsoup.evaluate.params import EvaluateParams, ReportParams
from wsoup.evaluate.rows import judged_mode, judged_soups, table
from wsoup.evaluate.testsets import load_tests
from wsoup.pipeline import stage
from wsoup.search.rank.pools import digest
from wsoup.search.rank.source import load_source
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import ensemble_templates, load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    evaluate: EvaluateParams
    report: ReportParams


def main(owner: Owner) -> None:
    """Evaluate on the test features of every dataset, with all soups and pools.

    Writes results.parquet (the tables' rows), texts.parquet (single texts), flips.parquet (images that the soup which
    the run is about turned right or wrong), confusion.parquet (what that soup takes images for), and for the verdict
    right.parquet and selection.parquet (`wsoup.evaluate.judged`).
    """
    params, artifacts = load(Wanted), Artifacts()
    encoder = load_encoder(params.encoder)
    evaluated = store.read_object(artifacts.evaluated)
    tests = load_tests(artifacts, datasets=evaluated["datasets"], encoder=encoder)
    pools = {soup["name"]: soup["pool"] for soup in evaluated["soups"]}
    material = load_material(
        artifacts, source=params.source, seeds=params.seeds, soups=list(pools), encoder=encoder.id, tests=tests
    )
    rows, texts = pretrained_rows(material, params=params.evaluate), PromptEncoder.of(encoder)
    by_class = class_rows(
        tests,
        rows=table(list(pools)),
        seeds=params.seeds,
        templates=ensemble_templates() if params.evaluate.ensemble else [],
        nearest=nearest_prompts(tests, pool=material.descriptors, m=params.evaluate.baseline_m, encoder=texts),
    )
    classifiers = encode_rows(
        rows, class_rows=by_class, tests=tests, encoder=encoder, texts=texts, owner=owner, label="evaluate"
    )
    lines = evaluate(classifiers, tests=tests, tokenizer=encoder.tokenizer, variant=PRETRAINED)
    single = pc.is_valid(lines["text"])
    # Apart from the tables' rows, whose features keep the sums that they have without these.
    judged = {name: pools[name] for name in judged_soups(list(pools))}
    pair = together_rows(params.report.soup, material=material)
    beside = mean_texts([*pair, *random_rows(material, pools=judged)], class_rows={}, tests=tests, encoder=texts)
    mode = judged_mode(params.report.soup, mode=params.report.mode)
    selection = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    source = next(test for test in tests if test.name == params.source)
    tables = {
        "results": lines.filter(pc.invert(single)),
        "texts": lines.filter(single),
        "right": pa.concat_tables(
            right_images(some, soups=list(judged), tests=tests) for some in (classifiers, beside)
        ),
        "selection": pa.concat_tables(
            selection_counts(some, soups=list(judged), source=source, images=selection.images_of)
            for some in (classifiers, beside)
        ),
        "flips": flips(beside, pair=pair, mode=mode, tests=tests),
        "confusion": confusion(beside, pair=pair, mode=mode, tests=tests),
    }
    attributes = {
        "encoder": encoder.id,
        "datasets": {test.name: test.facts for test in tests},
        "pools": {
            name: {"count": len(pool), "digest": digest(pool)}
            for name, pool in (("words", material.words), ("descriptors", material.descriptors))
        },
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / PRETRAINED
    with store.replacing(out) as folder:
        for name, made in tables.items():
            about = {"soup": params.report.soup, "mode": mode} if name in ("flips", "confusion") else {}
            store.write_table(folder / f"{name}.parquet", made, attributes=attributes | about)
    print(f"{out}: {len(rows)} rows on {len(tests)} datasets, {texts.encoded}")


if __name__ == "__main__":
    stage.run(main)
