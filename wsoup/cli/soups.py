"""Commands about soups: look at them, compare and export them, and classify photos with one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wsoup.core.errors import MissingError, ParamsError, one_line
from wsoup.disk.files import shown

soup_app = typer.Typer(help="Look at soups, compare and export them.", no_args_is_help=True)

SoupName = Annotated[str, typer.Argument(help="A soup file, or its short name such as word-seed1.")]


@soup_app.command("show")
def soup_show(
    path: SoupName,
    text: Annotated[bool, typer.Option("--text", help="Only the members' bare texts, one a line.")] = False,
) -> None:
    """Print a soup: its members, their accuracies and how each grew.

    Example: wsoup soup show word-seed1
    """
    from rich.console import Console

    from wsoup.soup.show import show
    from wsoup.soup.soup import Soup

    soup = Soup.load(soup_file(path))
    if text:
        print("\n".join(map(shown, soup.texts) if sys.stdout.isatty() else soup.texts))
    else:
        Console(soft_wrap=False).print(show(soup), highlight=False)


@soup_app.command("diff")
def soup_diff(
    first: SoupName,
    second: Annotated[str, typer.Argument(help="Another.")],
) -> None:
    """What differs between two soups: which members are in both, and what each counts.

    Example: wsoup soup diff word-seed1 word-seed2
    """
    from rich.console import Console

    from wsoup.soup.show import differences
    from wsoup.soup.soup import Soup

    Console(soft_wrap=False).print(
        differences(Soup.load(soup_file(first)), Soup.load(soup_file(second))), highlight=False
    )


@soup_app.command("export")
def soup_export(
    path: SoupName,
    form: Annotated[str, typer.Option("--format", help="open_clip, clip_benchmark, text or csv.")],
    classes: Annotated[str | None, typer.Option(help="Names or a file of names: whole texts for each class.")] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="For clip_benchmark: its name of a dataset, several one by one; else any.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="Of another dataset; the soup's own without.")] = None,
    out: Annotated[Path | None, typer.Option(help="A file; printed without.")] = None,
) -> None:
    """A soup for use elsewhere, with template, comma and period: exactly the texts that were measured.

    Example: wsoup soup export word-seed1 --format open_clip > templates.py
    """
    from wsoup.soup.export import ANY_DATASET, export
    from wsoup.soup.soup import Soup

    names = None
    if classes is not None:
        from wsoup.api.photos import class_names

        names = class_names(classes)
    soup = Soup.load(soup_file(path))
    written = export(soup, form=form, class_names=names, datasets=dataset or [ANY_DATASET], template=template)
    if out is None:
        print(written, end="")
    else:
        from wsoup.disk.store import replacing

        with replacing(out) as temporary:
            temporary.write_text(written, encoding="utf-8")


def classify_command(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders of photos, or a CSV with a column path.")],
    soup: Annotated[str, typer.Option(help="A soup file, or its short name such as word-seed1.")],
    classes: Annotated[str, typer.Option(help="Class names such as 'cat,dog', or a text file with one a line.")],
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file; CSV on stdout without.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for pipes.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Classes named for each photo.")] = 3,
    explain: Annotated[bool, typer.Option("--explain", help="Say which members of the soup agree.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a contact sheet: a page of small pictures.")] = None,
    template: Annotated[str | None, typer.Option(help="Prompt template with one {}; the soup's own without.")] = None,
    params: Annotated[Path, typer.Option(help="Where local weights are named, if the soup's are.")] = Path(
        "params.yaml"
    ),
    model: Annotated[str | None, typer.Option(help="An open_clip model; the soup's own without.")] = None,
    pretrained: Annotated[str | None, typer.Option(help="Its tag or weights file; the soup's own without.")] = None,
    config: Annotated[str | None, typer.Option(help="Its local open_clip JSON config.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Photos in one forward pass.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")] = "auto",
) -> None:
    """Name what is in photos, with a soup: the most probable classes of each, as CSV, Parquet or JSON lines.

    The encoder is the soup's own. Photos that cannot be read are listed at the end.

    Example: wsoup classify photos/new --soup word-seed1 --classes "cat,dog" --html sheet.html > found.csv
    """
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ParamsError(f"--out {out} must end with .csv or .parquet")
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise ParamsError(f"--html {html} must end with .html: whatever stands there is replaced by the page")
    for option, written in (("--out", out), ("--html", html)):
        if written is not None and any(
            Path(place).resolve() == written.resolve() for place in (*photos, soup, classes)
        ):
            raise ParamsError(f"{option} {written} is also read, and would be replaced; give another name")
    if as_json and out is not None:
        raise ParamsError("--json writes to stdout: leave --out away, or redirect it into a file")
    from wsoup.api import classify_outputs as outputs
    from wsoup.api import sheet
    from wsoup.api.classify import Classifier
    from wsoup.api.classify_encoder import encoder_of
    from wsoup.api.photos import class_names, find_photos
    from wsoup.soup.soup import Soup

    file = soup_file(soup)
    names, paths, loaded = class_names(classes), find_photos(photos), Soup.load(file)
    given = {"model": model, "pretrained": pretrained, "config": config}
    encoder = encoder_of(loaded, origin=str(file), params=params, given=given, device=device)
    classifier = Classifier(encoder, loaded, names, template=template)
    top = min(top, len(names))
    found: Any = classifier.predictions(paths, top=top, explain=explain, batch_size=batch_size)
    if as_json:
        found = outputs.write_json_lines(found, file=sys.stdout)
    elif out is not None and out.suffix == ".parquet":
        found = outputs.write_parquet(found, top=top, path=str(out))
    elif out is not None:
        found = outputs.write_csv_file(found, top=top, explain=explain, path=str(out))
    else:
        found = outputs.write_csv(found, top=top, explain=explain, file=sys.stdout)
    kept = []
    for prediction in found:
        if html is not None:
            kept.append(prediction)
    if html is not None:
        title = f"{len(names)} classes with {file.parent.name} {file.stem}"
        sheet.write_sheet(html, kept, title=title, bad=classifier.bad)
    for text in classifier.bad.values():
        print(f"not read: {one_line(text)}", file=sys.stderr)
    if classifier.bad:
        print(f"{len(classifier.bad)} of {len(paths)} photos could not be read", file=sys.stderr)


def soup_file(name: str) -> Path:
    """A path as given, or word-seed1 -> artifacts/soups/word/seed1.json."""
    path = Path(name)
    if path.is_file():
        return path
    kind, found, seed = path.stem.rpartition("-seed")
    folder = path.parent if path.parent.name else Path("artifacts/soups")
    if found and (short := folder / kind / f"seed{seed}.json").is_file():
        return short
    raise MissingError(
        f"no soup {name!r}; give a file such as artifacts/soups/word/seed1.json or a name such as word-seed1 "
        "(soups are made by `dvc repro soup@word`)"
    )
