"""`wsoup verify`: a run beside the results of the paper's authors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wsoup.base.errors import MismatchError
from wsoup.cli.common import ParamsFile, Terminal
from wsoup.disk.files import Artifacts

if TYPE_CHECKING:
    from wsoup.paper.verify import Compared, Verdict

verify_app = typer.Typer(help="Compare a run with the paper authors' results.", no_args_is_help=True)


@verify_app.command("paper")
def verify_paper(params: ParamsFile = Path("params.yaml")) -> None:
    """Score the authors' searches and evaluated texts again; exits with 1 if counts differ.

    Needs ViT-B-16 / openai as in profile `paper` and test images of any of the
    paper's datasets (stage embed); for the searches also ImageNet's few-shot
    images by the authors' splits (embed_train, fewshot). Pools and the results of
    stages score and soup are compared if they exist.

    Example: wsoup verify paper
    """
    from wsoup.paper import verify
    from wsoup.paper.coverage import of_params
    from wsoup.pipeline.params import load_params
    from wsoup.towers.encoder import load_encoder

    settings = load_params(params)
    artifacts = Artifacts()
    console = Terminal()
    run = of_params(settings.model_dump(mode="json", by_alias=True))
    verify.check_is_theirs(run)
    not_compared = verify.search_differs(run)
    if not_compared and not verify.tests_here(artifacts):
        raise MismatchError(f"{not_compared}; or `dvc repro` for the test images of any of the paper's datasets")
    encoder = load_encoder(settings.encoder)
    searched: list[Compared] = []
    verdicts: list[Verdict] = []
    if not not_compared:
        searched, verdicts = verify.search_log(
            settings.seeds, source=settings.source, artifacts=artifacts, encoder=encoder
        )
    counted = verify.evaluation_log(settings.evaluate, artifacts=artifacts, encoder=encoder)
    for line in (*_counts(searched, counted), *_sentences(verdicts, not_compared=not_compared)):
        console.plain(line)
    for cause in verify.usual_causes(counted):
        console.plain(f"this usually means: {cause}")
    all_agree = all(line.agrees for line in (*searched, *counted))
    if not all_agree or not all(holds for holds, _ in verdicts):
        raise typer.Exit(1)


def _counts(searched: Sequence[Compared], counted: Sequence[Compared]) -> list[str]:
    """A line for each count that does not agree with theirs, then how many do."""
    lines = []
    for line in (*searched, *counted):
        if not line.agrees:
            theirs = f"theirs {line.theirs:,} of {line.of:,}"
            ours = f"ours {line.ours:,} of {line.ours_of:,}"
            lines.append(f"{line.row}, seed {line.seed}, on {line.on}: {theirs}, {ours}; {line.within:,} explained")
    for compared, what in ((searched, "counts of searches"), (counted, "evaluated counts")):
        if compared:
            n_agree = sum(line.agrees for line in compared)
            within = "within what half precision explains (theirs: half precision, bilinear)"
            lines.append(f"{n_agree} of {len(compared)} {what} {within}")
    return lines


def _sentences(verdicts: Sequence[Verdict], *, not_compared: str | None) -> list[str]:
    """Whether rankings and pools agree with theirs, and why the searches were not compared, if so."""
    lines = []
    if not_compared:
        lines.append(f"not compared: {not_compared}")
    for holds, says in verdicts:
        lines.append(says if holds else f"does not agree: {says}")
    return lines
