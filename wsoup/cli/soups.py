"""`wsoup soup`: show a soup, or export it for other software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import ParamsError
from wsoup.cli import common
from wsoup.cli.common import check_ending, claim
from wsoup.cli.loading import PARAMS, load, load_classifier, run_soup
from wsoup.runtime.terminal import printing_to_stderr

soup_app = typer.Typer(help="Show and export soups.", no_args_is_help=True)
CLASSIFIERS = ("npz", "onnx")
"""Values of `--format` for a classifier of named classes; the others are texts."""
OwnSoup = Annotated[str | None, typer.Argument(help=f"{common.WHICH} (default: report.soup of params.yaml).")]


@soup_app.command("show")
def soup_show(path: OwnSoup = None) -> None:
    """Show a soup: its members and their accuracies; of a soup of the paper, what its authors counted.

    Example: wsoup soup show word
    """
    from wsoup.cli.formats import show, show_counts
    from wsoup.paper import soups as of_paper

    name = _named(path, params=PARAMS)
    soup, _ = load(name)
    terminal = common.Terminal()
    terminal.print(show(soup))
    if of_paper.is_named(name):
        counted = of_paper.counts(name)
        terminal.print(show_counts(counted))
        for line in of_paper.gains(counted):
            terminal.print(line, highlight=False, markup=False)


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
    params: common.WeightsIn = None,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    force: common.Force = False,
) -> None:
    """Export a soup for other software: exactly the texts that were measured, with template, comma and period.

    npz and onnx hold the classifier of a soup with --classes, or of a head file,
    with class names, scale, preprocessing and provenance; onnx with the image tower.

    Example: wsoup soup export word --format open_clip > templates.py
    """
    from wsoup.api.encoders import EncoderOptions
    from wsoup.cli.formats import FORMATS

    claim([("--out", out)], inputs=[path, classes], force=force)
    if form in FORMATS:
        _export_texts(_named(path, params=params or PARAMS), form=form, template=template, out=out)
        return
    if form not in CLASSIFIERS:
        raise ParamsError(f"--format {form!r} must be one of {', '.join((*FORMATS, *CLASSIFIERS))}")
    if out is None:
        raise ParamsError(f"--format {form} is not text; give --out FILE.{form}")
    check_ending(out, f".{form}", option="--out")
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    classifier, encoder = load_classifier(
        path, classes=classes, template=template, params=params, options=options, device="auto"
    )
    from wsoup.photos.export import export_classifier

    tower = None
    # A head's encoder is loaded only where its image tower goes into the file.
    if form == "onnx":
        tower = encoder()
    export_classifier(out, classifier, tower=tower)


def _export_texts(name: str, *, form: str, template: str | None, out: Path | None) -> None:
    """Write the texts of a soup to a file, or to stdout."""
    from wsoup.cli.formats import export
    from wsoup.disk.store import write_bytes

    with printing_to_stderr():
        soup, _ = load(name)
        if template is not None and soup.of_templates:
            common.say([f"{name}: its members are templates themselves, so --template is not used"])
        content = export(soup, form=form, template=template)
    if out is None:
        common.put(content)
    else:
        write_bytes(out, content.encode())
