"""Results -> metrics, tables and plot data: everything under reports/ except the page, which `wsoup report` writes."""

from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import EncoderParams, FewshotParams
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.report.accuracy import metrics
from wsoup.report.reading import as_written
from wsoup.report.run import RunParams, figures, load_run, tables
from wsoup.report.tables import write_reports
from wsoup.report.terminal import headline, summary
from wsoup.report.verdict import verdict_metrics
from wsoup.search.rank.params import CandidatesParams


class Wanted(RunParams):
    """The sections of params.yaml that this stage reads."""

    encoder: EncoderParams
    fewshot: FewshotParams
    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write reports/metrics.json, reports/tables/ and reports/plots/: all of them, or none if anything fails."""
    with as_written():
        run = load_run(load(Wanted), artifacts=Artifacts())
        verdict = {"headline": headline(run.judgement), "verdict": verdict_metrics(run.judgement)}
        values = metrics(run.results) | verdict
        write_reports(run.artifacts.reports, tables=tables(run), figures=figures(run), metrics=values)
        print(summary(run.results))
        print(values["headline"])


if __name__ == "__main__":
    stage.run(main)
