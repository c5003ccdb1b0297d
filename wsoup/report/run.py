"""A finished run as reports see it, and what stage `report` writes about it: everything under reports/ but the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.evaluate.right import all_seeds
from wsoup.finetune.params import without_soup
from wsoup.params.reading import read_yaml
from wsoup.params.section import parse
from wsoup.report import plots, plots_landscape, plots_training
from wsoup.report.accuracy import averages, finetuned_table, other_metrics, paper_tables, zero_shot_table
from wsoup.report.answer import RunAnswer, judge_run, metrics
from wsoup.report.base_to_new import base_to_new
from wsoup.report.counts import counts
from wsoup.report.gains import gains, known_verdicts
from wsoup.report.load import RunParams, load_results, recorded
from wsoup.report.memory import memory_of_searches, memory_table
from wsoup.report.record import PAGE, Record, is_page
from wsoup.report.results import Results
from wsoup.report.row_metrics import row_metrics
from wsoup.report.selected import selected_rates
from wsoup.report.sentences import about_intervals, record_accuracy, record_searched, record_sentences
from wsoup.report.single_texts import single_texts
from wsoup.report.tables import Table, TableCells
from wsoup.report.verdict_table import verdict_table


@dataclass(frozen=True)
class FinishedRun:
    """What the stages of a run wrote; see `load_run`."""

    sections: dict[str, Any]
    params: RunParams
    artifacts: Artifacts
    results: Results
    judged: RunAnswer

    def record(self) -> Record:
        """What commands know of this run without reading artifacts/."""
        name = self.judged.soup
        members: list[str] = []
        for seed in self.params.seeds:
            soup = Soup.load(self.artifacts.soup(name, seed=seed))
            members += [member.text for member in soup.members]
        return Record(
            answer=record_sentences(self.judged),
            intervals=about_intervals(self.judged),
            accuracy=record_accuracy(self.judged),
            searched=record_searched(self.judged) if self.params.report.question == "photos" else [],
            params=self.sections,
            soup=name,
            mode=self.judged.mode,
            members=members,
            images={name: about["n_images"] for name, about in self.results.facts.items()},
            rows=averages(self.results),
            metrics=other_metrics(self.results),
        )


def load_run(sections: Mapping[str, Any], *, artifacts: Artifacts, origin: str) -> FinishedRun:
    """Read a run's results and judge its soups.

    Args:
        sections: of params.yaml, as they were when the stages ran.
        artifacts: the run's files.
        origin: of the sections, for errors.

    Raises:
        MissingError, MismatchError: a stage has not run, or one of its files is not as it was written.
    """
    sections = recorded(sections)
    params = parse(RunParams, sections, origin=origin)
    results = load_results(artifacts.results, params=params)
    soup_of_method = {name: method.soup for name, method in params.finetune.methods.items()}
    without = None
    if params.report.method is not None:
        without = without_soup(params.finetune.methods, params.report.method)
    n_classes = {name: about["n_classes"] for name, about in results.facts.items()}
    judged = judge_run(
        artifacts.results,
        soups=params.soups,
        methods=soup_of_method,
        without=without,
        heads=params.heads,
        roles=results.roles,
        n_classes=n_classes,
        report=params.report,
    )
    return FinishedRun(sections, params, artifacts, results, judged)


def write(artifacts: Artifacts) -> FinishedRun:
    """Write reports/ of the run that params.yaml describes: all files, or none if anything fails.

    A page of the results before goes.

    Raises:
        MissingError, MismatchError: as `load_run`.
    """
    run = load_run(read_yaml("params.yaml"), artifacts=artifacts, origin="params.yaml")
    values = {"metrics": metrics(run.judged), "verdict": run.record().model_dump()}
    write_reports(artifacts.reports, tables=tables(run), figures=figures(run), values=values)
    # A page beside other results would be believed; one that somebody else wrote is not ours to remove.
    page = artifacts.root / PAGE
    if is_page(page):
        page.unlink()
    return run


def write_reports(
    folder: Path,
    *,
    tables: Sequence[Table],
    figures: Mapping[str, Sequence[TableCells]],
    values: Mapping[str, object],
) -> None:
    """Write tables/, plots/ and JSON files: all of them, or none if anything fails.

    Args:
        folder: reports/.
        tables: each becomes a CSV and a Markdown file.
        figures: data of each figure by name.
        values: JSON values by name of their file.
    """
    with ExitStack() as all_or_nothing:
        place = all_or_nothing.enter_context(store.replacing(folder / "tables"))
        place.mkdir()
        for table in tables:
            table.write(place)
        place = all_or_nothing.enter_context(store.replacing(folder / "plots"))
        place.mkdir()
        for name, points in figures.items():
            store.write_json(place / f"{name}.json", points)
        for name, value in values.items():
            file = all_or_nothing.enter_context(store.replacing(folder / f"{name}.json"))
            store.write_json(file, value)


def tables(run: FinishedRun) -> list[Table]:
    """Every table of a run, in the order of the page."""
    results = run.results
    tables = [verdict_table(run.judged), zero_shot_table(results)]
    known = known_verdicts(run.judged)
    confidence = run.params.report.confidence
    gained = gains(results, folder=run.artifacts.results, confidence=confidence, known=known)
    # A run without the paper's soups has none of these rows.
    if gained.rows:
        tables.append(gained)
    if results.variants != [PRETRAINED]:
        tables.append(finetuned_table(results, heads=run.params.heads))
        tables += paper_tables(results)
    searches = memory_of_searches(run.artifacts, pools=run.params.pools, soups=list(run.params.soups))
    if searches or results.peak_device_mib:
        tables.append(memory_table(results, searches=searches))
    halves = base_to_new(results, datasets=run.params.datasets)
    if halves.rows or halves.notes:
        tables.append(halves)
    if results.selected:
        tables.append(selected_rates(results))
    if results.metrics:
        tables.append(row_metrics(results))
    texts = run.artifacts.results / PRETRAINED / "texts.parquet"
    tables.append(single_texts(texts, results=results))
    # No results file counts the run's soup with the members of all seeds together.
    together = {all_seeds(run.judged.soup): run.judged.right}
    tables.append(counts(results, together=together))
    return tables


def figures(run: FinishedRun) -> dict[str, Sequence[TableCells]]:
    """Data of every figure, by the name of its template; empty ones are [], because `dvc plots` needs the file."""
    results = run.results
    params = run.params
    survey = run.artifacts.survey
    methods = params.finetune.methods
    trained: dict[str, str] = {name: method.tune.kind for name, method in methods.items()}
    trained |= dict.fromkeys(params.heads, "head")
    scores = {}
    for pool in params.pools:
        path = run.artifacts.scores(pool)
        # A pool that no soup uses is not scored.
        if path.exists():
            scores[pool] = path
    landscapes = {}
    for method in params.landscape.methods:
        landscapes[method] = run.artifacts.results / "landscape" / f"{method}.parquet"
    scores[f"random chains of {params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    return {
        "gains": plots.gains(run.judged),
        "candidates": plots.candidates(scores, seed=params.seeds[0]),
        "transfer": plots.transfer(survey / "descriptors.parquet"),
        "accuracy_by_m": plots.by_size(results, mode=params.report.mode),
        "parameters": plots.parameters(results, trained=trained),
        "members_kl": plots_training.members_kl(results, methods=methods),
        "training": plots_training.training(results, methods=methods),
        "landscape": plots_landscape.plane(landscapes),
        "landscape_lines": plots_landscape.lines(landscapes),
    }
