"""Commands about soups: look at them and compare them; `wsoup soup export` is in `wsoup.cli.export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType

from wsoup.core.errors import MissingError
from wsoup.disk import remote
from wsoup.disk.files import shown

if TYPE_CHECKING:
    from wsoup.soup.soup import Soup

soup_app = typer.Typer(help="Show, compare and export soups.", no_args_is_help=True)

SoupName = Annotated[str, typer.Argument(help="A soup file, or a short name such as word-seed1.")]


@soup_app.command("show")
def soup_show(
    path: SoupName,
    text: Annotated[bool, typer.Option("--text", help="Print the members' texts alone, one a line.")] = False,
) -> None:
    """Show a soup: its members, their accuracies, and how each grew.

    Example: wsoup soup show word-seed1
    """
    from wsoup.soup.show import show

    soup = load(path)
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

    _print(differences(load(first), load(second)))


def soup_file(name: str) -> Path | str:
    """A path or a URL as given, or word-seed1 -> artifacts/soups/word/seed1.json."""
    path = Path(name)
    if path.is_file():
        return path
    if remote.is_remote(name):
        return name
    kind, is_short, seed = path.stem.rpartition("-seed")
    folder = path.parent if path.parent.name else Path("artifacts/soups")
    if is_short and (short := folder / kind / f"seed{seed}.json").is_file():
        return short
    raise MissingError(
        f"no soup {name!r}; give a file such as artifacts/soups/word/seed1.json or a name such as word-seed1 "
        "(soups are made by `dvc repro soup@word`)"
    )


def load(name: str) -> Soup:
    """The soup of a file or a short name."""
    from wsoup.soup.soup import Soup

    return Soup.load(soup_file(name))


def _print(drawn: RenderableType) -> None:
    Console(soft_wrap=False).print(drawn, highlight=False)
