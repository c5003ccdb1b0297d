"""Results to metrics, tables and plot data: everything under reports/ but the page, which `wsoup report` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup import store
from wsoup.params.whole import load_params
from wsoup.report import ablations, analyses, plots
from wsoup.report.results import PRETRAINED, load_results
from wsoup.report.tables import finetuned_table, metrics, paired_table, paper_tables, size_table, zero_shot_table
from wsoup.report.terminal import summary
from wsoup.runtime import stage

Option = Annotated[Path, typer.Option()]


def main(results: Option, scores: Option, soups: Option, survey: Option, out: Option) -> None:
    """Write metrics.json, tables/ and plots/ into folder OUT from RESULTS, SCORES, SOUPS and SURVEY."""
    params = load_params()
    found = load_results(results, params=params)
    methods = params.finetune.methods
    stored = analyses.parameters(found, methods=methods)
    tables = [
        zero_shot_table(found),
        paired_table(found, samples=params.report.bootstrap_samples, confidence=params.report.confidence),
        size_table(found),
        analyses.single_texts(results / PRETRAINED / "texts.parquet", results=found),
        analyses.alignment(found),
        stored,
        analyses.counts(found),
    ]
    if found.variants != [PRETRAINED]:
        tables += [finetuned_table(found), *paper_tables(found), ablations.diversity(found, methods=methods)]
    if found.halves is not None:
        tables.append(analyses.base_to_new(found, halves=found.halves))
    with store.replacing(out / "tables") as folder:
        folder.mkdir()
        for table in tables:
            table.write(folder)
    pools = {pool: scores / f"{pool}.parquet" for pool in ("words", "descriptors")}
    pools[f"random chains of {params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    planes = {method: results / "landscape" / f"{method}.parquet" for method in params.landscape.methods}
    with store.replacing(out / "plots") as folder:
        store.write_json(folder / "candidates.json", plots.candidates(pools, seed=params.seeds[0]))
        store.write_json(folder / "transfer.json", plots.transfer(survey / "descriptors.parquet"))
        store.write_json(folder / "accuracy_by_m.json", plots.by_size(found))
        store.write_json(folder / "parameters.json", plots.parameters(stored))
        store.write_json(folder / "members_kl.json", ablations.members_kl(found, methods=methods))
        store.write_json(folder / "landscape.json", plots.landscape(planes))  # `dvc plots` wants a file: [] for none
        store.write_json(folder / "growth.json", plots.growth(plots.read_soups(soups, seeds=params.seeds)))
    store.write_json(out / "metrics.json", metrics(found))
    print(summary(found))


if __name__ == "__main__":
    stage.run(main)
