"""Commands on a folder of photos, without a pipeline: `wsoup classify` and `wsoup try`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wsoup.base.errors import one_line
from wsoup.base.number_of import number_of
from wsoup.cli import common
from wsoup.cli.common import check_ending, claim
from wsoup.cli.loading import load_classifier
from wsoup.runtime.terminal import printing_to_stderr

if TYPE_CHECKING:
    from wsoup.photos.classify import Prediction


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or lists: CSV, TSV, Parquet.")],
    soup: Annotated[
        str | None,
        typer.Option(
            help=f"{common.WHICH}; a head file; or class_name or templates, which need no file (default: report.soup "
            "of params.yaml)."
        ),
    ] = None,
    classes: common.Classes = None,
    out: Annotated[Path | None, typer.Option(help="A .csv file (default: stdout).")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to name for each photo.")] = 3,
    html: Annotated[Path | None, typer.Option(help="Also write a contact sheet, a page of small pictures.")] = None,
    adapt: Annotated[bool, typer.Option("--adapt", help="Adapt the soup to these photos, without labels.")] = False,
    weigh: Annotated[
        str | None,
        typer.Option(help="autoclip: weigh the soup's texts for each photo by the photo's own scores."),
    ] = None,
    template: common.Template = None,
    params: common.WeightsIn = None,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    device: common.Device = "auto",
    force: common.Force = False,
) -> None:
    """Classify photos with a soup or a head: the most probable classes of each, as CSV.

    Every photo, and every row of a list, is a row of the answer, with a status: ok
    or not read; reasons are on stderr, and the exit code is 0. If photos have labels
    (a column label of a list, or folders that are all named like classes), accuracy
    and the most confused pairs of classes follow on stderr. The default encoder is the one that
    the soup or the head was made with. A head's probabilities are calibrated for photos like
    those that it was made of; of photos in another style they promise too much.

    Example: wsoup classify photos/new --soup word --classes "cat,dog" --html sheet.html --out predictions.csv
    """
    from wsoup.api.encoders import EncoderOptions
    from wsoup.base.class_names import shared_names
    from wsoup.disk.csv_rows import write_rows
    from wsoup.photos.files import find_photos
    from wsoup.photos.labels import labelled
    from wsoup.photos.names import read_class_names
    from wsoup.photos.sheet import write_sheet
    from wsoup.photos.tables import accuracy_lines, row_of

    for option, file, kind in (("--out", out, ".csv"), ("--html", html, ".html")):
        if file is not None:
            check_ending(file, kind, option=option)
    claim([("--out", out), ("--html", html)], inputs=[*photos, soup, classes], force=force)
    with printing_to_stderr():
        files, ignored = find_photos(photos)
        options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
        classifier, encoder = load_classifier(
            soup,
            classes=classes,
            template=template,
            params=params,
            options=options,
            device=device,
            adapt=adapt,
            weigh=weigh,
        )
        names = classifier.class_names
        folders = {} if classes is None else read_class_names(classes)
        labelled_photos, unknown = labelled(files, class_names=names, folders=folders)
        top = min(top, len(names))
        predictions, note = classifier.predictions(labelled_photos, encoder=encoder(), top=top, adapt=adapt)
    columns: dict[str, None] = {}  # of a list of photos, in its order
    for photo in labelled_photos:
        columns.update(dict.fromkeys(photo.columns))
    write_rows(out, [row_of(prediction, top=top, inputs=list(columns)) for prediction in predictions])
    if html is not None:
        write_sheet(html, predictions, title=f"{number_of(len(names), 'class')} with {soup or 'the soup of the run'}")
    of_classes = [_better(names), shared_names(names)]
    common.say([*of_classes, note, *accuracy_lines(predictions), *unknown, ignored, *_not_read(predictions)])


def _better(names: Sequence[str]) -> str:
    """A line about class names that may read better to the model; "" if there are none."""
    from wsoup.base.folder_names import changes, proposed

    better = changes(dict(zip(names, proposed(names), strict=True)))
    if not better:
        return ""
    return f"names that may read better: {better}"


def _not_read(predictions: Sequence[Prediction]) -> list[str]:
    """Why some photos could not be read, and how many they are; no line if all could be."""
    problems = [one_line(prediction.problem) for prediction in predictions if prediction.problem]
    if not problems:
        return []
    # Many photos may share one reason, which is said once.
    reasons = [f"not read: {problem}" for problem in dict.fromkeys(problems)]
    return [*reasons, f"{len(problems)} of {len(predictions)} photos could not be read"]


def try_command(
    photos: Annotated[
        str,
        typer.Argument(
            help="A folder of <class>/<image>, or with train/ and test/ of such; a list; or shards of WebDataset."
        ),
    ],
    classes: common.Names = None,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    template: Annotated[str, typer.Option(help="Prompt template with one {}.")] = "a photo of a {}.",
    shots: Annotated[
        int,
        typer.Option(min=1, help="Training photos per class to learn from, or as many as the class has."),
    ] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed for choosing words and shots.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("tried"),
    force: common.Force = False,
    device: common.Device = "auto",
) -> None:
    """Compare class names, 80 templates, 64 random words, class means and a head on labelled photos.

    Writes predictions.csv, soup.json, head.safetensors, class_means.safetensors,
    classes.txt and a contact sheet. The default model is ViT-B-32 / openai.

    Example: wsoup try photos --model ViT-B-32 --pretrained openai
    """
    from wsoup.api.hub import DEFAULTS, check_downloads
    from wsoup.datasets.lists import is_list
    from wsoup.datasets.walk import require_photos

    # Before seconds of imports, the folder first: it is what most often is wrong.
    if not (Path(photos).is_file() and is_list(photos)):
        require_photos(photos)
    check_downloads(model=model, pretrained=pretrained, config=config)
    from wsoup.api.encoders import EncoderOptions
    from wsoup.photos import trial
    from wsoup.photos.labelled import look

    claim([("--out", out / name) for name in trial.FILES], inputs=[classes], force=force)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    options.check_for_a_new_encoder()
    labelled = look(photos, shots=shots, seed=seed, template=template, classes=classes)
    encoder = options.load(device=device, origin="wsoup try", defaults=DEFAULTS)
    result = trial.trial(labelled, encoder=encoder)
    result.save(out, options=options)
    common.say([labelled.taken, *result.notes])
    print("\n".join(result.lines()))
    print(f"look at {out / 'sheet.html'}; next: {result.command(out)}")
