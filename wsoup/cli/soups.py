"""Commands about soups: look at them, compare and export them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from wsoup.cli.options import Force
from wsoup.cli.output import Terminal, put
from wsoup.core.errors import MissingError, ParamsError

if TYPE_CHECKING:
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
    text: Annotated[bool, typer.Option("--text", help="Print the members' texts alone, one a line.")] = False,
) -> None:
    """Show a soup: its members, their accuracies, and how each grew.

    Example: wsoup soup show word
    """
    from wsoup.soup.show import show

    soup = _load(path)
    if text:
        put("".join(f"{member}\n" for member in soup.texts))
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
    form: Annotated[str, typer.Option("--format", help="open_clip, clip_benchmark, text or csv.")],
    path: OwnSoup = None,
    classes: Annotated[str | None, typer.Option(help="Class names, or a file of them: write whole prompts.")] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="A dataset's name in clip_benchmark; may be repeated (default: any)."),
    ] = None,
    template: Annotated[str | None, typer.Option(help="Prompt template with one {} (default: the soup's).")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: stdout).")] = None,
    force: Force = False,
) -> None:
    """Write a soup for use elsewhere: exactly the texts that were measured, with template, comma and period.

    Example: wsoup soup export word --format open_clip > templates.py
    """
    from wsoup.api.photos import class_names
    from wsoup.soup.export import ANY_DATASET, export

    names = None if classes is None else class_names(classes)
    written = export(_load(path), form=form, class_names=names, datasets=dataset or [ANY_DATASET], template=template)
    if out is None:
        put(written)
        return
    from wsoup.disk.store import kept_aside, replacing

    kept_aside(out, force=force)
    with replacing(out) as temporary:
        temporary.write_text(written, encoding="utf-8")


def soup_file(name: str) -> Path:
    """A path as given, word-seed1 -> artifacts/soups/word/seed1.json, or word -> the folder artifacts/soups/word."""
    path = Path(name)
    if path.is_file():
        return path
    kind, is_short, seed = path.stem.rpartition("-seed")
    folder = path.parent if path.parent.name else Path("artifacts/soups")
    if is_short and (short := folder / kind / f"seed{seed}.json").is_file():
        return short
    for whole in (path, folder / path.name):
        if any(whole.glob("seed*.json")):
            return whole
    raise MissingError(
        f"no soup {name!r}; give a file such as artifacts/soups/word/seed1.json or a name such as word or word-seed1 "
        "(soups are made by `dvc repro soup@word`)"
    )


def load_soup(file: Path) -> Soup:
    """What `soup_file` found: one seed's soup, or all seeds together."""
    from wsoup.soup.seeds import load_seeds
    from wsoup.soup.soup import Soup

    return load_seeds(file) if file.is_dir() else Soup.load(file)


def run_soup(params: Path) -> tuple[str, str]:
    """The soup that the run is about, and the mode in which it is judged; ParamsError where no params.yaml names it."""
    from wsoup.evaluate.rows import judged_mode
    from wsoup.params.base.section import Sections, load
    from wsoup.params.evaluation import ReportParams

    class Wanted(Sections):
        report: ReportParams

    if not params.is_file():
        raise ParamsError(f"there is no {params} whose report.soup names a soup; name one: {WHICH}")
    report = load(Wanted, params).report
    return report.soup, judged_mode(report.soup, mode=report.mode)


def _load(name: str | None) -> Soup:
    return load_soup(soup_file(name or run_soup(Path("params.yaml"))[0]))


def _print(drawn: RenderableType) -> None:
    Terminal(soft_wrap=False).print(drawn, highlight=False)
