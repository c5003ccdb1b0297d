"""Commands on soups and photos without a pipeline: `wsoup soup`, `wsoup classify` and `wsoup try`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import ParamsError, one_line
from wsoup.cli import common
from wsoup.cli.common import check_ending, claim
from wsoup.cli.loading import load, load_classifier, run_soup

soup_app = typer.Typer(help="Show and export soups.", no_args_is_help=True)
OwnSoup = Annotated[str | None, typer.Argument(help=f"{common.WHICH} (default: report.soup of params.yaml).")]


@soup_app.command("show")
def soup_show(path: OwnSoup = None) -> None:
    """Show a soup: its members and their accuracies.

    Example: wsoup soup show word
    """
    from wsoup.cli.formats import show

    soup, _ = load(_named(path, params=Path("params.yaml")))
    common.Terminal().print(show(soup))


def _named(path: str | None, *, params: Path) -> str:
    """The soup of an argument, or else the run's own."""
    if path is not None:
        return path
    name, _ = run_soup(params)
    return name


@soup_app.command("export")
def soup_export(
    form: Annotated[
        str, typer.Option("--format", help="Texts: open_clip, clip_benchmark or text. A classifier: npz or onnx.")
    ],
    path: OwnSoup = None,
    classes: common.Classes = None,
    template: common.Template = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write (default: stdout; required for a classifier).")
    ] = None,
    params: common.WeightsIn = Path("params.yaml"),
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    force: common.Force = False,
) -> None:
    """Export a soup for other software: exactly the texts that were measured, with template, comma and period.

    npz and onnx hold the classifier of a soup with --classes, or of a head file,
    with class names, scale, preprocessing and provenance; onnx with the image tower.

    Example: wsoup soup export word --format open_clip > templates.py
    """
    from wsoup.api.encoders import EncoderOptions
    from wsoup.cli.formats import FORMATS, export
    from wsoup.disk.store import write_bytes

    claim([("--out", out)], inputs=[path, classes], force=force)
    if form in FORMATS:
        soup, _ = load(_named(path, params=params))
        content = export(soup, form=form, template=template)
        if out is None:
            common.put(content)
        else:
            write_bytes(out, content.encode())
        return
    if form not in ("npz", "onnx"):
        known = (*FORMATS, "npz", "onnx")
        raise ParamsError(f"--format {form!r} must be one of {', '.join(known)}")
    if out is None:
        raise ParamsError(f"--format {form} is not text; give --out FILE.{form}")
    check_ending(out, f".{form}", option="--out")
    options = EncoderOptions(model, pretrained, config)
    classifier, encoder = load_classifier(
        path, classes=classes, template=template, params=params, options=options, device="auto"
    )
    from wsoup.photos.export import export_classifier

    tower = None
    # A head's encoder is loaded only where its image tower goes into the file.
    if form == "onnx":
        tower = encoder()
    export_classifier(out, classifier, tower=tower)


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or a CSV with a column path.")],
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
    template: common.Template = None,
    params: common.WeightsIn = Path("params.yaml"),
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    device: common.Device = "auto",
    force: common.Force = False,
) -> None:
    """Classify photos with a soup or a head: the most probable classes of each, as CSV.

    Every photo, and every row of a list, is a row of the answer, with a status: ok
    or not read; reasons are on stderr, and the exit code is 0. If photos have labels
    (a column label of a CSV, or folders named like classes), accuracy and the most
    confused pairs of classes follow on stderr. The default encoder is the one that
    the soup or the head was made with.

    Example: wsoup classify photos/new --soup word --classes "cat,dog" --html sheet.html --out predictions.csv
    """
    from wsoup.api.encoders import EncoderOptions
    from wsoup.base.class_names import changes, proposed
    from wsoup.photos.files import find_photos, labelled
    from wsoup.photos.names import read_class_names
    from wsoup.photos.sheet import write_sheet
    from wsoup.photos.tables import accuracy_lines, row_of, write_rows

    for option, file, kind in (("--out", out, ".csv"), ("--html", html, ".html")):
        if file is not None:
            check_ending(file, kind, option=option)
    claim([("--out", out), ("--html", html)], inputs=[*photos, soup, classes], force=force)
    files, ignored = find_photos(photos)
    options = EncoderOptions(model, pretrained, config)
    classifier, encoder = load_classifier(
        soup, classes=classes, template=template, params=params, options=options, device=device, adapt=adapt
    )
    names = classifier.class_names
    folders = {} if classes is None else read_class_names(classes)
    labelled_photos, unknown = labelled(files, class_names=names, folders=folders)
    columns: dict[str, None] = {}  # of a list of photos, in its order
    for photo in labelled_photos:
        columns.update(dict.fromkeys(photo.columns))
    top = min(top, len(names))
    predictions, note = classifier.predictions(labelled_photos, encoder=encoder(), top=top, adapt=adapt)
    inputs = list(columns)
    write_rows(out, [row_of(prediction, top=top, inputs=inputs) for prediction in predictions])
    if html is not None:
        write_sheet(html, predictions, title=f"{len(names)} classes with {soup or 'the soup of the run'}")
    new_names = dict(zip(names, proposed(names), strict=True))
    better = changes(new_names)
    if better:
        better = f"names that may read better: {better}"
    # Many photos may share one reason, which is said once; how many there are is said last.
    problems = [one_line(prediction.problem) for prediction in predictions if prediction.problem]
    unread = [f"not read: {problem}" for problem in dict.fromkeys(problems)]
    last = ""
    if problems:
        last = f"{len(problems)} of {len(files)} photos could not be read"
    common.say([better, note, *accuracy_lines(predictions), unknown, ignored, *unread, last])


def try_command(
    photos: Annotated[str, typer.Argument(help="A folder of <class>/<image>, or with train/ and test/ of such.")],
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
        typer.Option(
            min=1, help="Photos per class to learn from, if it has as many; the rest are held out for testing."
        ),
    ] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed for choosing words and shots.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("tried"),
    force: common.Force = False,
    device: common.Device = "auto",
) -> None:
    """Compare class names, 80 templates, a word soup and a head on labelled photos.

    Writes predictions.csv, soup.json, head.safetensors, classes.txt and a contact
    sheet. The default model is ViT-B-32 / openai.

    Example: wsoup try photos --model ViT-B-32 --pretrained openai
    """
    from wsoup.api.hub import DEFAULTS, check_downloads

    # Before seconds of imports.
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
    common.say(result.notes)
    print("\n".join(result.lines()))
    print(f"look at {out / 'sheet.html'}; next: {result.command(out)}")
