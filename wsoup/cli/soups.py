"""Commands about soups: look at them, compare and export them, and classify photos with one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from wsoup.cli.console import console
from wsoup.cli.options import Device
from wsoup.core.errors import MissingError, one_line
from wsoup.disk.files import shown

if TYPE_CHECKING:
    from wsoup.soup.soup import Soup

soup_app = typer.Typer(help="Show, compare and export soups.", no_args_is_help=True)

SoupName = Annotated[str, typer.Argument(help="A soup file, or a short name such as word-seed1.")]
Classes = Annotated[str, typer.Option(help="Class names such as 'cat,dog', or a text file with one a line.")]


@soup_app.command("show")
def soup_show(
    path: SoupName,
    text: Annotated[bool, typer.Option("--text", help="Print the members' texts alone, one a line.")] = False,
) -> None:
    """Show a soup: its members, their accuracies, and how each grew.

    Example: wsoup soup show word-seed1
    """
    from wsoup.soup.show import show

    soup = _load(path)
    if text:
        print("\n".join(map(shown, soup.texts) if sys.stdout.isatty() else soup.texts))
    else:
        _print(show(soup))


@soup_app.command("diff")
def soup_diff(first: SoupName, second: SoupName) -> None:
    """Compare two soups: which members are in both, and how many images each gets right.

    Example: wsoup soup diff word-seed1 word-seed2
    """
    from wsoup.soup.show import differences

    _print(differences(_load(first), _load(second)))


@soup_app.command("export")
def soup_export(
    path: SoupName,
    form: Annotated[str, typer.Option("--format", help="open_clip, clip_benchmark, text or csv.")],
    classes: Annotated[str | None, typer.Option(help="Class names, or a file of them: write whole prompts.")] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="A dataset's name in clip_benchmark; may be repeated (default: any)."),
    ] = None,
    template: Annotated[str | None, typer.Option(help="Prompt template with one {} (default: the soup's).")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: stdout).")] = None,
) -> None:
    """Write a soup for use elsewhere: exactly the texts that were measured, with template, comma and period.

    Example: wsoup soup export word-seed1 --format open_clip > templates.py
    """
    from wsoup.api.photos import class_names
    from wsoup.soup.export import ANY_DATASET, export

    names = None if classes is None else class_names(classes)
    written = export(_load(path), form=form, class_names=names, datasets=dataset or [ANY_DATASET], template=template)
    if out is None:
        print(written, end="")
        return
    from wsoup.disk.store import replacing

    with replacing(out) as temporary:
        temporary.write_text(written, encoding="utf-8")


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or a CSV with a column path.")],
    soup: Annotated[str, typer.Option(help="A soup file, or a short name such as word-seed1.")],
    classes: Classes,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file (default: CSV on stdout).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many classes to name for each photo.")] = 3,
    explain: Annotated[bool, typer.Option("--explain", help="Also say which members of the soup agree.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a contact sheet, a page of small pictures.")] = None,
    template: Annotated[str | None, typer.Option(help="Prompt template with one {} (default: the soup's).")] = None,
    params: Annotated[Path, typer.Option(help="The params file that says where local weights are.")] = Path(
        "params.yaml"
    ),
    model: Annotated[str | None, typer.Option(help="An open_clip model (default: the soup's).")] = None,
    pretrained: Annotated[str | None, typer.Option(help="Its tag or weights file (default: the soup's).")] = None,
    config: Annotated[str | None, typer.Option(help="Its open_clip JSON config, for a local model.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Photos in one forward pass.")] = 64,
    device: Device = "auto",
) -> None:
    """Classify photos with a soup: the most probable classes of each, as CSV, Parquet or JSON.

    Photos that cannot be read are listed at the end.

    Example: wsoup classify photos/new --soup word-seed1 --classes "cat,dog" --html sheet.html > predictions.csv
    """
    from wsoup.api.classify import Classifier
    from wsoup.api.classify_encoder import encoder_of
    from wsoup.api.classify_outputs import Outputs
    from wsoup.api.photos import class_names, find_photos
    from wsoup.api.sheet import write_sheet

    outputs = Outputs(out, as_json=as_json, sheet=html)
    outputs.check_apart([*photos, soup, classes])
    file, names, paths = soup_file(soup), class_names(classes), find_photos(photos)
    loaded = _load(soup)
    given = {"model": model, "pretrained": pretrained, "config": config}
    encoder = encoder_of(loaded, origin=str(file), params=params, given=given, device=device)
    classifier, top = Classifier(encoder, loaded, names, template=template), min(top, len(names))
    pictures = []
    with outputs.writing(top=top, explain=explain) as write:
        for prediction in classifier.predictions(paths, top=top, explain=explain, batch_size=batch_size):
            write(prediction)
            if html is not None:
                pictures.append(prediction)
    if html is not None:
        title = f"{len(names)} classes with {file.parent.name} {file.stem}"
        write_sheet(html, pictures, title=title, bad=classifier.bad)
    for problem in classifier.bad.values():
        print(f"not read: {one_line(problem)}", file=sys.stderr)
    if classifier.bad:
        print(f"{len(classifier.bad)} of {len(paths)} photos could not be read", file=sys.stderr)


def soup_file(name: str) -> Path:
    """A path as given, or word-seed1 -> artifacts/soups/word/seed1.json."""
    path = Path(name)
    if path.is_file():
        return path
    kind, is_short, seed = path.stem.rpartition("-seed")
    folder = path.parent if path.parent.name else Path("artifacts/soups")
    if is_short and (short := folder / kind / f"seed{seed}.json").is_file():
        return short
    raise MissingError(
        f"no soup {name!r}; give a file such as artifacts/soups/word/seed1.json or a name such as word-seed1 "
        "(soups are made by `dvc repro soup@word`)"
    )


def _load(name: str) -> Soup:
    from wsoup.soup.soup import Soup

    return Soup.load(soup_file(name))


def _print(drawn: RenderableType) -> None:
    console().print(drawn, highlight=False)
