"""`wsoup soup`: show and export soups; other commands find soups and load classifiers here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wsoup.base import remote
from wsoup.base.errors import MissingError, ParamsError
from wsoup.base.outputs import claim
from wsoup.cli import common
from wsoup.cli.common import Terminal, put
from wsoup.disk.files import check_ending

if TYPE_CHECKING:
    from wsoup.api.classify import Classifier
    from wsoup.api.encoders import EncoderOptions
    from wsoup.soup.soup import Soup
    from wsoup.towers.encoder import Encoder

soup_app = typer.Typer(help="Show and export soups.", no_args_is_help=True)

WHICH = "a soup file, or a name: word (all seeds together) or word-seed1"
OwnSoup = Annotated[
    str | None, typer.Argument(help=f"{WHICH[0].upper()}{WHICH[1:]} (default: report.soup of params.yaml).")
]


@soup_app.command("show")
def soup_show(
    path: OwnSoup = None,
    text: Annotated[bool, typer.Option("--text", help="Print the members' texts alone, one per line.")] = False,
) -> None:
    """Show a soup: its members, their accuracies, and how each grew.

    Example: wsoup soup show word
    """
    from wsoup.soup.formats import show

    soup = load(path)
    if text:
        put("".join(f"{member}\n" for member in soup.texts))
    else:
        Terminal().print(show(soup))


@soup_app.command("export")
def soup_export(
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="For texts: open_clip, clip_benchmark, text or csv. For a classifier: npz or onnx.",
        ),
    ],
    path: OwnSoup = None,
    classes: common.Classes = None,
    template: common.Template = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write (default: stdout; required for a classifier).")
    ] = None,
    pixels: Annotated[bool, typer.Option("--pixels", help="Include the image tower in ONNX.")] = False,
    params: common.WeightsIn = Path("params.yaml"),
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    force: common.Force = False,
) -> None:
    """Export a soup for other software: exactly the texts that were measured, with template, comma and period.

    With --classes, `text` and `csv` hold whole prompts. npz and onnx hold the
    classifier of a soup with --classes, or of a head file, with class names,
    scale, preprocessing and provenance.

    Example: wsoup soup export word --format open_clip > templates.py
    """
    from wsoup.api.exported import FORMATS, write
    from wsoup.soup.formats import FORMATS as TEXTS
    from wsoup.soup.formats import export

    if form not in (*TEXTS, *FORMATS):
        raise ParamsError(f"--format {form!r} must be one of {', '.join((*TEXTS, *FORMATS))}")
    claim([("--out", out)], inputs=[path, classes], force=force)
    if form in FORMATS:
        from wsoup.api.encoders import EncoderOptions

        if out is None:
            raise ParamsError(f"--format {form} is not text; give --out FILE.{form}")
        check_ending(out, f".{form}", option="--out")
        if pixels and form != "onnx":
            raise ParamsError(f"--pixels is for --format onnx, not {form}")
        options = EncoderOptions(model, pretrained, config)
        classifier, encoder = load_classifier(
            path, classes=classes, template=template, params=params, options=options, device="auto"
        )
        write(out, classifier, form=form, tower=encoder() if pixels else None)
        return
    from wsoup.api.photos import class_names
    from wsoup.disk.store import write_bytes

    names = None if classes is None else [*class_names(classes).values()]
    content = export(load(path), form=form, class_names=names, template=template)
    if out is None:
        put(content)
    else:
        write_bytes(out, content.encode())


def load(name: str | None) -> Soup:
    """Load a soup by file or name, the run's own by default."""
    return load_soup(soup_file(name or run_soup(Path("params.yaml"))[0]))


def load_soup(file: Path | str) -> Soup:
    """Load a soup file, or all seeds in a folder as one soup."""
    from wsoup.soup.soup import Soup, load_seeds

    return load_seeds(file) if Path(file).is_dir() else Soup.load(file)


def soup_file(name: str) -> Path | str:
    """A path or URL as is; word-seed1 -> artifacts/soups/word/seed1.json; word -> folder artifacts/soups/word."""
    path = Path(name)
    if path.is_file():
        return path
    if remote.is_remote(name):
        return name
    soup, is_short, seed = path.stem.rpartition("-seed")
    folder = path.parent if path.parent.name else Path("artifacts/soups")
    if is_short and (file := folder / soup / f"seed{seed}.json").is_file():
        return file
    for seeds in (path, folder / path.name):
        if any(seeds.glob("seed*.json")):
            return seeds
    raise MissingError(
        f"no soup {name!r}; give a file such as artifacts/soups/word/seed1.json or a name such as word or word-seed1 "
        "(soups are made by `dvc repro soup@word`)"
    )


def run_soup(params: Path) -> tuple[str, str]:
    """Name of the run's own soup, and the mode it is judged in; ParamsError if there is no params.yaml."""
    from wsoup.evaluate.params import ReportParams
    from wsoup.evaluate.rows import judged_mode
    from wsoup.params import section

    class Wanted(section.Sections):
        report: ReportParams

    if not params.is_file():
        raise ParamsError(f"there is no {params} whose report.soup names a soup; name one: {WHICH}")
    report = section.load(Wanted, params).report
    return report.soup, judged_mode(report.soup, mode=report.mode)


def load_classifier(
    name: str | None,
    *,
    classes: str | None,
    template: str | None,
    params: Path,
    options: EncoderOptions,
    device: str,
    adapt: bool = False,
) -> tuple[Classifier, Callable[[], Encoder]]:
    """The classifier of a soup with classes, or of a head, and how to get its encoder; a head's is only then loaded.

    Whatever can be wrong with the other arguments is said before an encoder is loaded.
    """
    from wsoup.api.classify import BUILT_IN, Classifier, built_in_texts
    from wsoup.api.encoders import encoder_of
    from wsoup.api.photos import class_names
    from wsoup.core.prompts import checked
    from wsoup.heads.head import Head

    encoder_for = partial(encoder_of, params=params, options=options, device=device)
    if name is not None and Path(name).suffix == ".safetensors":
        if (classes, template, adapt) != (None, None, False):
            raise ParamsError("a head knows its classes and its template, and is not adapted; leave those options out")
        head = Head.load(name)
        return Classifier.of_head(head), partial(encoder_for, head.soup, encoder_id=head.encoder, origin=name)
    if classes is None:
        raise ParamsError(
            "name the classes, and a soup unless it is the run's own (--classes 'cat,dog' --soup word), or a head "
            "(--soup head.safetensors)"
        )
    names, mode = [*class_names(classes).values()], "centroid"
    template = None if template is None else checked(template)
    if name in BUILT_IN:
        encoder = options.of_params(params, device=device)
        template = template or "a photo of a {}."
        weights = built_in_texts(name, class_names=names, template=template, encoder=encoder)
        classifier = Classifier.of_texts(weights, class_names=names, encoder=encoder, template=template, texts=name)
        return classifier, lambda: encoder
    if name is None:
        name, mode = run_soup(params)
    file = soup_file(name)
    soup = load_soup(file)
    encoder = encoder_for(soup, encoder_id=soup.encoder, origin=str(file))
    return Classifier.of_soup(soup, encoder=encoder, class_names=names, template=template, mode=mode), lambda: encoder
