"""The command line: each command is a thin call on the library. Results on stdout, errors in one line on stderr.

Heavy modules are imported where a command needs them, so that ``wsoup --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.cli.bench import bench_app
from wsoup.cli.profiles import profile_app
from wsoup.cli.soups import classify_command, soup_app
from wsoup.core.errors import ParamsError, WsoupError, not_installed, one_line, storage_error
from wsoup.disk.artifacts import Artifacts
from wsoup.runtime.interrupts import INTERRUPTED, interruptible
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.streams import print_anything

app = typer.Typer(
    help="Descriptor and word soups for CLIP-style models. `dvc repro` runs the pipeline; these commands surround it.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    help="Check the datasets of params.yaml, and see how files must be laid out.", no_args_is_help=True
)
verify_app = typer.Typer(help="Compare a run with known answers.", no_args_is_help=True)
for name, group in {
    "profile": profile_app,
    "data": data_app,
    "soup": soup_app,
    "bench": bench_app,
    "verify": verify_app,
}.items():
    app.add_typer(group, name=name)
app.command("classify")(classify_command)

ParamsFile = Annotated[Path, typer.Option("--params", help="The params file.")]


def main() -> None:
    """Entry point: exit code 0 good, 1 a WsoupError, 2 a usage error, 130 an interrupt."""
    print_anything()
    keep_memory()
    try:
        with _stoppable():
            app()
    except WsoupError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        raise SystemExit(1) from None
    except OSError as error:
        print(f"error: {one_line(storage_error(error, path=Path.cwd()))}", file=sys.stderr)
        raise SystemExit(1) from None
    except ModuleNotFoundError as error:
        print(f"error: {not_installed(error)}", file=sys.stderr)
        raise SystemExit(1) from None


@contextmanager
def _stoppable() -> Iterator[None]:
    """Within, SIGINT and SIGTERM take back what is half-written and end in one line and exit code 130."""
    with interruptible():
        try:
            yield
        except SystemExit as stop:
            if stop.code == INTERRUPTED:
                print("interrupted; nothing half-written is left", file=sys.stderr)
            raise


# ---------------------------------------------------------------------------------------------------------- init


@app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="A new folder, or one that `wsoup init` made before.")],
) -> None:
    """Set up a pipeline folder (dvc.yaml, params.yaml of the toy world, stages, data), or bring one up to date.

    Example: wsoup init soups && cd soups && dvc repro
    """
    from wsoup.pipeline import workspace

    print("\n".join(workspace.create(folder)))


# ---------------------------------------------------------------------------------------------------------- data


@app.command("check")
@data_app.command("check")
def check_command(
    params: ParamsFile = Path("params.yaml"),
    manifests: Annotated[Path, typer.Option(help="Where the last run put its manifests.")] = Path(
        "artifacts/manifests"
    ),
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every image.")] = False,
) -> None:
    """Check params.yaml, its encoder and its datasets; each problem is a line with the next step, and exit code 1.

    Example: wsoup check --deep
    """
    from wsoup.check import data as datacheck
    from wsoup.check import params as preflight
    from wsoup.check.encoder import check_encoder
    from wsoup.images.decode import load_rgb
    from wsoup.params.whole import load_params
    from wsoup.towers.encoder import imagenet_class_names

    settings, console = load_params(params), Console()
    encoder = check_encoder(settings)
    for kind, texts in (("", encoder.facts), ("warning: ", encoder.warnings), ("error: ", encoder.problems)):
        for text in texts:
            console.print(f"{kind}encoder: {text}", highlight=False, markup=False, soft_wrap=True)
    decode = load_rgb if deep else None
    findings = datacheck.check(settings, manifests=manifests, decode=decode, imagenet_names=imagenet_class_names)
    datacheck.show(findings, console)
    others = list(dict.fromkeys(one_line(problem) for problem in preflight.problems(settings)))
    for problem in others:
        print(f"error: {problem}")
    if encoder.problems or others or any(finding.problems for finding in findings):
        raise typer.Exit(1)


@data_app.command("layouts")
def data_layouts() -> None:
    """Show which files belong where: every layout, and the paper's 15 datasets in CoOp's folders."""
    from wsoup.check.data import show_layouts

    show_layouts(Console())


# ---------------------------------------------------------------------------------------------------------- plan


@app.command("plan")
def plan_command(
    params: ParamsFile = Path("params.yaml"),
    change: Annotated[
        list[str] | None, typer.Option("--set-param", "-S", help="Change a param first, such as soups.word.k0=50.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Also estimate for h200, h100, a100, l40s, l4, a10, v100 or t4.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many of those devices.")] = 1,
    candidates: Annotated[int | None, typer.Option(help="Pretend that each pool has so many texts.")] = None,
    images: Annotated[int | None, typer.Option(help="Pretend that there are so many test images.")] = None,
) -> None:
    """See what `dvc repro` would run, what is cached, what it costs, and what breaks first.

    Example: wsoup plan -S soups.word.k0=50 --device h100 --count 8
    """
    from wsoup.pipeline.plan import plan
    from wsoup.pipeline.plan_show import show

    planned = plan(
        params_file=params, changes=change or [], device=device, count=count, candidates=candidates, images=images
    )
    show(planned, Console())


# ------------------------------------------------------------------------------------------------------- results


@app.command("results")
def results_command(params: ParamsFile = Path("params.yaml")) -> None:
    """Show the last run: accuracy on the source, XD and DG means, every target's gain, and whether it is noise."""
    from wsoup.report.whole_run import whole_run

    print(whole_run(params))


