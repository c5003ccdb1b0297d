"""Around a run: `wsoup check` before it; `results`, `report` and `verify` on the last one, `compare` on two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wsoup.base.errors import MismatchError, MissingError, WsoupError
from wsoup.cli.common import Force, ParamsFile, Terminal, check_ending, claim, visible
from wsoup.disk.files import Artifacts

if TYPE_CHECKING:
    from wsoup.paper.verify import Compared, Verdict

verify_app = typer.Typer(help="Compare a run with the paper authors' results.", no_args_is_help=True)


def check_command(
    params: ParamsFile = Path("params.yaml"),
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every image.")] = False,
) -> None:
    """Check params.yaml, its encoder and its datasets; list problems, one per line, and exit with 1 if there are any.

    Example: wsoup check --deep
    """
    from wsoup.params.reading import read_yaml

    # A missing file is said before a missing package.
    read_yaml(params)
    from wsoup.check.findings import findings
    from wsoup.check.whole import load_params
    from wsoup.disk import code
    from wsoup.pipeline.inputs import lacking
    from wsoup.pipeline.packages import check_packages

    console = Terminal()
    # All problems at once, warnings too: a run of hours should not meet the second one.
    every = findings(load_params(params), deep=deep)
    for finding in every:
        console.plain(str(finding))
    errors = list(lacking(params))
    if sys.flags.safe_path:
        errors.append("PYTHONSAFEPATH is set, so Python finds no module `stages` here: unset it for `dvc repro`")
    try:
        check_packages(code.installed())
    except WsoupError as error:
        errors.append(str(error))
    for text in errors:
        console.plain(f"error: {text}")
    if errors or any(finding.kind == "error" for finding in every):
        raise typer.Exit(1)


@verify_app.command("paper")
def verify_paper(params: ParamsFile = Path("params.yaml")) -> None:
    """Score the authors' searches and evaluated texts again; exits with 1 if counts differ.

    Needs ViT-B-16 / openai as in profile `paper` and test images of any of the
    paper's datasets (stage embed); for the searches also ImageNet's few-shot
    images by the authors' splits (embed_train, fewshot). Pools and the results of
    stages score and soup are compared if they exist.

    Example: wsoup verify paper
    """
    from wsoup.base.errors import MismatchError
    from wsoup.check.whole import load_params
    from wsoup.paper import verify
    from wsoup.paper.coverage import of_params
    from wsoup.towers.encoder import load_encoder

    settings = load_params(params)
    artifacts = Artifacts()
    console = Terminal()
    run = of_params(settings.model_dump(mode="json", by_alias=True))
    verify.check_encoder(run)
    not_compared = verify.search_differs(run)
    if not_compared and not verify.tests_here(artifacts):
        raise MismatchError(f"{not_compared}; or `dvc repro` for the test images of any of the paper's datasets")
    about: dict[str, Any] = {"artifacts": artifacts, "encoder": load_encoder(settings.encoder)}
    searched: list[Compared] = []
    verdicts: list[Verdict] = []
    if not not_compared:
        searched, verdicts = verify.search_log(settings.seeds, source=settings.source, **about)
    counted = verify.evaluation_log(settings.evaluate, **about)
    wrong = [line for line in (*searched, *counted) if not line.agrees]
    for line in wrong:
        theirs = f"theirs {line.theirs:,} of {line.of:,}"
        ours = f"ours {line.ours:,} of {line.ours_of:,}"
        console.plain(f"{line.row}, seed {line.seed}, on {line.on}: {theirs}, {ours}; {line.within:,} explained")
    for lines, what in ((searched, "counts of searches"), (counted, "evaluated counts")):
        if lines:
            n_agree = sum(line.agrees for line in lines)
            within = "within what half precision explains (theirs: half precision, bilinear)"
            console.plain(f"{n_agree} of {len(lines)} {what} {within}")
    if not_compared:
        console.plain(f"not compared: {not_compared}")
    for holds, says in verdicts:
        console.plain(says if holds else f"does not agree: {says}")
    for cause in verify.usual_causes(counted):
        console.plain(f"this usually means: {cause}")
    if wrong or not all(holds for holds, _ in verdicts):
        raise typer.Exit(1)


Everything = Annotated[bool, typer.Option("--all", help="All tables and rows, not only the answer.")]


def results_command(everything: Everything = False) -> None:
    """Show the last run's answer: what its soup gains, what finetuning adds, and whether that is more than noise."""
    from wsoup.report.compare import edited
    from wsoup.report.record import FILE, PAGE, as_written, digest, is_page, load_record
    from wsoup.runtime.git import git

    here = Path()
    if not Path("params.yaml").is_file():
        raise MissingError("there is no params.yaml here; run in a pipeline folder, which `wsoup init FOLDER` makes")
    with as_written():
        record = load_record(here)
        lines = [*record.answer, *edited(record, root=here)]
        if is_page(PAGE) and not is_page(PAGE, of=digest(here)):
            lines.append(f"{PAGE} shows other results; `wsoup report` writes it again")
        status = git("status", "--porcelain", "--", str(FILE), folder=here) or ""
        if status.strip():
            lines.append("reports/ differ from HEAD: see `wsoup compare`, or commit them as this machine's baseline")
        if everything:
            for table in sorted(Path("reports/tables").glob("*.md")):
                text = table.read_text(encoding="utf-8")
                lines.append(f"\n{text.rstrip()}")
    print(visible("\n".join(lines)))


