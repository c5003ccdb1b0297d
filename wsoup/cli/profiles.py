"""`wsoup profile`: write a params.yaml to start from."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import ParamsError
from wsoup.cli import common
from wsoup.cli.common import Force, ParamsFile

profile_app = typer.Typer(help="Write a params.yaml to start from.", no_args_is_help=True)

DataRoot = Annotated[str | None, typer.Option(help="The folder with CoOp's dataset folders.")]
GptDescriptors = Annotated[
    str | None, typer.Option(help="The folder with classification-by-description's descriptors_*.json.")
]
WithoutDescriptors = Annotated[
    bool, typer.Option("--without-descriptors", help="Leave out descriptors and the rows that need them.")
]
Out = Annotated[Path | None, typer.Option(help="The file to write (default: stdout).")]
MethodsGroup = Annotated[
    str,
    typer.Option("--methods", help="What to finetune: core, few-shot, diversity, parameter-efficiency or all."),
]


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
    data_root: DataRoot = None,
    gpt_descriptors: GptDescriptors = None,
    without_descriptors: WithoutDescriptors = False,
    methods: MethodsGroup = "core",
    encoder: Annotated[
        str, typer.Option(help="One of the paper's models: ViT-B-16, ViT-B-32, ViT-L-14, ...")
    ] = "ViT-B-16",
    source: Annotated[
        str,
        typer.Option(
            help="imagenet, another dataset with training images, or laion:FOLDER (images, a folder or tar per class)."
        ),
    ] = "imagenet",
    fewshot_pickles: Annotated[
        str | None,
        typer.Option(
            help="The folder with CoOp's own few-shot splits of the source, shot_16-seed_1.pkl ... (default: drawn)."
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(
            help="A file of common words, wherever it lies; the authors used google-10000-english-no-swears.txt "
            "(default: words of wordfreq; their rows are marked)."
        ),
    ] = None,
    waffle: Annotated[
        str | None,
        typer.Option(help="The authors' list of Waffle's texts, in the same folder (default: made of pools; marked)."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="Write no profile, but list which rows of this table of the paper (or `all`) --params fills or not, "
            "and why. shots: run params.yaml here with 1 to 16 shots, and print the figure's data."
        ),
    ] = None,
    params: ParamsFile = Path("params.yaml"),
    out: Out = None,
    force: Force = False,
) -> None:
    """The paper: 15 datasets, 3 seeds, 16 shots, ViT-B-16 with OpenAI's weights.

    Example: wsoup profile paper --data-root /data --gpt-descriptors /data/gpt --methods few-shot --out params.yaml
    """
    from wsoup.profiles.paper import NEEDS, Paper

    if table == "shots":
        from wsoup.pipeline.shots import over_shots

        print(over_shots())
        return
    if table is not None:
        from wsoup.check.whole import load_params
        from wsoup.paper.coverage import as_text, coverage, of_params

        run = of_params(load_params(params).model_dump(mode="json", by_alias=True))
        print(as_text(coverage(run, table=table)), end="")
        return
    if data_root is None:
        raise ParamsError("profile paper needs --data-root, the folder with CoOp's dataset folders")
    if (gpt_descriptors is None) != without_descriptors:
        both = "give either --gpt-descriptors or --without-descriptors, not both"
        raise ParamsError(NEEDS if gpt_descriptors is None else both)
    given = Paper(
        data_root,
        gpt_descriptors=gpt_descriptors,
        methods=methods,
        encoder=encoder,
        source=source,
        fewshot_pickles=fewshot_pickles,
        words=words,
        waffle=waffle,
    )
    text = given.text()
    _put(text, out=out, force=force)


@profile_app.command("own")
def profile_own(
    images: Annotated[
        str, typer.Option(help="A folder with train/<class>/ and test/<class>/, or a folder of such folders.")
    ],
    classes: common.Names = None,
    model: common.Model = None,
    pretrained: common.Pretrained = "openai",
    config: common.Config = None,
    template: Annotated[str, typer.Option(help="Prompt template with one {}.")] = "a photo of a {}.",
    shots: Annotated[
        int | None,
        typer.Option(help="Training images per class and seed (default: 16, or as many as the smallest class has)."),
    ] = None,
    descriptors: Annotated[
        str | None,
        typer.Option(
            help="Your own pool of descriptors: a text file or GPT-descriptor JSON (default: a few hundred of wsoup's)."
        ),
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Share of images to test on if there are no train/ and test/, for example 0.3."),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Your own images: source and targets from a folder, with absolute paths.

    The default model is ViT-B-32; it may also be hf-hub:owner/name or local-dir:FOLDER.
    A local model may need image_mean, image_std, interpolation or quick_gelu under
    encoder in params.yaml (docs/params.md).

    Example: wsoup profile own --images photos --out params.yaml
    """
    from wsoup.profiles.own import better_names, own

    name = model or (Path(config).stem if config else "ViT-B-32")
    text = own(
        images=images,
        encoder={"model": name, "pretrained": pretrained, "config": config},
        template=template,
        shots=shots,
        descriptors=descriptors,
        test_fraction=test_fraction,
        classes=classes,
    )
    _put(text, out=out, force=force)
    if line := better_names(text):
        print(line, file=sys.stderr)


def _put(text: str, *, out: Path | None, force: bool) -> None:
    """Print a profile, or write it and print the next step."""
    if out is None:
        print(text, end="")
        return
    from wsoup.profiles.files import write

    for line in [*write(text, out=out, force=force), f"wrote {out}; next: wsoup check"]:
        print(line, file=sys.stderr)
