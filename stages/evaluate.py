"""Every zero-shot row on every dataset with the pretrained encoder, with all soups and pools: counts as Parquet.

Writes results.parquet (rows of the tables), texts.parquet (single texts), flips.parquet and confusion.parquet (what the
run's main soup changes), and right.parquet for the verdict (`wsoup.evaluate.judged`).
"""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows, load_material, pretrained_rows
from wsoup.evaluate.evaluation import answers_of, evaluate, mean_texts
from wsoup.evaluate.judged import judged_tables, right_images
from wsoup.evaluate.params import EvaluateParams, ReportParams
from wsoup.evaluate.rows import judged_mode, judged_soups
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.weighed import bank_of, weighed_answers, weighed_rows
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.pools.lists import digest
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.models import ensemble_templates
from wsoup.towers.run import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    evaluate: EvaluateParams
    report: ReportParams


def main(owner: Owner) -> None:
    """Evaluate on the test features of every dataset."""
    params = load(Wanted)
    run = Run.of(owner, params)
    encoder = run.encoder
    text_encoder = PromptEncoder.of(encoder)
    tests = load_tests(run.artifacts, encoder=encoder)
    material = load_material(run, tests)
    lists = store.read_checked_object(run.artifacts.templates)
    given = replace(material, template_lists=lists["lists"], own_templates=lists["datasets"])
    if params.evaluate.has_ensemble:
        given = replace(given, templates=ensemble_templates())
    by_class = class_rows(given, tests)
    rows = pretrained_rows(material, params=params.evaluate)
    drawn = params.evaluate.baseline_m
    weighed = []
    if params.evaluate.weighed:
        weighed = weighed_rows([*rows, *by_class], soups=list(material.soups), drawn=drawn)
    classifiers = mean_texts(
        [*rows, *by_class], tests=tests, text_encoder=text_encoder, weighed=weighed, run=run, label="evaluate"
    )
    soups = judged_soups(list(material.soups))
    answers = answers_of(classifiers, tests=tests, soups=soups, drawn=drawn)
    by_weight = weighed_answers(classifiers, tests=tests, bank=bank_of(run))
    counts = evaluate([*answers, *by_weight], tokenizer=encoder.tokenizer, variant=PRETRAINED)
    single = pc.is_valid(counts["text"])
    soup = params.report.soup
    mode = judged_mode(soup, mode=params.report.mode)
    # Single texts are many lines, which the report's tables of rows need not read.
    tables = {"results": counts.filter(pc.invert(single)), "texts": counts.filter(single)}
    tables |= judged_tables(answers, material, soup=soup, mode=mode, text_encoder=text_encoder, run=run)
    tables["right"] = pa.concat_tables([tables["right"], right_images(by_weight)])
    pools = material.texts_of_pools
    if material.waffle:
        pools["waffle"] = material.waffle
    # From count and digest the report says whether a row can be compared with the paper's.
    sizes = {name: {"count": len(pool), "digest": digest(pool)} for name, pool in pools.items()}
    facts = {test.name: test.facts for test in tests}
    about = run.about | {"datasets": facts, "pools": sizes}
    with store.replacing(run.artifacts.results / PRETRAINED) as folder:
        for name, lines in tables.items():
            judged = {}
            if name in ("flips", "confusion"):
                judged = {"soup": soup, "mode": mode}
            store.write_table(folder / f"{name}.parquet", lines, attributes=about | judged)
    print(f"{run.artifacts.results / PRETRAINED}: {len(rows)} rows on {len(tests)} datasets, {text_encoder.encoded}")


if __name__ == "__main__":
    stage.run(main)