def report_command(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/index.html"),
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
    figure: Annotated[
        str | None, typer.Option(help="Write one figure of the page instead, as SVG: gains, accuracy_by_m, ...")
    ] = None,
    force: Force = False,
) -> None:
    """Write one self-contained page: the answer, a figure, the worst errors, the soup's texts and what it changed.

    Example: wsoup report --out reports/index.html --title "Photos of my garden"
    """
    from wsoup.report.page import TITLE, write_page
    from wsoup.report.record import as_written, is_page

    if figure is not None:
        from wsoup.report.svg import write_figure

        check_ending(out, ".svg", option="--out")
        claim([("--out", out)], force=force)
        with as_written():
            print(write_figure(out, name=figure))
        return
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
    """Compare two runs image by image: edited params, the rows that they feed, then all other rows in a line.

    Example: wsoup compare HEAD~1 HEAD
    """
    from wsoup.report.compare import compare
    from wsoup.report.record import as_written

    with as_written():
        print(visible(compare(first, second, everything=everything)))


SHOTS = (1, 2, 4, 8, 16)
"""The numbers of few-shot images in the paper's figure; those above ``fewshot.shots`` of params.yaml are left out."""


WHATEVER_SHOTS = ("prepare", "embed", "candidates", "evaluated")
"""Stages that do not depend on the number of shots, or hardly: their results are found in DVC's cache."""


def shots_command() -> None:
    """Run params.yaml with 1, 2, 4, 8 and 16 shots, and print every row of all runs as CSV: the paper's figure.

    Each run is an experiment of DVC beside the folder, which stays as it is. Runs that ended are found again.

    Example: wsoup shots > shots.csv
    """
    from wsoup.disk.store import fingerprint
    from wsoup.params.reading import read_yaml

    params = dict(read_yaml("params.yaml"))
    numbers = [n for n in SHOTS if n <= params["fewshot"]["shots"]]
    # With a digest of params.yaml, so that no run replaces one of other params.
    names = {n: f"shots-{n}-{fingerprint(params)[:8]}" for n in numbers}
    missing = [n for n in numbers if not _has_ended(names[n])]
    if missing:
        _say_how_long(missing)
    for n in missing:
        # --temp leaves the working folder alone and shares DVC's cache.
        command = ["dvc", "exp", "run", "--temp", "--name", names[n], "-S", f"fewshot.shots={n}"]
        if subprocess.run(command, check=False).returncode:
            raise MismatchError(f"the run with {n} shots failed; the next call goes on from there")
    print(_over_shots(names))


def _has_ended(name: str) -> bool:
    from wsoup.report.revisions import Revision

    try:
        return bool(Revision(name, root=Path()).record.rows)
    except MissingError:
        return False


def _say_how_long(numbers: list[int]) -> None:
    """Print which runs are to come, and an estimate of their time."""
    from wsoup.pipeline.plan import plan

    stages, _ = plan()
    hours = 0.0
    for name, each in stages.items():
        stage, _, _ = name.partition("@")
        if stage not in WHATEVER_SHOTS:
            hours += each.hours
    listed = ", ".join(map(str, numbers))
    together = len(numbers) * hours
    print(
        f"{len(numbers)} runs to come, with {listed} shots: at most {together:,.1f} hours on this machine, to a factor "
        "of two (`wsoup plan` estimates a run)",
        file=sys.stderr,
    )


def _over_shots(names: dict[int, str]) -> str:
    """Every row of the experiments, by their numbers of shots, as CSV."""
    from wsoup.report.results import ROLES
    from wsoup.report.revisions import Revision

    lines = [f"shots,variant,row,{','.join(ROLES)}"]
    for n, name in names.items():
        for variant, rows in Revision(name, root=Path()).record.rows.items():
            for row, places in rows.items():
                cells = [str(places.get(role, "")) for role in ROLES]
                lines.append(",".join([str(n), variant, row, *cells]))
    return "\n".join(lines)
