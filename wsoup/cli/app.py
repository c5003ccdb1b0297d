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
    help="Descriptor soups and word soups for CLIP-style models. The pipeline itself runs with `dvc repro`.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Look over the datasets of params.yaml.", no_args_is_help=True)
verify_app = typer.Typer(help="Hold a run against answers that are known.", no_args_is_help=True)
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
def init_command(folder: Annotated[Path, typer.Argument(help="A new folder, or one made by `wsoup init`.")]) -> None:
    """Make a pipeline folder: dvc.yaml, params.yaml (the toy world), stages and data; or bring one up to date.

    Example: wsoup init soups && cd soups && dvc repro
    """
    from wsoup.pipeline import workspace

    print("\n".join(workspace.create(folder)))


@app.command("packages")
def packages_command(
    accept: Annotated[bool, typer.Option("--accept", help="Write the installed versions into the file.")] = False,
) -> None:
    """Versions of the packages that decide numbers: installed, and of the results here (data/packages.yaml).

    Exit code 1 where they differ. After `--accept`, `dvc repro` runs again what the changed ones decide.

    Example: wsoup packages
    """
    from wsoup.disk import code
    from wsoup.pipeline import packages

    if accept:
        packages.accept()
    packages.check(code.installed())
    typer.echo(f"{packages.VERSIONS}: {', '.join(f'{name} {v}' for name, v in code.installed().items())}")


# ---------------------------------------------------------------------------------------------------------- data


@app.command("check")
@data_app.command("check")
def check_command(
    params: ParamsFile = Path("params.yaml"),
    manifests: Annotated[Path, typer.Option(help="Manifests of the last run.")] = Path("artifacts/manifests"),
    deep: Annotated[bool, typer.Option("--deep", help="Decode every image.")] = False,
) -> None:
    """Encoder and datasets of params.yaml: what is there, what is not, what can be trained; exit code 1 if faulty.

    Example: wsoup check --deep
    """
    from wsoup.check import data as datacheck
    from wsoup.check import params as preflight
    from wsoup.check.whole import load_params

    found = load_params(params)
    decode: Any = None
    if deep:
        from wsoup.images.decode import load_rgb

        decode = load_rgb
    from wsoup.check.encoder import check_encoder

    console = Console()
    encoder = check_encoder(found)
    for kind, texts in (("", encoder.facts), ("warning: ", encoder.warnings), ("error: ", encoder.problems)):
        for text in texts:
            console.print(f"{kind}encoder: {text}", highlight=False, markup=False, soft_wrap=True)
    findings = datacheck.check(found, manifests=manifests, decode=decode, imagenet_names=_imagenet_names)
    datacheck.show(findings, console)
    others = list(dict.fromkeys(one_line(problem) for problem in preflight.problems(found)))
    for problem in others:
        print(f"error: {problem}")
    if encoder.problems or others or any(finding.problems for finding in findings):
        raise typer.Exit(1)


@data_app.command("layouts")
def data_layouts() -> None:
    """What is expected where: every layout, and the paper's 15 datasets in CoOp's folders."""
    from wsoup.check.data import show_layouts

    show_layouts(Console())


def _imagenet_names() -> list[str]:
    from wsoup.towers.encoder import imagenet_class_names

    return imagenet_class_names()


# ---------------------------------------------------------------------------------------------------------- plan


@app.command("plan")
def plan_command(
    params: ParamsFile = Path("params.yaml"),
    change: Annotated[
        list[str] | None, typer.Option("--set-param", "-S", help="A change of params, such as soups.word.k0=50.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Also on: h200, h100, a100, l40s, l4, a10, v100, t4.")] = None,
    count: Annotated[int, typer.Option(help="How many of them.")] = 1,
    candidates: Annotated[int | None, typer.Option(help="As if each pool held so many texts.")] = None,
    images: Annotated[int | None, typer.Option(help="As if there were so many test images.")] = None,
) -> None:
    """Before hours are spent: what runs, what is cached, what it costs, and what breaks first.

    Example: wsoup plan -S soups.word.k0=50 --device h100 --count 8
    """
    from wsoup.pipeline.plan import plan
    from wsoup.pipeline.plan_show import show

    found = plan(
        params_file=params, changes=change or [], device=device, count=count, candidates=candidates, images=images
    )
    show(found, Console())


# ------------------------------------------------------------------------------------------------------- results


@app.command("results")
def results_command(params: ParamsFile = Path("params.yaml")) -> None:
    """The last run: per cent on the source, means over XD and DG, every target with its gain, and the verdict."""
    from wsoup.report.whole_run import whole_run

    print(whole_run(params))


@app.command("report")
def report_command(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/index.html"),
    params: ParamsFile = Path("params.yaml"),
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Write one self-contained page: what was found, tables, figures, soups, images that a soup turned.

    Example: wsoup report --out reports/index.html --title "Photos of my garden"
    """
    from wsoup.report.page import TITLE, write_page
    from wsoup.report.reading import as_written

    if out.suffix.lower() not in (".html", ".htm"):
        raise ParamsError(f"--out {out} must end with .html: whatever stands there is replaced by the page")
    with as_written():
        print(write_page(out, params_file=params, title=title or TITLE))


@app.command("compare")
def compare_command(
    first: Annotated[str, typer.Argument(metavar="REV1", help="A git revision or a DVC experiment.")],
    second: Annotated[str, typer.Argument(metavar="[REV2]", help="Another; the workspace if left out.")] = "workspace",
    row: Annotated[str, typer.Option(help="A row of reports/metrics.json, or all.")] = "word_soup",
) -> None:
    """Two revisions: params that differ, and accuracy per dataset with its interval.

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
        typer.Option(help="A row of reports/metrics.json, also VARIANT/ROW; several are given one by one (word_soup)"),
    ] = None,
    variant: Annotated[str, typer.Option(help="pretrained, or a finetuned method.")] = "pretrained",
    figure: Annotated[Path | None, typer.Option(help="Also draw it: an SVG, or its Vega-Lite JSON.")] = None,
    revisions: Annotated[list[str] | None, typer.Argument(help="Which; all experiments if left out.")] = None,
    run: Annotated[bool, typer.Option("--run", help="With model_scaling: first run the encoders not yet run.")] = False,
    encoder: Annotated[
        list[str] | None,
        typer.Option(help="With --run: MODEL/TAG, or section encoder as a YAML file; else the paper's."),
    ] = None,
) -> None:
    """Rows over many experiments against one param, and their figure; or the paper's table of model scaling.

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
    """The authors' own searches, scored again: theirs, ours, the difference; exit code 1 where they do not agree.

    Needs the stages embed_train and fewshot, with ViT-B-16 / openai, ImageNet and their splits; what stages score and
    soup made is compared, too, where it is there.

    Example: wsoup verify paper
    """
    from wsoup.check import paper as verify
    from wsoup.check.whole import load_params

    found = load_params(params)
    checked, agreements = verify.of_run(found, artifacts=Artifacts())
    within = verify.tolerance(found.encoder.interpolation)
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
    prune: Annotated[bool, typer.Option("--prune", help="Remove what no present stage can use.")] = False,
) -> None:
    """What interrupted stages and listed datasets keep in .cache/wsoup, whose it is, and whether it is of use.

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
