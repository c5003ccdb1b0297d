"""What several commands share: options, output that is safe for a terminal whatever a file contains, files to write.

One rule for what a command writes: no file is replaced, unless with ``--force``, and no input ever.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from wsoup.base.errors import MissingError, ParamsError
from wsoup.disk.files import shown

UNCUT = 100_000
"""Width in columns of a file or a pipe, where rich would cut tables at 80."""

WHICH = "A soup file, or a name: word (all seeds together), word-seed1, or the paper's own, paper:word"
ParamsFile = Annotated[Path, typer.Option("--params", help="The params file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Classes = Annotated[
    str | None,
    typer.Option(help="Class names such as 'cat,dog', or a text file with one per line (or folder, tab, name)."),
]
Names = Annotated[
    str | None,
    typer.Option("--classes", help="A text file of class names: folder, a tab, name (default: by the folders' names)."),
]
Template = Annotated[str | None, typer.Option(help="Prompt template with one {} (default: the soup's).")]


def require_pipeline_folder() -> None:
    """Say the same cure whatever the command, where there is neither params.yaml nor dvc.yaml.

    Raises:
        MissingError: this is not a pipeline folder.
    """
    if not Path("params.yaml").is_file() and not Path("dvc.yaml").is_file():
        raise MissingError(
            f"{Path.cwd()} is not a pipeline folder: it has neither params.yaml nor dvc.yaml; run `wsoup init FOLDER`, "
            "which makes one, or go to yours"
        )


def _three(text: str) -> tuple[float, ...]:
    try:
        red, green, blue = (float(number) for number in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not three numbers, such as .5,.5,.5") from None
    return red, green, blue


# The encoder: an option that is not given is that of the soup or the head, or as the command's help says.
WeightsIn = Annotated[
    Path | None,
    typer.Option(
        "--params", help="A params.yaml or encoder.yaml that says how the encoder is loaded (default: params.yaml)."
    ),
]
Model = Annotated[
    str | None, typer.Option(help="An open_clip model; `try` and `classify` also take hf:NAME of transformers.")
]
Pretrained = Annotated[str | None, typer.Option(help="Tag of its weights in open_clip, or a weights file.")]
Config = Annotated[str | None, typer.Option(help="An open_clip JSON config, for a local model.")]
ImageMean = Annotated[
    Any, typer.Option(parser=_three, metavar="R,G,B", help="Mean of each channel, such as .5,.5,.5, for a local model.")
]
ImageStd = Annotated[
    Any, typer.Option(parser=_three, metavar="R,G,B", help="Standard deviation of each channel, for a local model.")
]
Interpolation = Annotated[str | None, typer.Option(help="bicubic or bilinear, for a local model.")]


class Terminal(Console):
    """rich's console, which shows escape sequences of texts instead of sending them to the terminal.

    In a file or a pipe, tables are as wide as their content.
    """

    def __init__(self, **options: Any) -> None:
        width = None if sys.stdout.isatty() else UNCUT
        # Highlighting would colour numbers inside class names.
        defaults = {"width": width, "highlight": False}
        super().__init__(**{**defaults, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """As `Console.render_str`, so that the shown text is measured."""
        return super().render_str(visible(text), **options)

    def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
        """As `Console.render`, which everything printed passes through."""
        for text, style, control in super().render(*args, **options):
            if not control:  # rich's own codes stay, a text's are shown
                text = visible(text)
            yield Segment(text, style, control)

    def plain(self, text: str) -> None:
        """Print a text without markup, on one line."""
        self.print(text, markup=False, soft_wrap=True)


def visible(text: str) -> str:
    r"""A text with its control characters escaped, except line breaks.

    >>> visible("a\x1b]0;title\x07\nb")
    'a\\x1b]0;title\\x07\nb'
    """
    return "\n".join(map(shown, text.split("\n")))


def say(lines: Iterable[str]) -> None:
    """Print lines that are not empty to stderr."""
    for line in lines:
        if line:
            print(line, file=sys.stderr)


def put(text: str) -> None:
    """Print a text unchanged, or `visible` on a terminal."""
    if sys.stdout.isatty():
        text = visible(text)
    print(text, end="")


# ----------------------------------------------------------------------------------------------------- files to write


def claim(
    outputs: Iterable[tuple[str, str | Path | None]], *, inputs: Iterable[str | Path | None] = (), force: bool
) -> None:
    """Check all outputs of a command before any work.

    Args:
        outputs: (option, file); a file that is None is not written.
        inputs: files that are read.
        force: whether existing files may be replaced.

    Raises:
        ParamsError: an output exists and `force` is False, or is also an input; names the option.
    """
    # Real paths, so that a link to an input is found out, too.
    read = {os.path.realpath(file) for file in inputs if file is not None and os.path.exists(file)}
    for option, file in outputs:
        if file is None:
            continue
        if os.path.realpath(file) in read:
            raise ParamsError(f"{option} {file} is also an input; give another name")
        may_replace = force and not os.path.isdir(file)
        if os.path.lexists(file) and not may_replace:
            raise ParamsError(f"{option} {file} exists already; give another name, or --force to replace a file")


def check_ending(file: Path, *endings: str, option: str) -> None:
    """Raise ParamsError if an option names a file of another kind, which would be overwritten."""
    if file.suffix.lower() not in endings:
        raise ParamsError(f"{option} {file} must end in {' or '.join(endings)}: a file of that name is overwritten")
