"""`wsoup check`: checks before a run; `wsoup verify`: a run compared with published results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from wsoup.base.errors import one_line
from wsoup.cli.common import ParamsFile, Terminal
from wsoup.disk.artifacts import Artifacts

if TYPE_CHECKING:
    from wsoup.check.paper import Counted
    from wsoup.check.paper_search import Checked

verify_app = typer.Typer(help="Compare a run with the paper authors' results.", no_args_is_help=True)


def check_command(
    params: ParamsFile = Path("params.yaml"),
    manifests: Annotated[Path, typer.Option(help="The folder of the last run's manifests.")] = Path(
        "artifacts/manifests"
    ),
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every image.")] = False,
    cache: Annotated[bool, typer.Option("--cache", help="Also check DVC's cached results for damage.")] = False,
) -> None:
    """Check params.yaml, its encoder and its datasets; each problem is a line with the next step; exit code 1 if any.

    Example: wsoup check --deep
    """
    from wsoup.check import data as datacheck
    from wsoup.check import paper_pools, preflight
    from wsoup.check.data import show
    from wsoup.check.encoder import check_encoder, text_problems
    from wsoup.check.whole import load_params
    from wsoup.disk import code
    from wsoup.images.decode import load_rgb
    from wsoup.pipeline import recorded, workspace
    from wsoup.towers.encoder import imagenet_class_names

    settings, console = load_params(params), Terminal()
    encoder = check_encoder(settings)
    for kind, texts in (("", encoder.facts), ("warning: ", encoder.warnings), ("error: ", encoder.problems)):
        for text in texts:
            console.plain(f"{kind}encoder: {text}")
    decode = load_rgb if deep else None
    findings = datacheck.check(settings, manifests=manifests, decode=decode, imagenet_names=imagenet_class_names)
    show(findings, console)
    for is_authors, text in paper_pools.of_params(settings):
        console.plain(f"{'' if is_authors else 'warning: '}{text}")
    problems = list(dict.fromkeys(one_line(problem) for problem in preflight.problems(settings)))
    source = next(finding for finding in findings if finding.name == settings.source)
    problems += [*text_problems(settings, class_names=source.class_names), *recorded.doubted()]
    if workspace.VERSIONS.is_file():
        problems += [f"{clause} ({workspace.VERSIONS})" for clause in workspace.package_differences(code.installed())]
    if cache:
        from wsoup.pipeline.graph import damaged_in_cache

        count, damaged = damaged_in_cache()
        print(f"DVC's cache: {count:,} files of the results in dvc.lock, {len(damaged)} of them damaged")
        problems += damaged
    for problem in problems:
        print(f"error: {problem}")
    if encoder.problems or problems or any(finding.problems for finding in findings):
        raise typer.Exit(1)


@verify_app.command("paper")
def verify_paper(params: ParamsFile = Path("params.yaml")) -> None:
    """Score the authors' searches and evaluated texts again; differences in counts mean exit code 1.

    Needs ViT-B-16 / openai as in profile `paper` and test images of any of the
    paper's datasets (stage embed); for the searches also ImageNet's few-shot
    images by the authors' splits (embed_train, fewshot). Pools and the results of
    stages score and soup are compared if they exist.

    Example: wsoup verify paper
    """
    from wsoup.base.errors import MismatchError
    from wsoup.check import paper as verify
    from wsoup.check.paper import usual_causes
    from wsoup.check.whole import load_params
    from wsoup.towers.encoder import load_encoder

    settings, artifacts, console = load_params(params), Artifacts(), Terminal()
    verify.check_encoder(settings)
    not_compared = verify.search_differs(settings)
    if not_compared and not verify.tests_here(settings, artifacts=artifacts):
        raise MismatchError(f"{not_compared}; or `dvc repro` for the test images of any of the paper's datasets")
    encoder = load_encoder(settings.encoder)
    searched, agreements = ([], []) if not_compared else verify.searches(settings, artifacts=artifacts, encoder=encoder)
    counted = verify.evaluations(settings, artifacts=artifacts, encoder=encoder)
    wrong_steps = [line for line in searched if not line.agrees]
    wrong_counts = [line for line in counted if not line.agrees]
    if wrong_steps or wrong_counts:
        console.print(_disagreements(wrong_steps, wrong_counts))
    within = "within what half precision explains (theirs: half precision, bilinear)"
    if searched:
        console.plain(f"{len(searched) - len(wrong_steps)} of {len(searched)} accuracies of searches {within}")
    if counted:
        console.plain(f"{len(counted) - len(wrong_counts)} of {len(counted)} evaluated counts {within}")
    if not_compared:
        console.plain(f"not compared: {not_compared}")
    for agreement in agreements:
        console.plain(f"{'' if agreement.holds else 'does not agree: '}{agreement.says}")
    for cause in usual_causes(counted):
        console.plain(f"this usually means: {cause}")
    if wrong_steps or wrong_counts or not all(agreement.holds for agreement in agreements):
        raise typer.Exit(1)


def _disagreements(steps: list[Checked], counts: list[Counted]) -> Table:
    """Lines of the authors' logs whose figure is another one here."""
    table = Table(box=None, pad_edge=False)
    for title in ("row", "seed", "on"):
        table.add_column(title, overflow="fold")
    for title in ("theirs", "ours", "difference", "explained"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in steps:
        step = line.step
        figures = (f"{step.theirs:.3f}", f"{line.ours:.3f}", f"{line.difference:+.3f}", f"{line.within:.3f}")
        table.add_row(step.soup, str(step.seed), escape(step.text), *figures)
    for count in counts:
        known = count.known
        figures = (f"{known.n_correct:,}", f"{count.n_correct:,}", f"{count.difference:+,}", f"{count.within:,}")
        table.add_row(known.method, str(known.seed), known.dataset, *figures)
    return table
