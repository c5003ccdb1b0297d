"""A run as reports see it: its results, the verdict on its soups, all tables, and the data of all figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wsoup.check.whole import Params
from wsoup.core.disk.artifacts import PRETRAINED, Artifacts
from wsoup.core.params.datasets import Datasets
from wsoup.core.params.section import Name, Sections, Seeds
from wsoup.evaluate.params import EvaluateParams, LandscapeParams, ReportParams
from wsoup.finetune.params import FinetuneParams
from wsoup.report import analyses, photos, plots, summaries
from wsoup.report.accuracy import finetuned_table, paper_tables, zero_shot_table
from wsoup.report.judgement import Judgement, load_judgement
from wsoup.report.results import Results, load_results
from wsoup.report.tables import Table
from wsoup.report.verdict import gains, optimism_table, verdict_table
from wsoup.search.grow.params import Soups
from wsoup.soup.soup import Soup


class RunParams(Sections):
    """The sections of params.yaml that reports need; what else there is is only held against the paper's."""

    seeds: Seeds
    datasets: Datasets
    soups: Soups
    finetune: FinetuneParams
    heads: dict[Name, Any]  # what kinds there are is no matter here
    adapt: dict[Name, Any]
    evaluate: EvaluateParams
    landscape: LandscapeParams
    report: ReportParams


@dataclass(frozen=True)
class Run:
    """What stages that evaluate left behind; see `load_run`."""

    params: RunParams | Params
    artifacts: Artifacts
    results: Results
    judgement: Judgement

    @cached_property
    def soups(self) -> dict[str, list[Soup]]:
        """All seeds of each soup, by its name."""
        seeds = self.params.seeds
        return {name: [Soup.load(self.artifacts.soup(name, seed=k)) for k in seeds] for name in self.params.soups}


def load_run(params: RunParams | Params, *, artifacts: Artifacts) -> Run:
    """Read a run's results and judge its soups.

    Raises:
        MissingError, MismatchError: a stage has not run, or a file of it is not as it was written.
    """
    folder = artifacts.results
    results = load_results(
        folder,
        datasets=params.datasets,
        soups=list(params.soups),
        methods=list(params.finetune.methods),
        heads=list(params.heads),
        evaluate=params.evaluate,
        sections=params.model_dump(mode="json", by_alias=True),
    )
    judgement = load_judgement(folder, soups=params.soups, roles=results.roles, report=params.report)
    return Run(params, artifacts, results, judgement)


def tables(run: Run, *, saved: Sequence[Table] = ()) -> list[Table]:
    """Every table of a run, in the order of the page; `saved` are those that stand on disk already."""
    results, judgement, params = run.results, run.judgement, run.params
    texts = run.artifacts.results / PRETRAINED / "texts.parquet"
    folder, confidence, tuned = run.artifacts.results, params.report.confidence, results.variants != [PRETRAINED]
    roles, methods = results.roles, params.finetune.methods
    return [
        verdict_table(judgement),
        *([] if results.halves is None else [analyses.base_to_new(results, halves=results.halves)]),
        zero_shot_table(results),
        *([finetuned_table(results), *paper_tables(results)] if tuned else []),
        *([summaries.diversity(results, methods=methods)] if tuned and methods else []),
        *(
            [photos.heads_table(folder, heads=list(params.heads), roles=roles, confidence=confidence)]
            if params.heads
            else []
        ),
        *(
            [photos.adapted_table(folder, adaptations=list(params.adapt), confidence=confidence)]
            if params.adapt
            else []
        ),
        optimism_table(judgement),
        summaries.cost_table(gains(judgement), soups=run.soups),
        summaries.paired_table(results, confidence=confidence),
        *saved,
        *([analyses.given_texts(texts, results=results)] if params.evaluate.texts else []),
        analyses.single_texts(texts, results=results),
        analyses.alignment(results),
        analyses.parameters(results, trained=trained(params)),
        summaries.size_table(results),
        analyses.counts(results),
    ]


def trained(params: RunParams | Params) -> dict[str, str]:
    """What each finetuned method trains; a head nothing, it is a closed form."""
    return {name: m.tune.kind for name, m in params.finetune.methods.items()} | dict.fromkeys(params.heads, "head")


def figures(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Data of every figure, by the name of its template: [] where there is none, since `dvc plots` wants a file."""
    results, methods, artifacts = run.results, run.params.finetune.methods, run.artifacts
    survey, landscapes = artifacts.survey, artifacts.results / "landscape"
    pools = scored(run.params.soups, artifacts=artifacts)
    pools[f"random chains of {run.params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    return {
        "gains": gains(run.judgement),
        "gain_by_cost": summaries.gain_by_cost(gains(run.judgement), soups=run.soups),
        "candidates": plots.candidates(pools, seed=run.params.seeds[0]),
        "transfer": plots.transfer(survey / "descriptors.parquet"),
        "accuracy_by_m": plots.by_size(results, mode=run.params.report.mode),
        "parameters": plots.parameters(analyses.parameters(results, trained=trained(run.params))),
        "members_kl": summaries.members_kl(results, methods=methods),
        "training": summaries.training(results, methods=methods),
        "landscape": plots.landscape({name: landscapes / f"{name}.parquet" for name in run.params.landscape.methods}),
        "growth": plots.growth(run.soups),
    }


def scored(soups: Soups, *, artifacts: Artifacts) -> dict[str, Path]:
    """The scores of words and descriptors; those of a pool that no soup is made of only where they are there."""
    used = {soup.pool for soup in soups.values()}
    paths = {pool: artifacts.scores(pool) for pool in ("words", "descriptors")}
    return {pool: path for pool, path in paths.items() if path.exists() or used & {pool, "mixed"}}
