"""`wsoup check`, `wsoup data` and `wsoup verify`: what is looked at before a run, and a run against known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from wsoup.cli.options import ParamsFile
from wsoup.cli.output import Terminal
from wsoup.core.errors import one_line
from wsoup.disk.artifacts import Artifacts

data_app = typer.Typer(help="Check the datasets of params.yaml; show which files belong where.", no_args_is_help=True)
verify_app = typer.Typer(help="Compare a run with known answers.", no_args_is_help=True)


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
    from wsoup.check import texts
    from wsoup.check.data_show import show
    from wsoup.check.encoder import check_encoder
    from wsoup.check.whole import load_params
    from wsoup.disk import code
    from wsoup.images.decode import load_rgb
    from wsoup.pipeline import packages
    from wsoup.towers.encoder import imagenet_class_names

    settings, console = load_params(params), Terminal()
    encoder = check_encoder(settings)
    for kind, said in (("", encoder.facts), ("warning: ", encoder.warnings), ("error: ", encoder.problems)):
        for text in said:
            console.print(f"{kind}encoder: {text}", highlight=False, markup=False, soft_wrap=True)
    decode = load_rgb if deep else None
    findings = datacheck.check(settings, manifests=manifests, decode=decode, imagenet_names=imagenet_class_names)
    show(findings, console)
    others = list(dict.fromkeys(one_line(problem) for problem in preflight.problems(settings)))
    source = next(finding for finding in findings if finding.name == settings.source)
    others += texts.problems(settings, class_names=source.class_names)
    if packages.VERSIONS.is_file():
        others += [f"{clause} ({packages.VERSIONS})" for clause in packages.differences(code.installed())]
    for problem in others:
        print(f"error: {problem}")
    if encoder.problems or others or any(finding.problems for finding in findings):
        raise typer.Exit(1)


@data_app.command("layouts")
def data_layouts() -> None:
    """Show which files belong where: every layout, and the paper's 15 datasets in CoOp's folders."""
    from wsoup.check.data_show import show_layouts

    show_layouts(Terminal())


@verify_app.command("paper")
def verify_paper(params: ParamsFile = Path("params.yaml")) -> None:
    """Score the authors' own searches again: theirs, ours, and the difference; exit code 1 where they disagree.

    Needs stages embed_train and fewshot, with ViT-B-16 / openai, ImageNet and the authors' splits. What stages score
    and soup made is compared as well, where it exists.

    Example: wsoup verify paper
    """
    from wsoup.check import paper as verify
    from wsoup.check.whole import load_params

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
    console = Terminal()
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
