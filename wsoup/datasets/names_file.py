"""A file of class names: one a line, in label order; a tab separates a folder's name, or a label, from its class name.

It means the same wherever it is given: `--classes` of every command, and `class_names` in params.yaml. A space
separates nothing, since names have spaces: ``red fox`` is a class. Only CoOp's own ``classnames.txt``, in a folder's
root, has a space there (`wsoup.datasets.walk`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import DataError, MissingError
from wsoup.base.folder_names import composed
from wsoup.disk.files import read_text, shown

EXPECTED = "one class name per line, perhaps after a folder's name and a tab"


class NamedClass(NamedTuple):
    """A line of the file.

    Attributes:
        key: the folder's name or the label before the tab; the class name itself where there is no tab.
        name: the class name, as it is written.
        line: its number, from 1.
    """

    key: str
    name: str
    line: int


def read_names(path: str | Path) -> list[NamedClass]:
    """The classes of a file in label order; empty lines count for nothing.

    Raises:
        MissingError: no such file.
        DataError: no class at all, a line with nothing before or after its tab, or two lines for one folder.
    """
    file = shown(str(path))
    if not Path(path).is_file():
        raise MissingError(f"{file} does not exist; expected a text file with {EXPECTED}")
    classes: list[NamedClass] = []
    line_of: dict[str, int] = {}
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        folder, tab, name = text.partition("\t")
        folder = folder.strip()
        name = name.strip()
        if tab and not (folder and name):
            raise DataError(f"{file}, line {number}: {text!r} should be: folder, a tab, class name")
        # Equal names are two classes, as ImageNet's "missile"; two lines for one folder are a contradiction.
        if tab and line_of.setdefault(folder, number) != number:
            raise DataError(f"{file}, lines {line_of[folder]} and {number}: folder {folder!r} is named twice; keep one")
        classes.append(NamedClass(folder, name or folder, number))
    if not classes:
        raise DataError(f"{file} has no class names; expected {EXPECTED}")
    return classes


def of_folders(path: str | Path, *, folders: Sequence[str]) -> list[str]:
    """The class name of each folder, in the order of `folders`.

    Raises:
        MissingError, DataError: as `read_names`; a folder without a line, or with several.
    """
    classes = read_names(path)
    by_folder: dict[str, list[NamedClass]] = {}
    for each in classes:
        by_folder.setdefault(composed(each.key), []).append(each)
    names = []
    for folder in folders:
        lines = by_folder.get(composed(folder), [])
        if not lines:
            raise _no_line(path, folder=folder, classes=classes)
        if len(lines) > 1:
            numbers = " and ".join(str(each.line) for each in lines)
            raise DataError(f"{shown(str(path))}: lines {numbers} both name folder {folder!r}; keep one of them")
        names.append(lines[0].name)
    return names


def _no_line(path: str | Path, *, folder: str, classes: Sequence[NamedClass]) -> DataError:
    """The error for a folder that no line names."""
    message = f"{shown(str(path))} has no line for folder {folder!r}; add one: folder, a tab, class name"
    for each in classes:
        if each.key.startswith(f"{folder} "):
            message += f" (line {each.line}, {each.key!r}, has a space, which is part of the name)"
            break
    return DataError(message)
