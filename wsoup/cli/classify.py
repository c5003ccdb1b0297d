"""Commands on photos without a pipeline: `wsoup classify`, and `wsoup try` on labelled photos."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import one_line
from wsoup.base.names import changes, proposed
from wsoup.base.outputs import claim
from wsoup.cli import common
from wsoup.cli.soups import WHICH, load_classifier
from wsoup.disk.files import check_ending


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or a CSV with a column path.")],
    soup: Annotated[
        str | None,
        typer.Option(
            help=f"{WHICH[0].upper()}{WHICH[1:]}; a head file; or class_name or templates, which need no file "
            "(default: report.soup of params.yaml)."
        ),
    ] = None,
    classes: common.Classes = None,
    out: Annotated[Path | None, typer.Option(help="A .csv file (default: stdout).")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to name for each photo.")] = 3,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Photos below this probability have the status unsure.")
    ] = 0.0,
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

    Every photo, and every row of a list, is a row of the answer, with a status: ok,
    unsure (see --threshold) or not read; reasons are on stderr, and the exit code is
    0. If photos have labels (a column label or class of a CSV, or folders named like
    classes), accuracy and the most confused pairs of classes follow on stderr. The
    default encoder is the one that the soup or the head was made with.

    Example: wsoup classify photos/new --soup word --classes "cat,dog" --html sheet.html > predictions.csv
    """
    from wsoup.api.encoders import EncoderOptions
    from wsoup.api.outputs import accuracy_lines, row_of, write_rows, write_sheet
    from wsoup.api.photos import class_names, find_photos, ignored, labelled

    for option, file, kinds in (("--out", out, (".csv",)), ("--html", html, (".html", ".htm"))):
        if file is not None:
            check_ending(file, *kinds, option=option)
    claim([("--out", out), ("--html", html)], inputs=[*photos, soup, classes], force=force)
    files = find_photos(photos)
    options = EncoderOptions(model, pretrained, config)
    classifier, encoder = load_classifier(
        soup, classes=classes, template=template, params=params, options=options, device=device, adapt=adapt
    )
    names = classifier.class_names
    folders = class_names(classes) if classes is not None else {}
    found, unknown = labelled(files, class_names=names, folders=folders)
    top, columns = min(top, len(names)), [*dict.fromkeys(name for photo in found for name in photo.columns)]
    predictions, note = classifier.predictions(found, encoder=encoder(), top=top, threshold=threshold, adapt=adapt)
    write_rows(out, [row_of(prediction, top=top, inputs=columns) for prediction in predictions])
    if html is not None:
        title = f"{len(names)} classes with {'the soup of the run' if soup is None else soup}"
        write_sheet(html, predictions, title=title, threshold=threshold or 0.5)
    problems = [one_line(prediction.problem) for prediction in predictions if prediction.problem]
    unread = [f"not read: {problem}" for problem in dict.fromkeys(problems)]
    last = f"{len(problems)} of {len(files)} photos could not be read" if problems else ""
    better = changes(dict(zip(names, proposed(names), strict=True)))
    better = f"names that may read better: {better}" if better else ""
    for line in [better, note, *accuracy_lines(predictions), unknown, ignored(photos), *unread, last]:
        if line:
            print(line, file=sys.stderr)


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
        int, typer.Option(min=1, help="Photos per class for the head, if it has as many; the others are held out.")
    ] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Of the words and the shots.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("tried"),
    force: common.Force = False,
    device: common.Device = "auto",
) -> None:
    """Which to use on these labelled photos: class names alone, 80 templates, a soup of words, or a head?

    Writes predictions.csv, soup.json, head.safetensors, classes.txt and a contact
    sheet. The default model is ViT-B-32 / openai.

    Example: wsoup try photos --model ViT-B-32 --pretrained openai
    """
    from wsoup.api import trial
    from wsoup.api.encoders import DEFAULTS, EncoderOptions

    files = [out / name for name in trial.FILES]
    claim([("--out", file) for file in files], inputs=[classes], force=force)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    wanted = trial.look(photos, shots=shots, seed=seed, template=template, classes=classes)
    encoder = options.load(device=device, origin="wsoup try", defaults=DEFAULTS)
    result = trial.trial(wanted, encoder=encoder)
    result.save(out, options=options)
    for line in result.notes:
        print(line, file=sys.stderr)
    print("\n".join(result.lines()))
    print(f"look at {out / 'sheet.html'}; next: {result.command(out)}")
