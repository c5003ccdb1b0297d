"""A run as reports see it, and what stage `report` writes about it: everything under reports/ but the page.

`wsoup results`, `report` and `compare` show a run under the params in its record, whatever params.yaml says by now.
"""

from __future__ import annotations

import textwrap
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from wsoup.base.errors import MismatchError, WsoupError, one_line
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.evaluate.rows import all_seeds
from wsoup.params.section import parse, read_yaml
from wsoup.report import plots
from wsoup.report.accuracy import averages, counts, finetuned_table, paper_tables, single_texts, zero_shot_table
from wsoup.report.results import PLACES, Results, RunParams, load_results
from wsoup.report.tables import Row, Table, write_reports
from wsoup.report.verdict import Judgement, load_judgement, metrics, verdict_table
from wsoup.soup.soup import Soup

FILE = Path("reports/verdict.json")
PAGE = Path("reports/index.html")
MARK = '<meta name="wsoup-results" content="'
"""In a page that `wsoup report` wrote; a digest of the record that it shows follows."""
WIDTH = 100
"""Columns of the answer."""


class Record(BaseModel):
    """The content of verdict.json.

    Attributes:
        answer: lines of `wsoup results`.
        params: the sections of params.yaml that the report depends on.
        soup, mode, members: the run's soup, how it is judged, and its texts, all seeds.
        rows: variant -> row -> source, xd, dg and their deviations over seeds, per cent.
    """

    model_config = ConfigDict(frozen=True)

    answer: list[str]
    params: dict[str, Any]
    soup: str
    mode: str
    members: list[str]
    rows: dict[str, dict[str, dict[str, float]]]

    @classmethod
    def parse(cls, text: str, *, origin: str) -> Record:
        """From the text of verdict.json; raises MismatchError if it is not as the stage wrote it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise MismatchError(f"{origin} is not as stage report of this wsoup writes it; run `dvc repro`") from None


def load_record(root: Path) -> Record:
    """The record of the run in a folder.

    Raises:
        MissingError, MismatchError: stage `report` has not run, or its file was edited.
    """
    path = store.require(root / FILE, made_by="report")
    return Record.parse(path.read_text(encoding="utf-8", errors="replace"), origin=str(path))


@dataclass(frozen=True)
class Run:
    """What the stages of a run wrote; see `load_run`."""

    sections: dict[str, Any]
    params: RunParams
    artifacts: Artifacts
    results: Results
    judgement: Judgement

    def record(self) -> Record:
        """What commands know of this run without reading artifacts/."""
        soup = self.judgement.soup
        seeds = [Soup.load(self.artifacts.soup(soup, seed=seed)) for seed in self.params.seeds]
        return Record(
            answer=answer(self.judgement),
            params=self.sections,
            soup=soup,
            mode=self.judgement.mode,
            members=[member.text for seed in seeds for member in seed.members],
            rows=averages(self.results),
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


def write(artifacts: Artifacts) -> Run:
    """Write reports/ of the run that params.yaml describes: all files, or none if anything fails.

    A page of the results before goes.

    Raises:
        MissingError, MismatchError: as `load_run`.
    """
    run = load_run(read_yaml("params.yaml"), artifacts=artifacts, origin="params.yaml")
    values = {"metrics": metrics(run.judgement), "verdict": run.record().model_dump()}
    write_reports(artifacts.reports, tables=tables(run), figures=figures(run), values=values)
    if is_page(artifacts.root / PAGE):
        (artifacts.root / PAGE).unlink()
    return run


def is_page(file: Path, *, of: str = "") -> bool:
    """Whether `wsoup report` wrote a file, of the results with a digest or of any."""
    return file.is_file() and MARK + of in file.read_text(encoding="utf-8", errors="replace")


def digest(root: Path) -> str:
    """Of the record in a folder."""
    return store.sha256_file(root / FILE)[:16]


def tables(run: Run) -> list[Table]:
    """Every table of a run, in the order of the page."""
    results, judgement = run.results, run.judgement
    tuned = results.variants != [PRETRAINED]
    return [
        verdict_table(judgement),
        zero_shot_table(results),
        *([finetuned_table(results), *paper_tables(results)] if tuned else []),
        single_texts(run.artifacts.results / PRETRAINED / "texts.parquet", results=results),
        counts(results, together={all_seeds(judgement.soup): judgement.right}),
    ]


def figures(run: Run) -> dict[str, Sequence[Row]]:
    """Data of every figure, by the name of its template; empty ones are [], because `dvc plots` needs the file."""
    results, params, survey = run.results, run.params, run.artifacts.survey
    methods = params.finetune.methods
    trained = {name: method.tune.kind for name, method in methods.items()} | dict.fromkeys(params.heads, "head")
    pools = {pool: run.artifacts.scores(pool) for pool in ("words", "descriptors")}
    pools = {pool: path for pool, path in pools.items() if path.exists()}  # one that no soup uses is not scored
    pools[f"random chains of {params.evaluate.survey.chain_length}"] = survey / "chains.parquet"
    return {
        "gains": plots.gains(run.judgement),
        "candidates": plots.candidates(pools, seed=params.seeds[0]),
        "transfer": plots.transfer(survey / "descriptors.parquet"),
        "accuracy_by_m": plots.by_size(results, mode=params.report.mode),
        "parameters": plots.parameters(results, trained=trained),
        "members_kl": plots.members_kl(results, methods=methods),
        "training": plots.training(results, methods=methods),
    }


def answer(judgement: Judgement) -> list[str]:
    """At most 12 lines: for source, XD and DG which row to use and why, then the accuracies of all four."""
    lines = []
    for role, each in judgement.answers.items():
        where = {"source": "Test images of the source"}.get(role, role.upper())
        lines += textwrap.wrap(f"{where}. {each.sentence}", width=WIDTH, subsequent_indent="    ")
    lines.append(f"{'per cent':<24}" + "".join(f"{PLACES[role]:>10}" for role in judgement.answers))
    for name in judgement.names.values():
        cells = [each.accuracy.get(name) for each in judgement.answers.values()]
        if any(cell is not None for cell in cells):
            lines.append(f"{name[:23]:<24}" + "".join(f"{'' if c is None else f'{c:.2f}':>10}" for c in cells))
    return lines


@contextmanager
def as_written() -> Iterator[None]:
    """Turn any error that a damaged file of a run may cause into one line; nobody can list them all."""
    try:
        yield
    except (WsoupError, OSError, ModuleNotFoundError):
        raise
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise MismatchError(
            f"a file in artifacts/ or reports/ is not as its stage wrote it ({type(error).__name__}: "
            f"{one_line(error, limit=150)}, at {Path(last.filename).name}:{last.lineno}); run `dvc repro`; if that "
            "does not help, this is a bug"
        ) from error
