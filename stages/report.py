"""Results to metrics, tables and plot data: everything under reports/ but the page, which `wsoup report` writes."""

from __future__ import annotations

from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.datasets import FewshotParams
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import load
from wsoup.pipeline import stage
from wsoup.report.reading import as_written
from wsoup.report.run import RunParams, figures, load_run, tables
from wsoup.report.summaries import metrics
from wsoup.report.tables import write_reports
from wsoup.report.terminal import summary
from wsoup.report.verdict import verdict_metrics
from wsoup.search.rank.params import CandidatesParams


class Wanted(RunParams):
    """What this stage reads of params.yaml."""

    encoder: EncoderParams
    fewshot: FewshotParams
    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write reports/metrics.json, reports/tables/ and reports/plots/: all of them, or where anything fails none."""
    with as_written():
        run = load_run(load(Wanted), artifacts=Artifacts())
        values = metrics(run.results) | verdict_metrics(run.judgement)
        write_reports(run.artifacts.reports, tables=tables(run), figures=figures(run), metrics=values)
        print(summary(run.results))
        print(values["headline"])


if __name__ == "__main__":
    stage.run(main)
