"""Results to metrics, tables and plot data: everything under reports/ but the page, which `wsoup report` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner
from wsoup.finetune.params import FinetuneParams
from wsoup.params.base.datasets import Datasets, FewshotParams
from wsoup.params.base.encoder import EncoderParams
from wsoup.params.base.section import Sections, Seeds, load
from wsoup.params.evaluation import EvaluateParams, LandscapeParams, ReportParams
from wsoup.pipeline import stage
from wsoup.report import ablations, analyses, plots
from wsoup.report.accuracy import finetuned_table, paper_tables, zero_shot_table
from wsoup.report.cost import cost_table, gain_by_cost
from wsoup.report.judgement import (
    Judgement,
    gains,
    optimism_table,
    sentence,
    verdict_metrics,
    verdict_table,
)
from wsoup.report.reading import as_written
from wsoup.report.results import Results
from wsoup.report.run import load_run
from wsoup.report.summaries import metrics, paired_table, size_table
from wsoup.report.tables import Table
from wsoup.report.terminal import summary
from wsoup.report.written import write_reports
from wsoup.search.grow.params import Soups
from wsoup.search.rank.params import CandidatesParams
from wsoup.soup.soup import Soup

AllSoups = Mapping[str, Sequence[Soup]]
"""All seeds of each soup, by its name."""


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    seeds: Seeds
    encoder: EncoderParams
    datasets: Datasets
    fewshot: FewshotParams
    candidates: CandidatesParams
    soups: Soups
    finetune: FinetuneParams
    evaluate: EvaluateParams
    landscape: LandscapeParams
    report: ReportParams


def main(owner: Owner) -> None:
    """Write reports/metrics.json, reports/tables/ and reports/plots/: all of them, or where anything fails none."""
    params = load(Wanted)
    with as_written():
        write(params, Artifacts())


def write(params: Wanted, artifacts: Artifacts) -> None:
    """From what other stages wrote."""
    found, judgement = load_run(params, folder=artifacts.results)
    soups = plots.read_soups(artifacts, soups=list(params.soups), seeds=params.seeds)
    tables = tables_of(found, judgement=judgement, soups=soups, params=params, artifacts=artifacts)
    figures = figures_of(found, judgement=judgement, soups=soups, params=params, artifacts=artifacts)
    values = metrics(found) | {"verdict": verdict_metrics(judgement)}
    write_reports(artifacts.reports, tables=tables, figures=figures, metrics=values)
    print(summary(found))
    print(sentence(judgement))


def tables_of(
    found: Results, *, judgement: Judgement, soups: AllSoups, params: Wanted, artifacts: Artifacts
) -> list[Table]:
    """Every table of this run."""
    tables = [
        zero_shot_table(found),
        verdict_table(judgement),
        optimism_table(judgement),
        cost_table(gains(judgement), soups=soups),
        paired_table(found, samples=params.report.bootstrap_samples, confidence=params.report.confidence),
        size_table(found),
        analyses.single_texts(artifacts.results / PRETRAINED / "texts.parquet", results=found),
        analyses.alignment(found),
        analyses.parameters(found, methods=params.finetune.methods),
        analyses.counts(found),
    ]
    if found.variants != [PRETRAINED]:
        tables += [finetuned_table(found), *paper_tables(found)]
        tables += [ablations.diversity(found, methods=params.finetune.methods)]
    if params.evaluate.texts:
        tables.append(analyses.given_texts(artifacts.results / PRETRAINED / "texts.parquet", results=found))
    if found.halves is not None:
        tables.append(analyses.base_to_new(found, halves=found.halves))
    return tables


def figures_of(
    found: Results, *, judgement: Judgement, soups: AllSoups, params: Wanted, artifacts: Artifacts
) -> dict[str, list[dict[str, Any]]]:
    """Data of every figure, by the name of its template."""
    methods, survey = params.finetune.methods, artifacts.survey
    pools = {pool: artifacts.scores(pool) for pool in ("words", "descriptors")}
    pools[f"random chains of {params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    planes = {method: artifacts.results / "landscape" / f"{method}.parquet" for method in params.landscape.methods}
    return {
        "gains": gains(judgement),
        "gain_by_cost": gain_by_cost(gains(judgement), soups=soups),
        "candidates": plots.candidates(pools, seed=params.seeds[0]),
        "transfer": plots.transfer(survey / "descriptors.parquet"),
        "accuracy_by_m": plots.by_size(found),
        "parameters": plots.parameters(analyses.parameters(found, methods=methods)),
        "members_kl": ablations.members_kl(found, methods=methods),
        "training": ablations.training(found, methods=methods),
        "landscape": plots.landscape(planes),  # `dvc plots` wants a file: [] for none
        "growth": plots.growth(soups),
    }


if __name__ == "__main__":
    stage.run(main)
