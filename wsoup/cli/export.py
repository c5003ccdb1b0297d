"""`wsoup soup export`: a soup's texts, or the classifier that it makes, for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup.cli import options
from wsoup.cli.classify import ready
from wsoup.cli.output import put
from wsoup.cli.soups import OwnSoup, load, soup_app
from wsoup.core.errors import ParamsError
from wsoup.disk.files import check_ending


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
    from wsoup.disk.store import kept_aside, replacing

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
    with replacing(out) as temporary:
        temporary.write_text(written, encoding="utf-8")
