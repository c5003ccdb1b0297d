"""Results -> metrics, verdicts, tables and plot data: everything under reports/ except the page of `wsoup report`."""

from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.section import read_yaml
from wsoup.pipeline import stage
from wsoup.report import record
from wsoup.report.results import as_written
from wsoup.report.run import RunParams as Wanted
from wsoup.report.run import figures, load_run, tables
from wsoup.report.tables import write_reports
from wsoup.report.verdict import metrics

__all__ = ["Wanted"]  # the sections of params.yaml that this stage reads


def main(owner: Owner) -> None:
    """Write reports/metrics.json, verdict.json, tables/ and plots/: all of them, or none if anything fails."""
    artifacts = Artifacts()
    with as_written():
        run = load_run(read_yaml("params.yaml"), artifacts=artifacts, origin="params.yaml")
        values = {"metrics": metrics(run.judgement), "verdict": run.record().model_dump()}
        write_reports(artifacts.reports, tables=tables(run), figures=figures(run), values=values)
    record.remove_stale_page(artifacts.root)
    print(f"Test images of the source. {run.judgement.answers['source'].sentence}")
    print(record.baseline(artifacts.root) or "`wsoup results` has the whole answer, `wsoup report` a page")


if __name__ == "__main__":
    stage.run(main)
