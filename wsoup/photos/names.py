"""Class names given on the command line or in a file."""

import os
from collections.abc import Sequence
from pathlib import Path

from wsoup.base.class_names import checked_names, positions_by_name
from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import names_file

TEXT_FILES = (".txt", ".tsv", ".csv")
"""Endings of what was meant as a file."""


def read_class_names(text: str) -> dict[str, str]:
    """Class name by folder, of names as `listed_names` takes them; by the name itself where there is no folder."""
    return dict(_lines(text))


def listed_names(text: str) -> list[str]:
    """Class names in label order, from ``"cat,dog"`` or a text file with one per line, perhaps after a folder's name.

    A tab stands between the two. Two classes may have one name, as ImageNet's two of "missile" do.

    Raises:
        MissingError: a file that does not exist.
        DataError: fewer than two, a folder with two names, or a file that is not text.
    """
    return [name for _, name in _lines(text)]


def _lines(text: str) -> list[tuple[str, str]]:
    """Folder and class name of each class; raises as `listed_names`."""
    if os.path.isfile(text):
        named = names_file.read_names(text)
        folders = [each.key for each in named]
        names = [each.name for each in named]
    else:
        names = [part.strip() for part in text.split(",") if part.strip()]
        folders = names
        _check_typed(names)
    folders = checked_names(folders)
    names = checked_names(names)
    if len(names) < 2:
        if Path(text).suffix in TEXT_FILES and not os.path.exists(text):
            raise MissingError(f"--classes: {text} does not exist; expected {names_file.EXPECTED}, or names: 'cat,dog'")
        raise DataError(
            f"--classes names {names[0]!r} alone; expected a text file, or two names or more as in 'cat,dog'"
        )
    return list(zip(folders, names, strict=True))


def _check_typed(names: Sequence[str]) -> None:
    """Refuse a name that was typed twice, which is a slip; a file may mean it."""
    for name, places in positions_by_name(names).items():
        if len(places) > 1:
            raise DataError(
                f"--classes holds {name!r} {len(places)} times, as classes {places[0]} and {places[1]}; leave one out, "
                "or write the names into a file, where two classes may share one"
            )
