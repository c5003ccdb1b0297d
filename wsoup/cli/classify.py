"""`wsoup classify`: photos, with a soup or a head; `wsoup soup export`: the classifier, or texts, for use elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wsoup.cli import options
from wsoup.cli.output import put
from wsoup.cli.soups import WHICH, OwnSoup, load, load_soup, run_soup, soup_app, soup_file
from wsoup.core.disk.files import check_ending
from wsoup.core.errors import ParamsError, one_line

if TYPE_CHECKING:
    from wsoup.api.classify import Classifier
    from wsoup.api.classify_encoder import Given


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or a CSV with a column path.")],
    soup: Annotated[
        str | None, typer.Option(help=f"{WHICH[0].upper()}{WHICH[1:]} (default: report.soup of params.yaml).")
    ] = None,
    head: Annotated[Path | None, typer.Option(help="A head file instead: it knows its classes and its soup.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="Class names such as 'cat,dog', or a text file with one a line.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file (default: CSV on stdout).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many classes to name for each photo.")] = 3,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Photos below this probability have the status unsure.")
    ] = 0.0,
    explain: Annotated[bool, typer.Option("--explain", help="Also say which members of the soup agree.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a contact sheet, a page of small pictures.")] = None,
    confusion: Annotated[
        Path | None, typer.Option(help="Also write a .csv table of labels and answers, where photos have labels.")
    ] = None,
    mode: options.Mode = None,
    adapt: Annotated[
        str | None, typer.Option(help="Adapt the soup to these photos, without labels: em or center.")
    ] = None,
    template: options.Template = None,
    params: options.WeightsIn = Path("params.yaml"),
    model: options.Model = None,
    pretrained: options.Pretrained = None,
    config: options.Config = None,
    image_mean: options.ImageMean = None,
    image_std: options.ImageStd = None,
    interpolation: options.Interpolation = None,
    batch_size: options.BatchSize = 64,
    device: options.Device = "auto",
) -> None:
    """Classify photos with a soup or a head: the most probable classes of each, as CSV, Parquet or JSON.

    Each photo has a status: ok, unsure (see --threshold) or not read; the reasons are on stderr, and the exit code is 0
    all the same. Where photos have labels (a column label or class of a CSV, or folders named as classes), accuracy and
    the pairs of classes that are confused most follow on stderr.

    Example: wsoup classify photos/new --soup word --classes "cat,dog" --html sheet.html > predictions.csv
    """
    from wsoup.api.classify_encoder import Given
    from wsoup.api.classify_outputs import Confusion, Outputs
    from wsoup.api.photos import find_photos, labelled
    from wsoup.api.sheet import write_sheet

    outputs = Outputs(out, as_json=as_json, sheet=html, confusion=confusion)
    outputs.check_apart([*photos, *(str(part) for part in (soup, head, classes) if part is not None)])
    found = find_photos(photos)
    given = Given(model, pretrained, config, image_mean, image_std, interpolation)
    classifier, _, title = ready(
        soup, head, classes=classes, template=template, mode=mode, params=params, given=given, device=device
    )
    named = labelled(found, class_names=classifier.class_names)
    top, pictures, told = min(top, len(classifier.class_names)), [], Confusion()
    inputs = list(dict.fromkeys(name for photo in named for name in photo.columns))
    answers = classifier.predictions(
        named, top=top, threshold=threshold, explain=explain, batch_size=batch_size, adapt=adapt
    )
    with outputs.writing(top=top, explain=explain, inputs=inputs) as write:
        for answer in answers:
            write(answer)
            told.add(answer)
            if html is not None and answer.classes:
                pictures.append(answer)
    if html is not None:
        write_sheet(html, pictures, title=title, bad=classifier.bad, threshold=threshold or 0.5)
    if confusion is not None:
        told.write(confusion, class_names=classifier.class_names)
    for line in [classifier.note, *told.lines(), *(f"not read: {one_line(bad)}" for bad in classifier.bad.values())]:
        if line:
            print(line, file=sys.stderr)
    if classifier.bad:
        print(f"{len(classifier.bad)} of {len(found)} photos could not be read", file=sys.stderr)


@soup_app.command("export")
def soup_export(
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="Of texts: open_clip, clip_benchmark, text or csv. Of a classifier: npz, safetensors or onnx.",
        ),
    ],
    path: OwnSoup = None,
    classes: Annotated[str | None, typer.Option(help="Class names, or a file of them: write whole prompts.")] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="A dataset's name in clip_benchmark; may be repeated (default: any)."),
    ] = None,
    template: options.Template = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write (default: stdout; a classifier needs one).")
    ] = None,
    mode: options.Mode = None,
    pixels: Annotated[bool, typer.Option("--pixels", help="ONNX with the image tower in it.")] = False,
    params: options.WeightsIn = Path("params.yaml"),
    model: options.Model = None,
    pretrained: options.Pretrained = None,
    config: options.Config = None,
    image_mean: options.ImageMean = None,
    image_std: options.ImageStd = None,
    interpolation: options.Interpolation = None,
    device: options.Device = "auto",
    force: options.Force = False,
) -> None:
    """Write a soup for use elsewhere: exactly the texts that were measured, with template, comma and period.

    Or the classifier itself, of a soup with --classes or of a head file, with names, scale, preprocessing and where it
    comes from.

    Example: wsoup soup export word --format open_clip > templates.py
    """
    from wsoup.api.exported import FORMATS, write
    from wsoup.core.disk.store import kept_aside, write_bytes

    if form in FORMATS:
        if out is None:
            raise ParamsError(f"--format {form} is no text; give --out FILE.{form}")
        check_ending(out, f".{form}", option="--out")
        from wsoup.api.classify_encoder import Given

        head = Path(path) if path is not None and path.endswith(".safetensors") else None
        given = Given(model, pretrained, config, image_mean, image_std, interpolation)
        classifier, made_of, _ = ready(
            *(None if head else path, head),
            classes=classes,
            template=template,
            mode=mode,
            params=params,
            given=given,
            device=device,
        )
        kept_aside(out, force=force)
        write(out, classifier, form=form, made_of=made_of, pixels=pixels)
        return
    from wsoup.api.photos import class_names
    from wsoup.soup.export import ANY_DATASET, export

    names = None if classes is None else class_names(classes)
    written = export(load(path), form=form, class_names=names, datasets=dataset or [ANY_DATASET], template=template)
    if out is None:
        put(written)
        return
    kept_aside(out, force=force)
    write_bytes(out, written.encode())


def ready(
    soup: str | None,
    head: Path | None,
    *,
    classes: str | None,
    template: str | None,
    mode: str | None,
    params: Path,
    given: Given,
    device: str,
) -> tuple[Classifier, dict[str, Any], str]:
    """A soup for classes or a head ready for photos, what it was made of as JSON values, and what to call it."""
    from wsoup.api.classify import Classifier
    from wsoup.api.classify_encoder import encoder_of
    from wsoup.api.photos import class_names
    from wsoup.heads.head import Head

    how: Any = {"params": params, "given": given, "device": device}
    if head is not None:
        if (soup, classes, template) != (None, None, None):
            raise ParamsError("--head knows its soup, its classes and its template; leave those options out")
        loaded = Head.load(head)
        encoder = encoder_of(loaded.soup, about=loaded.encoder, origin=str(head), **how)
        made_of = {"kind": loaded.kind, "template": loaded.template, "soup": loaded.soup.as_json()}
        return (
            Classifier.of_head(loaded, encoder=encoder),
            made_of,
            f"{len(loaded.class_names)} classes with {head.name}",
        )
    if classes is None:
        raise ParamsError(
            "name the classes, and a soup unless it is the run's own (--classes 'cat,dog' --soup word), or a head "
            "(--head FILE)"
        )
    if soup is None:
        soup, judged = run_soup(params)
        mode = mode or judged
    file, names = soup_file(soup), class_names(classes)
    texts, mode = load_soup(file), mode or "centroid"
    encoder = encoder_of(texts, about=texts.encoder, origin=str(file), **how)
    made = Classifier.of_soup(texts, encoder=encoder, class_names=names, template=template, mode=mode)
    made_of = {"mode": mode, "template": template or texts.template, "soup": texts.as_json()}
    return made, made_of, f"{len(names)} classes with {soup}"
