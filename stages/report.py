"""Results -> metrics, verdicts, tables and plot data: everything under reports/ except the page of `wsoup report`."""

from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.pipeline import stage
from wsoup.report.load import RunParams as Wanted
from wsoup.report.record import as_written
from wsoup.report.run import write
from wsoup.report.sentences import printed, record_sentences

__all__ = ["Wanted"]  # the sections of params.yaml that this stage reads


def main(owner: Owner) -> None:
    """Write reports/metrics.json, verdict.json, tables/ and plots/: all of them, or none if anything fails."""
    with as_written():
        run = write(Artifacts())
    first, *_ = record_sentences(run.judged)
    print("\n".join(printed([first], [])))
    print("`wsoup results` has the whole answer, `wsoup report` a page, `wsoup compare` what changed since HEAD")


if __name__ == "__main__":
    stage.run(main)