@app.command("report")
def report_command(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/index.html"),
    params: ParamsFile = Path("params.yaml"),
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Write one self-contained page: the result, tables, figures, soups, and images whose answer a soup changed.

    Example: wsoup report --out reports/index.html --title "Photos of my garden"
    """
    from wsoup.disk.files import check_ending
    from wsoup.report.page import TITLE, write_page
    from wsoup.report.reading import as_written

    check_ending(out, ".html", ".htm", option="--out")
    with as_written():
        print(write_page(out, params_file=params, title=title or TITLE))


@app.command("compare")
def compare_command(
    first: Annotated[str, typer.Argument(metavar="REV1", help="A git revision or a DVC experiment.")],
    second: Annotated[
        str, typer.Argument(metavar="[REV2]", help="Another; `workspace` is the folder as it is.")
    ] = "workspace",
    row: Annotated[str, typer.Option(help="A row of reports/metrics.json, or `all`.")] = "word_soup",
) -> None:
    """Compare two revisions: params that differ, and accuracy per dataset with a paired interval.

    Example: wsoup compare HEAD
    """
    from wsoup.report.compare import compare
    from wsoup.report.reading import as_written

    with as_written():
        params, accuracies = compare(first, second)
    lines = [line for line in accuracies.rows if row in ("all", line["row"])]
    if accuracies.rows and not lines:
        known = ", ".join(dict.fromkeys(line["row"] for line in accuracies.rows))
        raise ParamsError(f"--row {row!r} is in neither revision; there are {known}, and all")
    _print_table(params)
    _print_table(replace(accuracies, rows=lines))


@app.command("sweep")
def sweep_command(
    param: Annotated[str, typer.Argument(help="A dotted key of params.yaml, such as fewshot.shots.")],
    row: Annotated[
        list[str] | None,
        typer.Option(help="A row of reports/metrics.json, or VARIANT/ROW; may be repeated (default: word_soup)."),
    ] = None,
    variant: Annotated[str, typer.Option(help="`pretrained`, or a finetuned method.")] = "pretrained",
    figure: Annotated[Path | None, typer.Option(help="Also draw it, as .svg or as Vega-Lite .json.")] = None,
    revisions: Annotated[
        list[str] | None, typer.Argument(help="Revisions or experiments (default: all experiments).")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="With model_scaling: first run the encoders that have not run yet.")
    ] = False,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="With --run: MODEL/TAG, or a YAML file with section encoder (default: the paper's encoders)."
        ),
    ] = None,
) -> None:
    """Tabulate and draw rows of many experiments against one param; or fill the paper's table of model scaling.

    Example: wsoup sweep fewshot.shots --row class_name --row word_soup --figure shots.svg
    """
    from wsoup.report import scaling
    from wsoup.report.reading import as_written
    from wsoup.report.sweep import check_figure, sweep, write_figure

    if param == scaling.NAME:
        wanted = [scaling.encoder_of(text) for text in encoder or map("/".join, scaling.paper.SCALING_ENCODERS)]
        names = scaling.run(wanted) if run else []
        table = scaling.scaling_table(revisions or names)
        _print_table(table)
        print(scaling.write(table, folder=Path("reports")))
        return
    if run or encoder:
        raise ParamsError("--run and --encoder are for `wsoup sweep model_scaling`; queue others with `dvc exp run`")

    if figure is not None:
        check_figure(figure)
    with as_written():
        table = sweep(param, rows=row or ["word_soup"], variant=variant, revisions=revisions or [])
    _print_table(table)
    if figure is not None:
        write_figure(figure, table=table, param=param)
        print(figure)


def _print_table(table: Any) -> None:
    """A report's table on the terminal."""
    from wsoup.report.tables import cell, shown_columns

    columns = shown_columns(table.columns)
    drawn = Table(box=None, pad_edge=False, title=table.title, title_justify="left", title_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold", no_wrap=column == "row")  # its names would break in mid-word
    for row in table.rows:
        drawn.add_row(*(cell(row, column) for column in columns))
    console = Console()
    console.print(drawn, highlight=False, markup=False)
    for note in table.notes:
        console.print(note, highlight=False, markup=False)


# -------------------------------------------------------------------------------------------------------- verify


@verify_app.command("paper")
def verify_paper(params: ParamsFile = Path("params.yaml")) -> None:
    """Score the authors' own searches again: theirs, ours, and the difference; exit code 1 where they disagree.

    Needs stages embed_train and fewshot, with ViT-B-16 / openai, ImageNet and the authors' splits. What stages score
    and soup made is compared as well, where it exists.

    Example: wsoup verify paper
    """
    from wsoup.check import paper as verify
    from wsoup.params.whole import load_params

    settings = load_params(params)
    checked, agreements = verify.of_run(settings, artifacts=Artifacts())
    within = verify.tolerance(settings.encoder.interpolation)
    table = Table(box=None, pad_edge=False)
    for title in ("soup", "seed", "text"):
        table.add_column(title, overflow="fold")
    for title in ("theirs", "ours", "difference"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in checked:
        step, mark = line.step, "" if abs(line.difference) <= within else " !"
        figures = (f"{step.theirs:.3f}", f"{line.ours:.3f}", f"{line.difference:+.3f}{mark}")
        table.add_row(step.soup, str(step.seed), escape(step.text), *figures)
    console = Console()
    console.print(table, highlight=False)
    away = sum(abs(line.difference) > within for line in checked)
    console.print(
        f"{len(checked) - away} of {len(checked)} accuracies within {within} points (theirs: half precision, bilinear)",
        highlight=False,
    )
    for agreement in agreements:
        says = f"{'' if agreement.holds else 'does not agree: '}{agreement.says}"
        console.print(says, highlight=False, markup=False, soft_wrap=True)
    if away or not all(agreement.holds for agreement in agreements):
        raise typer.Exit(1)


# --------------------------------------------------------------------------------------------------------- cache


@app.command("cache")
def cache_command(
    prune: Annotated[bool, typer.Option("--prune", help="Remove what no stage can use any more.")] = False,
) -> None:
    """Show what .cache/wsoup keeps of interrupted stages and listed datasets, and whether it can still be used.

    Example: wsoup cache --prune
    """
    from wsoup.pipeline.cache import look
    from wsoup.pipeline.cache_prune import prune as pruned
    from wsoup.pipeline.cache_show import show

    if not prune:
        show(look(), Console())
        return
    for line in pruned(look()):
        print(line)


if __name__ == "__main__":
    main()
