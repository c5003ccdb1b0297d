"""Commands on photos without a pipeline: `wsoup classify`, and `wsoup try` on labelled photos."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import one_line
from wsoup.cli import common
from wsoup.cli.soups import WHICH, load_classifier


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or a CSV with a column path.")],
    soup: Annotated[
        str | None, typer.Option(help=f"{WHICH[0].upper()}{WHICH[1:]} (default: report.soup of params.yaml).")
    ] = None,
    head: Annotated[Path | None, typer.Option(help="A head file instead, which has its own classes and soup.")] = None,
    classes: common.Classes = None,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file (default: CSV on stdout).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Number of classes to name for each photo.")] = 3,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Photos below this probability have the status unsure.")
    ] = 0.0,
    explain: Annotated[bool, typer.Option("--explain", help="Also say which members of the soup agree.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a contact sheet, a page of small pictures.")] = None,
    confusion: Annotated[
        Path | None, typer.Option(help="Also write a .csv table of labels and answers, if photos have labels.")
    ] = None,
    mode: common.Mode = None,
    adapt: Annotated[bool, typer.Option("--adapt", help="Adapt the soup to these photos, without labels.")] = False,
    template: common.Template = None,
    params: common.WeightsIn = Path("params.yaml"),
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    batch_size: common.BatchSize = 64,
    device: common.Device = "auto",
) -> None:
    """Classify photos with a soup or a head: the most probable classes of each, as CSV, Parquet or JSON.

    Each photo has a status: ok, unsure (see --threshold) or not read; reasons are
    on stderr, and the exit code is 0. If photos have labels (a column label or
    class of a CSV, or folders named like classes), accuracy and the most confused
    pairs of classes follow on stderr. The default encoder is the one that the
    soup or the head was made with.

    Example: wsoup classify photos/new --soup word --classes "cat,dog" --html sheet.html > predictions.csv
    """
    from wsoup.api.classify import EncoderOptions
    from wsoup.api.outputs import Confusion, Outputs, write_sheet
    from wsoup.api.photos import find_photos, labelled

    outputs = Outputs(out, as_json=as_json, sheet=html, confusion=confusion)
    outputs.check_apart([*photos, *(str(part) for part in (soup, head, classes) if part is not None)])
    files = find_photos(photos)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    classifier, _, title = load_classifier(
        soup, head, classes=classes, template=template, mode=mode, params=params, options=options, device=device
    )
    labelled_photos = labelled(files, class_names=classifier.class_names)
    top, pictures, confused = min(top, len(classifier.class_names)), [], Confusion()
    columns = list(dict.fromkeys(name for photo in labelled_photos for name in photo.columns))
    predictions = classifier.predictions(
        labelled_photos, top=top, threshold=threshold, explain=explain, batch_size=batch_size, adapt=adapt
    )
    with outputs.writing(top=top, explain=explain, inputs=columns) as write:
        for prediction in predictions:
            write(prediction)
            confused.add(prediction)
            if html is not None and prediction.classes:
                pictures.append(prediction)
    if html is not None:
        write_sheet(html, pictures, title=title, bad=classifier.bad, threshold=threshold or 0.5)
    if confusion is not None:
        confused.write(confusion, class_names=classifier.class_names)
    unreadable = [f"not read: {one_line(problem)}" for problem in classifier.bad.values()]
    for line in [classifier.note, *confused.lines(), *unreadable]:
        if line:
            print(line, file=sys.stderr)
    if unreadable:
        print(f"{len(unreadable)} of {len(files)} photos could not be read", file=sys.stderr)


def try_command(
    photos: Annotated[str, typer.Argument(help="A folder of <class>/<image>, or with train/ and test/ of such.")],
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    template: Annotated[str, typer.Option(help="Prompt template with one {}.")] = "a photo of a {}.",
    shots: Annotated[int, typer.Option(min=1, help="Photos per class for the head; the others are held out.")] = 16,
    words: Annotated[int, typer.Option(min=1, max=10_000, help="Random common words in the soup.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Of the words and the shots.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("tried"),
    force: common.Force = False,
    batch_size: common.BatchSize = 64,
    device: common.Device = "auto",
) -> None:
    """Try a soup and a head on labelled photos: is either better than class names, and which to use.

    Writes soup.json, head.safetensors, classes.txt and a contact sheet. The default model is ViT-B-32 / openai.

    Example: wsoup try photos --model ViT-B-32 --pretrained openai
    """
    from wsoup.api.classify import EncoderOptions
    from wsoup.api.trial import trial
    from wsoup.disk.store import kept_aside

    kept_aside(out, force=force)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    defaults = {"model": "ViT-B-32", "pretrained": "openai"}
    encoder = options.load(device=device, origin="wsoup try", defaults=defaults)
    result = trial(photos, encoder=encoder, shots=shots, m=words, seed=seed, template=template, batch_size=batch_size)
    result.save(out)
    for line in result.notes:
        print(line, file=sys.stderr)
    for name, accuracy in result.accuracies().items():
        print(f"{name:<32} {accuracy}")
    print(f"\n{result.verdict()}")
    if result.wants_head:
        use = f"--head {out / 'head.safetensors'}"
    else:
        use = f"--soup {out / 'soup.json'} --classes {out / 'classes.txt'}"
    given = {"model": model, "pretrained": pretrained, "config": config}
    encoder_options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value is not None)
    print(f"look at {out / 'sheet.html'}; next: wsoup classify PHOTOS {use}{encoder_options} > predictions.csv")
