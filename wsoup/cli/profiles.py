"""`wsoup profile`: write a params.yaml to start from."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import ParamsError
from wsoup.cli import common
from wsoup.cli.common import Force, ParamsFile, claim

profile_app = typer.Typer(help="Write a params.yaml to start from.", no_args_is_help=True)

Out = Annotated[Path | None, typer.Option(help="The file to write (default: stdout).")]


@profile_app.command("demo")
def profile_demo(
    methods: Annotated[
        str | None,
        typer.Option(help="Finetune more: core, few-shot, diversity, parameter-efficiency or all."),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """The toy world: everything drawn and trained by the pipeline itself.

    Example: wsoup profile demo --out params.yaml
    """
    from wsoup.profiles.files import demo

    _put(demo(methods), out=out, force=force)


@profile_app.command("paper")
def profile_paper(
    data_root: Annotated[str, typer.Option(help="The folder with CoOp's dataset folders.")],
    gpt_descriptors: Annotated[
        str | None,
        typer.Option(
            help="The folder with classification-by-description's descriptors_*.json, or `none`: leave out descriptors "
            "and the rows that need them."
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(help="What to finetune: core, few-shot, diversity, parameter-efficiency or all."),
    ] = "core",
    source: Annotated[
        str,
        typer.Option(
            help="imagenet, another dataset with training images, or laion:FOLDER (images, a folder per class)."
        ),
    ] = "imagenet",
    words: Annotated[
        str | None,
        typer.Option(
            help="A file of common words, wherever it lies; the authors used google-10000-english-no-swears.txt "
            "(default: words of wordfreq; their rows are marked)."
        ),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """The paper: 15 datasets, 3 seeds, 16 shots, ViT-B-16 with OpenAI's weights.

    Example: wsoup profile paper --data-root /data --gpt-descriptors /data/gpt --methods few-shot --out params.yaml
    """
    from wsoup.profiles.files import NEEDS, Paper

    if gpt_descriptors is None:
        raise ParamsError(NEEDS)
    gpt = None if gpt_descriptors == "none" else gpt_descriptors
    paper = Paper(data_root, gpt_descriptors=gpt, methods=methods, source=source, words=words)
    _put(paper.text(), out=out, force=force)


@profile_app.command("table")
def profile_table(
    table: Annotated[str, typer.Argument(help="One of the paper's tables, all of them, or shots.")] = "all",
    params: ParamsFile = Path("params.yaml"),
) -> None:
    """Which rows of the paper's tables a params.yaml fills or not, and why.

    shots: run params.yaml here with 1 to 16 shots, and print the figure's data.

    Example: wsoup profile table few_shot
    """
    if table == "shots":
        from wsoup.pipeline.graph import over_shots

        print(over_shots())
        return
    from wsoup.check.whole import load_params
    from wsoup.paper.coverage import as_text, coverage, figures, of_params

    run = of_params(load_params(params).model_dump(mode="json", by_alias=True))
    print(as_text(coverage(run, table=table)), end="")
    if table == "all":
        print("figures and claims:", *figures(run), sep="\n")


@profile_app.command("own")
def profile_own(
    images: Annotated[
        str, typer.Option(help="A folder with train/<class>/ and test/<class>/, or a folder of such folders.")
    ],
    classes: common.Names = None,
    model: common.Model = None,
    pretrained: common.Pretrained = "openai",
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Share of images to test on if there are no train/ and test/, for example 0.3."),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Your own images: source and targets from a folder, with absolute paths.

    The default model is ViT-B-32; it may also be hf-hub:owner/name or local-dir:FOLDER.
    A local model may need config, image_mean, image_std, interpolation or quick_gelu under
    encoder in params.yaml, which also has template, shots and descriptors (docs/params.md).

    Example: wsoup profile own --images photos --out params.yaml
    """
    from wsoup.profiles.own import own

    text, hint = own(
        images, model=model or "ViT-B-32", pretrained=pretrained or "", test_fraction=test_fraction, classes=classes
    )
    _put(text, out=out, force=force)
    if hint:
        print(hint, file=sys.stderr)


def _put(text: str, *, out: Path | None, force: bool) -> None:
    """Print a profile, or write it and print the next step."""
    if out is None:
        print(text, end="")
        return
    from wsoup.profiles.files import unchanged, write

    claim([("--out", out)], force=force or unchanged(out, text=text))
    for line in [*write(text, out=out), f"wrote {out}; next: wsoup check"]:
        print(line, file=sys.stderr)
