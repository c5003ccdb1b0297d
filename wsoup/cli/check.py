"""`wsoup check`, `wsoup data` and `wsoup verify`: what is looked at before a run, and a run against known answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from wsoup.cli.options import ParamsFile
from wsoup.cli.output import Terminal
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.errors import one_line

if TYPE_CHECKING:
    from wsoup.check.paper_counts import Counted
    from wsoup.check.paper_search import Checked

data_app = typer.Typer(help="Check the datasets of params.yaml; show which files belong where.", no_args_is_help=True)
verify_app = typer.Typer(help="Compare a run with known answers.", no_args_is_help=True)


@data_app.command("check")
def check_command(
    params: ParamsFile = Path("params.yaml"),
    manifests: Annotated[Path, typer.Option(help="Where the last run put its manifests.")] = Path(
        "artifacts/manifests"
    ),
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every image.")] = False,
    cache: Annotated[bool, typer.Option("--cache", help="Also read DVC's cached results: are they whole?")] = False,
) -> None:
    """Check params.yaml, its encoder and its datasets; each problem is a line with the next step, and exit code 1.

    Example: wsoup check --deep
    """
    from wsoup.check import data as datacheck
    from wsoup.check import paper_pools
    from wsoup.check import params as preflight
    from wsoup.check.data_show import show
    from wsoup.check.encoder import check_encoder, text_problems
    from wsoup.check.whole import load_params
    from wsoup.core.disk import code
    from wsoup.images.decode import load_rgb
    from wsoup.pipeline import packages, recorded
    from wsoup.towers.encoder import imagenet_class_names

    settings, console = load_params(params), Terminal()
    encoder = check_encoder(settings)
    for kind, said in (("", encoder.facts), ("warning: ", encoder.warnings), ("error: ", encoder.problems)):
        for text in said:
            console.print(f"{kind}encoder: {text}", highlight=False, markup=False, soft_wrap=True)
    decode = load_rgb if deep else None
    findings = datacheck.check(settings, manifests=manifests, decode=decode, imagenet_names=imagenet_class_names)
    show(findings, console)
    for theirs, text in paper_pools.of_params(settings):
        console.print(f"{'' if theirs else 'warning: '}{text}", highlight=False, markup=False, soft_wrap=True)
    others = list(dict.fromkeys(one_line(problem) for problem in preflight.problems(settings)))
    source = next(finding for finding in findings if finding.name == settings.source)
    others += [*text_problems(settings, class_names=source.class_names), *recorded.doubted()]
    if packages.VERSIONS.is_file():
        others += [f"{clause} ({packages.VERSIONS})" for clause in packages.differences(code.installed())]
    if cache:
        from wsoup.pipeline.graph import damaged_in_cache

        count, damaged = damaged_in_cache()
        print(f"DVC's cache: {count:,} files of the results in dvc.lock, {len(damaged)} of them damaged")
        others += damaged
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
    """Score the authors' own searches and evaluated texts again: theirs, ours, and where they disagree, exit code 1.

    Needs ViT-B-16 / openai as profile `paper` sets it, with test images of any of the paper's datasets (stage embed),
    and for the searches ImageNet's few-shot images by the authors' splits (embed_train, fewshot). Pools and what
    stages score and soup made are compared where they are.

    Example: wsoup verify paper
    """
    from wsoup.check import paper as verify
    from wsoup.check.paper_counts import usual_causes
    from wsoup.check.whole import load_params
    from wsoup.core.errors import MismatchError
    from wsoup.towers.encoder import load_encoder

    settings, artifacts, console = load_params(params), Artifacts(), Terminal()
    verify.check_encoder(settings)
    unlike = verify.search_differs(settings)
    if unlike and not verify.tests_here(settings, artifacts=artifacts):
        raise MismatchError(f"{unlike}; or `dvc repro` for the test images of any of the paper's datasets")
    encoder = load_encoder(settings.encoder)
    steps, said = ([], []) if unlike else verify.searches(settings, artifacts=artifacts, encoder=encoder)
    counted = verify.evaluations(settings, artifacts=artifacts, encoder=encoder)
    away = [line for line in steps if not line.agrees]
    wrong = [line for line in counted if not line.agrees]
    if away or wrong:
        console.print(_disagreeing(away, wrong), highlight=False)
    within = "within what half precision explains (theirs: half precision, bilinear)"
    texts = [f"{len(steps) - len(away)} of {len(steps)} accuracies of searches {within}"] if steps else []
    texts += [f"{len(counted) - len(wrong)} of {len(counted)} evaluated counts {within}"] if counted else []
    texts += [f"not compared: {unlike}"] if unlike else []
    texts += [f"{'' if agreement.holds else 'does not agree: '}{agreement.says}" for agreement in said]
    for text in [*texts, *(f"this usually means: {cause}" for cause in usual_causes(counted))]:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if away or wrong or not all(agreement.holds for agreement in said):
        raise typer.Exit(1)


def _disagreeing(away: list[Checked], wrong: list[Counted]) -> Table:
    """Lines of the authors' logs that are another figure here."""
    table = Table(box=None, pad_edge=False)
    for title in ("row", "seed", "on"):
        table.add_column(title, overflow="fold")
    for title in ("theirs", "ours", "difference", "explained"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in away:
        step = line.step
        figures = (f"{step.theirs:.3f}", f"{line.ours:.3f}", f"{line.difference:+.3f}", f"{line.within:.3f}")
        table.add_row(step.soup, str(step.seed), escape(step.text), *figures)
    for count in wrong:
        known = count.known
        figures = (f"{known.n_correct:,}", f"{count.n_correct:,}", f"{count.difference:+,}", f"{count.within:,}")
        table.add_row(known.method, str(known.seed), known.dataset, *figures)
    return table
