"""Every zero-shot row on every dataset with the pretrained encoder: counts as Parquet."""

import pyarrow.compute as pc

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows, load_material, nearest_prompts, pretrained_rows
from wsoup.evaluate.counts import encode_rows, evaluate
from wsoup.evaluate.judged import judge
from wsoup.evaluate.params import EvaluateParams, ReportParams
from wsoup.evaluate.rows import judged_mode
from wsoup.evaluate.testsets import load_tests
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.rank.pools import digest
from wsoup.search.rank.source import SourceParams, load_source
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import ensemble_templates, load_encoder


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    evaluate: EvaluateParams
    report: ReportParams


def main(owner: Owner) -> None:
    """Evaluate on the test features of every dataset, with all soups and pools.

    Writes results.parquet (rows of the tables), texts.parquet (single texts), flips.parquet and confusion.parquet (what
    the run's main soup changes), and right.parquet and selection.parquet for the verdict (`wsoup.evaluate.judged`).
    """
    params, artifacts = load(Wanted), Artifacts()
    encoder = load_encoder(params.encoder)
    tests = load_tests(artifacts, encoder=encoder)
    material = load_material(artifacts, source=params.source, seeds=params.seeds, encoder=encoder.id, tests=tests)
    rows, texts = pretrained_rows(material, params=params.evaluate), PromptEncoder.of(encoder)
    by_class = class_rows(
        tests,
        seeds=params.seeds,
        templates=ensemble_templates() if params.evaluate.ensemble else [],
        nearest=nearest_prompts(tests, pool=material.descriptors, m=params.evaluate.baseline_m, encoder=texts),
    )
    classifiers = encode_rows(
        rows, class_rows=by_class, tests=tests, encoder=encoder, texts=texts, owner=owner, label="evaluate"
    )
    counts = evaluate(classifiers, tests=tests, tokenizer=encoder.tokenizer, variant=PRETRAINED)
    single = pc.is_valid(counts["text"])
    tables = {"results": counts.filter(pc.invert(single)), "texts": counts.filter(single)}
    mode = judged_mode(params.report.soup, mode=params.report.mode)
    tables |= judge(
        classifiers,
        material=material,
        soup=params.report.soup,
        mode=mode,
        tests=tests,
        source=params.source,
        selection=load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder).images_of,
        encoder=texts,
    )
    pools = {"words": material.words, "descriptors": material.descriptors}
    attributes = {
        "encoder": encoder.id,
        "datasets": {test.name: test.facts for test in tests},
        "pools": {name: {"count": len(pool), "digest": digest(pool)} for name, pool in pools.items()},
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / PRETRAINED
    with store.replacing(out) as folder:
        for name, lines in tables.items():
            about = {"soup": params.report.soup, "mode": mode} if name in ("flips", "confusion") else {}
            store.write_table(folder / f"{name}.parquet", lines, attributes=attributes | about)
    print(f"{out}: {len(rows)} rows on {len(tests)} datasets, {texts.encoded}")


if __name__ == "__main__":
    stage.run(main)
