"""`wsoup profile`: a params.yaml to begin with."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from wsoup.base.errors import MissingError, ParamsError
from wsoup.cli import common
from wsoup.cli.common import Force, ParamsFile, claim
from wsoup.runtime.terminal import printing_to_stderr

profile_app = typer.Typer(help="Write a params.yaml to start from.", no_args_is_help=True)
Out = Annotated[Path | None, typer.Option(help="The file to write (default: stdout).")]


@profile_app.command("demo")
def profile_demo(
    methods: Annotated[
        str | None,
        typer.Option(help="Finetune more: core, few-shot, diversity, parameter-efficiency, landscape, rivals or all."),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Write the toy world's params.yaml: images that wsoup draws, and a small CLIP that comes with it.

    Example: wsoup profile demo --out params.yaml
    """
    from wsoup.pipeline.profiles.demo import demo

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
        typer.Option(help="Finetune core, few-shot, diversity, parameter-efficiency, landscape, rivals or all."),
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
            help="Path to a file of common words; the authors used google-10000-english-no-swears.txt "
            "(default: words of wordfreq; their rows are marked)."
        ),
    ] = None,
    waffle: Annotated[
        str | None,
        typer.Option(help="The authors' list of Waffle's texts (default: made of the pools; their rows are marked)."),
    ] = None,
    fewshot_pickles: Annotated[
        str | None,
        typer.Option(help="The folder with CoOp's shot_16-seed_1.pkl, ..., the authors' draws of ImageNet."),
    ] = None,
    sentences: Annotated[
        str | None,
        typer.Option(help="The folder with CuPL's files, such as cars_prompts_full.json (default: no such row)."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="ViT-B-32, ViT-L-14, coca_ViT-L-14 or ViT-g-14 for the table of model scaling, or another."),
    ] = None,
    pretrained: common.Pretrained = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Write the paper's params.yaml: 15 datasets, 3 seeds, 16 shots, ViT-B-16 with OpenAI's weights.

    Example: wsoup profile paper --data-root /data --gpt-descriptors /data/gpt --methods few-shot --out params.yaml
    """
    from wsoup.pipeline.profiles.paper import Paper

    paper = Paper(
        data_root,
        gpt_descriptors=_descriptors_or_none(gpt_descriptors, data_root=data_root),
        methods=methods,
        source=source,
        words=words,
        waffle=waffle,
        fewshot_pickles=fewshot_pickles,
        sentences=sentences,
        model=model,
        pretrained=pretrained,
    )
    _put(paper.text(), out=out, force=force)


def _descriptors_or_none(folder: str | None, *, data_root: str) -> str | None:
    """The folder of GPT descriptors, or None if the user says `none`.

    That must be said, so that nobody loses the rows of descriptors by forgetting an option.
    """
    from wsoup.pipeline.profiles.paper import NEEDS

    if folder is not None:
        return None if folder == "none" else folder
    # Who has not found the data yet is told of both folders at once.
    if not Path(data_root).is_dir():
        raise ParamsError(
            f"--data-root {data_root} is not a folder; name the one with CoOp's dataset folders, and --gpt-descriptors "
            "DIR, or `none`"
        )
    raise ParamsError(NEEDS)


@profile_app.command("table")
def profile_table(
    table: Annotated[str, typer.Argument(help="One of the paper's tables, or all of them.")] = "all",
    params: ParamsFile = Path("params.yaml"),
) -> None:
    """Show which rows of the paper's tables a params.yaml fills, and why it leaves out others.

    Example: wsoup profile table few_shot
    """
    from wsoup.disk.files import Artifacts
    from wsoup.paper.claims import claims
    from wsoup.paper.coverage import as_text, coverage, figures, of_params
    from wsoup.paper.options import advice
    from wsoup.pipeline.params import load_params

    run = of_params(load_params(params).model_dump(mode="json", by_alias=True))
    rows = coverage(run, table=table)
    print(as_text(rows), end="")
    for line in advice(rows):
        print(line)
    if table == "all":
        print("figures and claims:", *figures(run), sep="\n")
        print("claims beside the run that reports/ holds:", *claims(Artifacts()), sep="\n  ")


@profile_app.command("own")
def profile_own(
    images: Annotated[
        str,
        typer.Option(
            help="A folder of <class>/<image>, or with train/ and test/ of such; a folder of such folders; or a list."
        ),
    ],
    classes: common.Names = None,
    model: common.Model = None,
    pretrained: common.Pretrained = "openai",
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Share of images to test on if there are no train/ and test/; without it, half."),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Write a params.yaml for your own images: source and targets from a folder, with absolute paths.

    The default model is ViT-B-32; it may also be hf-hub:owner/name or local-dir:FOLDER.
    A local model takes the options of `wsoup try`: --pretrained FILE --config FILE. The section
    encoder of params.yaml has more keys, such as quick_gelu (docs/params.md).

    Example: wsoup profile own --images photos --out params.yaml
    """
    from wsoup.datasets.lists import is_list
    from wsoup.datasets.walk import instead_of
    from wsoup.pipeline.profiles.own import own

    is_list_file = Path(images).is_file() and is_list(images)
    if not (Path(images).is_dir() or is_list_file):
        step = "name one of <class>/<image>, or with train/ and test/"
        if Path(images).is_file():
            step = instead_of(images)
        raise MissingError(f"--images {images} is not a folder; {step}")
    encoder: dict[str, Any] = {"model": model, "pretrained": pretrained or "", "config": config}
    encoder |= {"image_mean": image_mean, "image_std": image_std, "interpolation": interpolation}
    given = {key: value for key, value in encoder.items() if value is not None}
    _check_local_model(given)
    names_file = None if out is None else out.with_name("class_names.txt")
    with printing_to_stderr():
        profile = own(
            images,
            encoder=given,
            test_fraction=test_fraction,
            classes=classes,
            names_file=names_file,
        )
    if names_file is not None and profile.names:
        lines = [f"{folder}\t{name}\n" for folder, name in profile.names.items()]
        _write_names("".join(lines), out=names_file, force=force)
    _put(profile.text, out=out, force=force)
    common.say(profile.notes)
    if out is not None and not (out.parent / "dvc.yaml").is_file():
        print(f"no dvc.yaml lies beside {out}: `wsoup init FOLDER` makes a folder to run it in", file=sys.stderr)


def _check_local_model(given: Mapping[str, Any]) -> None:
    """Raise ParamsError for options of a local model that do not fit together; others are checked without its files."""
    from wsoup.params.inputs import EncoderParams

    has_weights_file = EncoderParams.model_construct(pretrained=given["pretrained"] or None).weights_file is not None
    if not has_weights_file and "config" not in given:
        return
    # Imported only where there are files to look at: it loads torch.
    from wsoup.api.encoders import EncoderOptions

    EncoderOptions(**given).check_files(origin="wsoup profile own")


def _write_names(text: str, *, out: Path, force: bool) -> None:
    """Write a file of class names beside params.yaml."""
    from wsoup.disk.store import write_bytes
    from wsoup.pipeline.profiles.writing import unchanged

    claim([("the file of class names", out)], force=force or unchanged(out, text=text))
    write_bytes(out, text.encode())


def _put(text: str, *, out: Path | None, force: bool) -> None:
    """Print a profile, or write it and print the next step."""
    if out is None:
        print(text, end="")
        return
    from wsoup.pipeline.profiles.writing import unchanged, write

    claim([("--out", out)], force=force or unchanged(out, text=text))
    for line in [*write(text, out=out), f"wrote {out}; next: wsoup check"]:
        print(line, file=sys.stderr)
