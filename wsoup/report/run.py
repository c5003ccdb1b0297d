"""A run as reports see it: results, verdicts, all tables and the data of all figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from wsoup.check.soups import Soups
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.evaluate.params import EvaluateParams, ReportParams
from wsoup.evaluate.rows import all_seeds
from wsoup.finetune.params import FinetuneParams
from wsoup.params.inputs import Datasets, EncoderParams, FewshotParams
from wsoup.params.section import Name, Sections, Seeds, parse
from wsoup.report import analyses, plots
from wsoup.report.accuracy import averages, finetuned_table, paper_tables, size_table, zero_shot_table
from wsoup.report.record import Record, answer
from wsoup.report.results import Results, load_results
from wsoup.report.tables import Row, Table
from wsoup.report.verdict import Judgement, gains, load_judgement, optimism_table, verdict_table
from wsoup.soup.soup import Soup


class RunParams(Sections):
    """The sections of params.yaml that reports depend on."""

    seeds: Seeds
    encoder: EncoderParams
    datasets: Datasets
    fewshot: FewshotParams
    candidates: dict[str, Any]  # only compared, with the paper's and another run's
    soups: Soups
    finetune: FinetuneParams
    heads: dict[Name, Any]  # only names are needed
    evaluate: EvaluateParams
    report: ReportParams


@dataclass(frozen=True)
class Run:
    """What the stages of a run wrote; see `load_run`."""

    sections: dict[str, JsonValue]
    params: RunParams
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

    @cached_property
    def verdicts(self) -> Table:
        """See `wsoup.report.verdict.verdict_table`."""
        return verdict_table(self.judgement)

    def record(self) -> Record:
        """What other commands know of this run."""
        soup = self.judgement.soup
        return Record(
            answer=answer(self.judgement),
            params=self.sections,
            soup=soup,
            mode=self.judgement.mode,
            members=[member.text for member in chain.from_iterable(seed.members for seed in self.soups[soup])],
            rows=averages(self.results),
            verdicts=[dict(row) for row in self.verdicts.rows],
        )


def load_run(sections: Mapping[str, Any], *, artifacts: Artifacts, origin: str) -> Run:
    """Read a run's results and judge its soups.

    Args:
        sections: of params.yaml, as they were when the stages ran.
        artifacts: the run's files.
        origin: of the sections, for errors.

    Raises:
        MissingError, MismatchError: a stage has not run, or one of its files is not as it was written.
    """
    sections = {name: sections[name] for name in RunParams.model_fields if name in sections}
    params = parse(RunParams, sections, origin=origin)
    results = load_results(artifacts.results, params=params)
    judgement = load_judgement(
        artifacts.results,
        soups=params.soups,
        heads=list(params.heads),
        roles=results.roles,
        n_classes={name: about["n_classes"] for name, about in results.facts.items()},
        report=params.report,
    )
    return Run(sections, params, artifacts, results, judgement)


def tables(run: Run) -> list[Table]:
    """Every table of a run, in the order of the page."""
    results, params = run.results, run.params
    methods, tuned = params.finetune.methods, run.results.variants != [PRETRAINED]
    texts = run.artifacts.results / PRETRAINED / "texts.parquet"
    return [
        run.verdicts,
        zero_shot_table(results),
        *([finetuned_table(results), *paper_tables(results)] if tuned else []),
        *([analyses.diversity(results, methods=methods)] if tuned and methods else []),
        optimism_table(run.judgement),
        analyses.cost_table(run.judgement.comparisons, soups=run.soups),
        *([analyses.given_texts(texts, results=results)] if params.evaluate.texts else []),
        analyses.single_texts(texts, results=results),
        analyses.alignment(results),
        run.parameters,
        size_table(results),
        analyses.counts(results, together={all_seeds(run.judgement.soup): run.judgement.right}),
    ]


def figures(run: Run) -> dict[str, Sequence[Row]]:
    """Data of every figure, by the name of its template; empty ones are [], because `dvc plots` needs the file."""
    results, methods, survey = run.results, run.params.finetune.methods, run.artifacts.survey
    pools = scored(run.params.soups, artifacts=run.artifacts)
    pools[f"random chains of {run.params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    return {
        "gains": gains(run.judgement),
        "candidates": plots.candidates(pools, seed=run.params.seeds[0]),
        "transfer": plots.transfer(survey / "descriptors.parquet"),
        "accuracy_by_m": plots.by_size(results, mode=run.params.report.mode),
        "parameters": plots.parameters(run.parameters),
        "members_kl": plots.members_kl(results, methods=methods),
        "training": plots.training(results, methods=methods),
    }


def scored(soups: Soups, *, artifacts: Artifacts) -> dict[str, Path]:
    """Scores of words and descriptors; those of a pool that no soup uses only if they exist."""
    used = {soup.pool for soup in soups.values()}
    paths = {pool: artifacts.scores(pool) for pool in ("words", "descriptors")}
    return {pool: path for pool, path in paths.items() if path.exists() or pool in used}
