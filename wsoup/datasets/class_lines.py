"""Text files with a line for each class, as CoOp's layouts and WebDataset have them."""

from collections.abc import Sequence
from pathlib import Path

from wsoup.base.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import some
from wsoup.disk.files import read_text


def read_class_names(path: Path) -> dict[str, str]:
    """Class name by folder, from lines of ``folder name``, in file order.

    Raises:
        MissingError: no such file.
        DataError: a line without a name, or a folder that appears twice.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; expected one line per class: folder, a space, class name")
    names: dict[str, str] = {}
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        line = text.strip()
        if not line:
            continue
        # Where a tab separates the two, the folder's own name may have spaces.
        separator = "\t" if "\t" in line else " "
        folder, _, name = line.partition(separator)
        if not name.strip():
            raise DataError(f"{path}, line {number}: {line!r} should be: folder, a space, class name")
        if folder in names:
            raise DataError(f"{path}, line {number}: folder {folder!r} is named twice; keep one line")
        names[folder] = name.strip()
    return names


def names_of(folders: Sequence[str], *, renamed: dict[str, str], origin: str) -> list[str]:
    """Cleaned class names of folders, in their order; DataError where one has none."""
    unnamed = [folder for folder in folders if folder not in renamed]
    if unnamed:
        raise DataError(f"{origin} has no line for folder {some(unnamed)}; add one: folder, a space, class name")
    return [clean_class_name(renamed[folder]) for folder in folders]


def stripped_lines(path: Path, *, hint: str) -> list[str]:
    """The lines of a text file, stripped, without empty ones; MissingError with a hint if there is no such file."""
    if not path.is_file():
        raise MissingError(f"{path} does not exist; {hint}")
    return [line.strip() for line in read_text(path).split("\n") if line.strip()]
