"""`wsoup verify`: a run beside the results of the paper's authors, and an encoder beside its published figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wsoup.base.errors import MismatchError, MissingError
from wsoup.cli import common
from wsoup.cli.common import ParamsFile, Terminal
from wsoup.disk.files import Artifacts

if TYPE_CHECKING:
    from wsoup.api.encoders import EncoderOptions
    from wsoup.paper.verify import Compared, Verdict
    from wsoup.pipeline.published_tests import Tests
    from wsoup.towers.encoder import Encoder

verify_app = typer.Typer(help="Compare a run with the results of others.", no_args_is_help=True)


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


@verify_app.command("published")
def verify_published(
    params: ParamsFile = Path("params.yaml"),
    data_root: Annotated[
        str | None,
        typer.Option(help="Encode the test images of the datasets below this folder, without a pipeline."),
    ] = None,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    device: common.Device = "auto",
) -> None:
    """Compare an encoder's zero-shot accuracy with OpenAI's templates to the figure that open_clip publishes.

    Of the run's encoder and every dataset that has a figure (stage embed); no soup
    is needed. With --data-root of the datasets in that folder, CoOp's or folders of
    test images called cifar10, mnist, ..., and of --model (ViT-B-16 / openai).
    Says what differences usually come from, and exits with 1 if there are any.

    Example: wsoup verify published --data-root /data --model ViT-B-32 --pretrained openai
    """
    from wsoup.api.encoders import EncoderOptions
    from wsoup.paper.published import of_encoder
    from wsoup.paper.verify_published import compare, shown, usual_causes
    from wsoup.texts.encoder import PromptEncoder

    console = Terminal()
    if data_root is None:
        encoder, given, read_tests = _of_run(params, console=console)
    else:
        options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
        encoder, given, read_tests = _below(data_root, options=options, device=device, console=console)
    names = (str(encoder.id["model"]), str(encoder.id["pretrained"]))
    published, twin = of_encoder(*names, quick_gelu=bool(encoder.id["quick_gelu"]))
    if published is None:
        raise MismatchError(
            f"encoder {' / '.join(names)} has no published figures; `wsoup models` lists those that have, and a line "
            "for yours may be added to data/published/openclip_results.csv here"
        )
    # Images are encoded last, because that may take hours.
    tests = read_tests()
    lines = list(compare(tests, text_encoder=PromptEncoder.of(encoder), published=published))
    for text in shown(lines, published=published, twin=twin):
        console.plain(text)
    for cause in usual_causes(lines, given=given, twin=twin):
        console.plain(f"this usually means: {cause}")
    if any(line.differs for line in lines):
        raise typer.Exit(1)


def _of_run(params: Path, *, console: Terminal) -> tuple[Encoder, list[str], Callable[[], Tests]]:
    """The run's encoder, what params.yaml changes of its images, and what gives the test sets that are embedded."""
    from wsoup.pipeline.params import load_params
    from wsoup.pipeline.published_tests import changed, of_run
    from wsoup.towers.encoder import load_encoder

    if not params.exists():
        raise MissingError(
            f"{params} does not exist: go to a run's folder, or give --data-root FOLDER, --model and --pretrained to "
            "compare an encoder without a run"
        )
    settings = load_params(params)
    encoder = load_encoder(settings.encoder)
    tests, missing = of_run(settings.datasets, artifacts=Artifacts(), encoder=encoder)
    if missing and not tests:
        raise MissingError(f"no test images are embedded; run `dvc repro {' '.join(f'embed@{m}' for m in missing)}`")
    if not tests:
        raise MissingError(f"no dataset of {params} has a published figure; data/published/datasets.csv lists them")
    for name in missing:
        console.plain(f"not compared: {name} is not embedded; `dvc repro embed@{name}`")
    return encoder, changed(settings.encoder), lambda: tests


def _below(
    data_root: str, *, options: EncoderOptions, device: str, console: Terminal
) -> tuple[Encoder, list[str], Callable[[], Tests]]:
    """As `_of_run`, of the datasets in a folder and the options of a local model."""
    from wsoup.datasets.walk import require_folder
    from wsoup.pipeline.published_tests import below

    require_folder(data_root, given_by="--data-root")
    options.check_for_a_new_encoder()
    defaults = {"model": "ViT-B-16", "pretrained": "openai"}
    encoder = options.load(device=device, origin="wsoup verify published", defaults=defaults)

    def read_tests() -> Tests:
        tests, others = below(data_root, encoder=encoder)
        for line in others:
            console.plain(f"not compared: {line}")
        if not tests:
            raise MissingError(
                f"{data_root} holds no dataset that has a published figure; name the folder with CoOp's folders "
                "(imagenet, oxford_pets, ...), or with folders of test images called cifar10, mnist, ..."
            )
        return tests

    images = (
        ("--image-mean", options.image_mean),
        ("--image-std", options.image_std),
        ("--interpolation", options.interpolation),
    )
    return encoder, [f"{option} {value}" for option, value in images if value is not None], read_tests
