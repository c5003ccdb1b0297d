"""What a finished run says: `wsoup results` and `report` on the last one, `compare` on two."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wsoup.cli.common import Force, check_ending, claim, require_pipeline_folder, visible

Everything = Annotated[bool, typer.Option("--all", help="All tables and rows, not only the answer.")]


def results_command(
    everything: Everything = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record of the run as JSON: every row.")] = False,
) -> None:
    """Show the last run's answer: what its soup gains, what finetuning adds, and whether that is more than noise."""
    from wsoup.report.compare import uncommitted
    from wsoup.report.edits import edited
    from wsoup.report.first_run import worked
    from wsoup.report.published_beside import beside_templates
    from wsoup.report.ran import what_was_run
    from wsoup.report.record import PAGE, as_written, digest, is_page, load_record
    from wsoup.report.sentences import printed

    here = Path()
    require_pipeline_folder()
    with as_written():
        record = load_record(here)
        if as_json:
            print(json.dumps(record.model_dump(mode="json"), indent=1))
            return
        # Where the question is what a soup changes, the sentences have the figures already.
        asks_which = record.params["report"].get("question") == "photos"
        accuracy = record.accuracy if asks_which or everything else []
        sentences = [what_was_run(record), *record.answer]
        if record.intervals:
            sentences.append(record.intervals)
        lines = printed(sentences, accuracy, record.searched)
        lines = beside_templates(lines, record=record)
        lines += edited(record, root=here)
        if is_page(PAGE) and not is_page(PAGE, of=digest(here)):
            lines.append(f"{PAGE} shows other results; `wsoup report` writes it again")
        lines += worked(record, root=here)
        lines += uncommitted(record, root=here)
        if everything:
            for table in sorted(Path("reports/tables").glob("*.md")):
                text = table.read_text(encoding="utf-8")
                lines.append(f"\n{text.rstrip()}")
    print(visible("\n".join(lines)))


def report_command(
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write (default: reports/index.html; of a figure reports/FIGURE.svg)."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
    figure: Annotated[
        str | None, typer.Option(help="Write one figure of the page instead, as SVG: gains, accuracy_by_m, ...")
    ] = None,
    force: Force = False,
) -> None:
    """Write one self-contained page: what was run, the paper's table, a figure, the answer, and what the soup changed.

    Example: wsoup report --title "Photos of my garden"
    """
    from wsoup.report.page import TITLE, write_page
    from wsoup.report.record import PAGE, as_written, is_page

    require_pipeline_folder()
    if figure is not None:
        from wsoup.report.svg import check_known, is_figure, write_figure

        check_known(figure)
        drawn = out or Path("reports") / f"{figure}.svg"
        check_ending(drawn, ".svg", option="--out")
        claim([("--out", drawn)], force=force or is_figure(drawn))
        with as_written():
            print(write_figure(drawn, name=figure))
        return
    out = out or PAGE
    check_ending(out, ".html", ".htm", option="--out")
    claim([("--out", out)], force=force or is_page(out))
    with as_written():
        print(write_page(out, title=title or TITLE))


def compare_command(
    first: Annotated[str, typer.Argument(metavar="[REV1]", help="A git revision or a DVC experiment.")] = "HEAD",
    second: Annotated[
        str, typer.Argument(metavar="[REV2]", help="Another one; `workspace` is the current folder.")
    ] = "workspace",
    everything: Everything = False,
) -> None:
    """Show what changed between two runs: the edited params, the accuracy of every row that depends on them (paired
    over images), and a count of the rest.

    The first line says whether the edit helped.

    Example: wsoup compare HEAD~1 HEAD
    """
    from wsoup.report.compare import compare
    from wsoup.report.record import as_written

    require_pipeline_folder()
    with as_written():
        print(visible(compare(first, second, everything=everything)))
