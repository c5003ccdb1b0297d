"""A run as reports see it: results, verdicts, all tables, the data of all figures, and how long its stages took."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wsoup.check.whole import Params
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.params import EvaluateParams, LandscapeParams, ReportParams
from wsoup.finetune.params import FinetuneParams
from wsoup.params.inputs import Datasets
from wsoup.params.section import Name, Sections, Seeds
from wsoup.report import analyses, plots
from wsoup.report.accuracy import finetuned_table, paper_tables, size_table, zero_shot_table
from wsoup.report.heads import heads_table
from wsoup.report.reading import load_results
from wsoup.report.results import Results
from wsoup.report.tables import Table
from wsoup.report.verdict import Judgement, gains, load_judgement, optimism_table, verdict_table
from wsoup.search.grow.params import Soups
from wsoup.soup.soup import Soup

SPENT = ("images_seconds", "texts_seconds", "images_gflops", "texts_gflops")
"""Costs that `wsoup.runtime.process` notes for a stage."""
EVALUATING = ("embed", "evaluate", "evaluate_tuned")
EVALUATION = "evaluation, all of it"
Figure = Annotated[int | float, Field(ge=0, lt=2**53)]
"""Seconds, MiB or GFLOPs; no stage takes more than this."""


class RunParams(Sections):
    """The sections of params.yaml that reports read; all others are only compared with the paper's settings."""

    seeds: Seeds
    datasets: Datasets
    soups: Soups
    finetune: FinetuneParams
    heads: dict[Name, Any]  # only names are needed
    evaluate: EvaluateParams
    landscape: LandscapeParams
    report: ReportParams


@dataclass(frozen=True)
class Run:
    """What the stages of a run wrote; see `load_run`."""

    params: RunParams | Params
    artifacts: Artifacts
    results: Results
    judgement: Judgement

    @cached_property
    def soups(self) -> dict[str, list[Soup]]:
        """All seeds of each soup, by name."""
        seeds = self.params.seeds
        return {name: [Soup.load(self.artifacts.soup(name, seed=k)) for k in seeds] for name in self.params.soups}

    @cached_property
    def parameters(self) -> Table:
        """See `wsoup.report.analyses.parameters`; a head is a closed form and trains nothing."""
        trained = {name: method.tune.kind for name, method in self.params.finetune.methods.items()}
        return analyses.parameters(self.results, trained=trained | dict.fromkeys(self.params.heads, "head"))


def load_run(params: RunParams | Params, *, artifacts: Artifacts) -> Run:
    """Read a run's results and judge its soups.

    Raises:
        MissingError, MismatchError: a stage has not run, or one of its files is not as it was written.
    """
    results = load_results(
        artifacts.results,
        datasets=params.datasets,
        soups=list(params.soups),
        methods=list(params.finetune.methods),
        heads=list(params.heads),
        evaluate=params.evaluate,
        sections=params.model_dump(mode="json", by_alias=True),
    )
    judgement = load_judgement(artifacts.results, soups=params.soups, roles=results.roles, report=params.report)
    return Run(params, artifacts, results, judgement)


def tables(run: Run) -> list[Table]:
    """Every table of a run, in the order of the page."""
    results, params, confidence = run.results, run.params, run.params.report.confidence
    folder, methods, tuned = run.artifacts.results, params.finetune.methods, run.results.variants != [PRETRAINED]
    texts = folder / PRETRAINED / "texts.parquet"
    heads = list(params.heads)
    return [
        verdict_table(run.judgement),
        zero_shot_table(results),
        *([finetuned_table(results), *paper_tables(results)] if tuned else []),
        *([analyses.diversity(results, methods=methods)] if tuned and methods else []),
        *([heads_table(folder, heads=heads, roles=results.roles, confidence=confidence)] if heads else []),
        optimism_table(run.judgement),
        analyses.cost_table(gains(run.judgement), soups=run.soups),
        analyses.paired_table(results, confidence=confidence),
        *([analyses.given_texts(texts, results=results)] if params.evaluate.texts else []),
        analyses.single_texts(texts, results=results),
        analyses.alignment(results),
        run.parameters,
        size_table(results),
        analyses.counts(results),
    ]


def figures(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Data of every figure, by the name of its template; empty ones are [], because `dvc plots` needs the file."""
    results, methods, artifacts = run.results, run.params.finetune.methods, run.artifacts
    survey, landscapes = artifacts.survey, artifacts.results / "landscape"
    pools = scored(run.params.soups, artifacts=artifacts)
    pools[f"random chains of {run.params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    return {
        "gains": gains(run.judgement),
        "gain_by_cost": analyses.gain_by_cost(gains(run.judgement), soups=run.soups),
        "candidates": plots.candidates(pools, seed=run.params.seeds[0]),
        "transfer": plots.transfer(survey / "descriptors.parquet"),
        "accuracy_by_m": plots.by_size(results, mode=run.params.report.mode),
        "parameters": plots.parameters(run.parameters),
        "members_kl": plots.members_kl(results, methods=methods),
        "training": plots.training(results, methods=methods),
        "landscape": plots.landscape({name: landscapes / f"{name}.parquet" for name in run.params.landscape.methods}),
        "growth": plots.growth(run.soups),
    }


def scored(soups: Soups, *, artifacts: Artifacts) -> dict[str, Path]:
    """Scores of words and descriptors; those of a pool that no soup uses only if they exist."""
    used = {soup.pool for soup in soups.values()}
    paths = {pool: artifacts.scores(pool) for pool in ("words", "descriptors")}
    return {pool: path for pool, path in paths.items() if path.exists() or pool in used}


# ------------------------------------------------------------------------------------------------- seconds


class Timing(BaseModel):
    """One run of a stage, as it noted it itself (`wsoup.pipeline.stage`)."""

    model_config = ConfigDict(strict=True, frozen=True)

    stage: str
    seconds: Figure
    cpu_seconds: Figure
    peak_mib: Figure | None
    device: str
    spent: dict[str, Figure] = {}


def timings(path: Path) -> list[Timing]:
    """Each stage's latest run on this machine, in the order in which they ran.

    Invalid lines are skipped, such as half a line from a stage that was killed while writing.
    """
    latest: dict[str, Timing] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            timing = Timing.model_validate_json(line)
        except ValidationError:
            continue
        latest.pop(timing.stage, None)
        latest[timing.stage] = timing
    return list(latest.values())


def costs(path: Path) -> list[dict[str, Any]]:
    """Seconds and GFLOPs on images and texts in the latest run of each stage that noted them, summed over its items.

    The last row sums the stages that evaluate: the paper's "239 s, of which 234 s images and 4.6 s texts".
    """
    rows: dict[str, Counter[str]] = {}
    evaluation: Counter[str] = Counter()
    for timing in timings(path):
        if timing.spent:
            stage, spent = (
                timing.stage.rpartition(":")[2].partition("@")[0],
                {"seconds": timing.seconds, **timing.spent},
            )
            rows.setdefault(stage, Counter()).update(spent)
            if stage in EVALUATING:
                evaluation.update(spent)
    rows |= {EVALUATION: evaluation} if evaluation else {}
    return [{"stage": row, **{key: float(spent[key]) for key in ("seconds", *SPENT)}} for row, spent in rows.items()]
