"""The command line: each command is a thin call on the library. Results on stdout, errors in one line on stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wsoup import store
from wsoup.errors import MissingError, WsoupError

app = typer.Typer(
    help="Descriptor soups and word soups for CLIP-style models. The pipeline itself runs with `dvc repro`.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
soup_app = typer.Typer(help="Look at soups.", no_args_is_help=True)
app.add_typer(soup_app, name="soup")


def main() -> None:
    """Entry point: exit code 0 good, 1 a WsoupError, 2 a usage error."""
    try:
        app()
    except WsoupError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


@soup_app.command("show")
def soup_show(
    path: Annotated[str, typer.Argument(help="A soup file, or its short name such as word-seed1.")],
    text: Annotated[bool, typer.Option("--text", help="Only the members, one a line, to paste elsewhere.")] = False,
) -> None:
    """Print a soup: its members, their accuracies and how each grew.

    Example: wsoup soup show artifacts/soups/word/seed1.json
    """
    soup = store.read_soup(_soup_file(path))
    if text:
        for member in soup["members"]:
            print(member["text"])
        return
    encoder = soup["encoder"]
    console = Console(soft_wrap=False)
    console.print(
        f"{soup['kind']} soup, seed {soup['seed']}, {len(soup['members'])} members, "
        f"encoder {encoder['model']}/{encoder['pretrained']}, template {soup['template']!r}",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("member", overflow="fold")
    table.add_column("right", justify="right")
    table.add_column("source accuracy", justify="right")
    table.add_column("grew: right after each word or descriptor", overflow="fold")
    for number, member in enumerate(soup["members"], start=1):
        n_correct, n_images = member.get("n_correct"), member.get("n_images")
        grew = " → ".join(f"{step['added']} {step['n_correct']}" for step in member["trace"])
        accuracy = f"{100 * n_correct / n_images:.2f} %" if n_images else ""
        table.add_row(str(number), member["text"] or "(class name only)", str(n_correct or ""), accuracy, grew)
    console.print(table, highlight=False)


def _soup_file(name: str) -> Path:
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
        "(soups are made by `dvc repro word_soup`)"
    )


if __name__ == "__main__":
    main()
