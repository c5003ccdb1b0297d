"""Results to metrics, tables and plot data: everything under reports/ but the page, which `wsoup report` writes."""

from __future__ import annotations

from wsoup import store
from wsoup.artifacts import PRETRAINED, Artifacts
from wsoup.params.datasets import Datasets
from wsoup.params.evaluation import EvaluateParams, LandscapeParams, ReportParams
from wsoup.params.finetune import FinetuneParams
from wsoup.params.search import Soups
from wsoup.params.section import Sections, Seeds, load
from wsoup.report import ablations, analyses, plots
from wsoup.report.results import load_results
from wsoup.report.tables import finetuned_table, metrics, paired_table, paper_tables, size_table, zero_shot_table
from wsoup.report.terminal import summary
from wsoup.runtime import stage
from wsoup.runtime.shards import Owner


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    seeds: Seeds
    datasets: Datasets
    soups: Soups
    finetune: FinetuneParams
    evaluate: EvaluateParams
    landscape: LandscapeParams
    report: ReportParams


def main(owner: Owner) -> None:
    """Write reports/metrics.json, reports/tables/ and reports/plots/, each whole or not at all."""
    params, artifacts = load(Wanted), Artifacts()
    results, out = artifacts.results, artifacts.reports
    found = load_results(
        results, datasets=params.datasets, methods=list(params.finetune.methods), evaluate=params.evaluate
    )
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
    pools = {pool: artifacts.scores(pool) for pool in ("words", "descriptors")}
    pools[f"random chains of {params.evaluate.survey.chain_length}"] = artifacts.survey / "chains.parquet"
    planes = {method: results / "landscape" / f"{method}.parquet" for method in params.landscape.methods}
    soups = plots.read_soups(artifacts, soups=list(params.soups), seeds=params.seeds)
    with store.replacing(out / "plots") as folder:
        store.write_json(folder / "candidates.json", plots.candidates(pools, seed=params.seeds[0]))
        store.write_json(folder / "transfer.json", plots.transfer(artifacts.survey / "descriptors.parquet"))
        store.write_json(folder / "accuracy_by_m.json", plots.by_size(found))
        store.write_json(folder / "parameters.json", plots.parameters(stored))
        store.write_json(folder / "members_kl.json", ablations.members_kl(found, methods=methods))
        store.write_json(folder / "landscape.json", plots.landscape(planes))  # `dvc plots` wants a file: [] for none
        store.write_json(folder / "growth.json", plots.growth(soups))
    store.write_json(out / "metrics.json", metrics(found))
    print(summary(found))


if __name__ == "__main__":
    stage.run(main)
