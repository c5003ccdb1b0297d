"""`wsoup soup`: show, compare and export soups; other commands find soups and load classifiers here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wsoup.base import remote
from wsoup.base.errors import MissingError, ParamsError
from wsoup.cli import common
from wsoup.cli.common import Terminal, put
from wsoup.disk.files import check_ending

if TYPE_CHECKING:
    from wsoup.api.classify import Classifier, EncoderOptions
    from wsoup.soup.soup import Soup

soup_app = typer.Typer(help="Show, compare and export soups.", no_args_is_help=True)

WHICH = "a soup file, or a name: word (all seeds together) or word-seed1"
SoupName = Annotated[str, typer.Argument(help=f"{WHICH[0].upper()}{WHICH[1:]}.")]
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


@soup_app.command("diff")
def soup_diff(first: SoupName, second: SoupName) -> None:
    """Compare two soups: which members are in both, and how many images each gets right.

    Example: wsoup soup diff word-seed1 word-seed2
    """
    from wsoup.soup.formats import differences

    Terminal().print(differences(load(first), load(second)))


@soup_app.command("export")
def soup_export(
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="For texts: open_clip, clip_benchmark, text or csv. For a classifier: npz, safetensors or onnx.",
        ),
    ],
    path: OwnSoup = None,
    classes: common.Classes = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="A dataset's name in clip_benchmark; may be repeated (default: any)."),
    ] = None,
    template: common.Template = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write (default: stdout; required for a classifier).")
    ] = None,
    mode: common.Mode = None,
    pixels: Annotated[bool, typer.Option("--pixels", help="Include the image tower in ONNX.")] = False,
    params: common.WeightsIn = Path("params.yaml"),
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    device: common.Device = "auto",
    force: common.Force = False,
) -> None:
    """Export a soup for other software: exactly the texts that were measured, with template, comma and period.

    With --classes, `text` and `csv` hold whole prompts. npz, safetensors and onnx
    hold the classifier of a soup with --classes, or of a head file, with class
    names, scale, preprocessing and provenance.

    Example: wsoup soup export word --format open_clip > templates.py
    """
    from wsoup.api.exported import FORMATS, write
    from wsoup.disk.store import kept_aside, write_bytes

    if form in FORMATS:
        from wsoup.api.classify import EncoderOptions

        if out is None:
            raise ParamsError(f"--format {form} is not text; give --out FILE.{form}")
        check_ending(out, f".{form}", option="--out")
        head = Path(path) if path is not None and path.endswith(".safetensors") else None
        classifier, made_of, _ = load_classifier(
            None if head else path,
            head,
            classes=classes,
            template=template,
            mode=mode,
            params=params,
            options=EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation),
            device=device,
        )
        kept_aside(out, force=force)
        write(out, classifier, form=form, made_of=made_of, pixels=pixels)
        return
    from wsoup.api.photos import class_names
    from wsoup.soup.formats import ANY_DATASET, export

    names = None if classes is None else class_names(classes)
    content = export(load(path), form=form, class_names=names, datasets=dataset or [ANY_DATASET], template=template)
    if out is None:
        put(content)
        return
    kept_aside(out, force=force)
    write_bytes(out, content.encode())


def load(name: str | None) -> Soup:
    """Load a soup by file or name, the run's own by default."""
    return load_soup(soup_file(name or run_soup(Path("params.yaml"))[0]))


def load_soup(file: Path | str) -> Soup:
    """Load a soup file, or all seeds in a folder as one soup."""
    from wsoup.soup.seeds import load_seeds
    from wsoup.soup.soup import Soup

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
    soup: str | None,
    head: Path | None,
    *,
    classes: str | None,
    template: str | None,
    mode: str | None,
    params: Path,
    options: EncoderOptions,
    device: str,
) -> tuple[Classifier, dict[str, Any], str]:
    """The classifier of a soup with classes, or of a head; its provenance as JSON values; and a title."""
    from wsoup.api.classify import Classifier, encoder_of
    from wsoup.api.photos import class_names
    from wsoup.heads.head import Head

    how: Any = {"params": params, "options": options, "device": device}
    if head is not None:
        if (soup, classes, template) != (None, None, None):
            raise ParamsError("--head knows its soup, its classes and its template; leave those options out")
        loaded = Head.load(head)
        encoder = encoder_of(loaded.soup, encoder_id=loaded.encoder, origin=str(head), **how)
        made_of = {"kind": loaded.kind, "template": loaded.template, "soup": loaded.soup.as_json()}
        title = f"{len(loaded.class_names)} classes with {head.name}"
        return Classifier.of_head(loaded, encoder=encoder), made_of, title
    if classes is None:
        raise ParamsError(
            "name the classes, and a soup unless it is the run's own (--classes 'cat,dog' --soup word), or a head "
            "(--head FILE)"
        )
    if soup is None:
        soup, judged = run_soup(params)
        mode = mode or judged
    file, names, mode = soup_file(soup), class_names(classes), mode or "centroid"
    texts = load_soup(file)
    encoder = encoder_of(texts, encoder_id=texts.encoder, origin=str(file), **how)
    classifier = Classifier.of_soup(texts, encoder=encoder, class_names=names, template=template, mode=mode)
    made_of = {"mode": mode, "template": template or texts.template, "soup": texts.as_json()}
    return classifier, made_of, f"{len(names)} classes with {soup}"
