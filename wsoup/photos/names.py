"""Class names given on the command line or in a file."""

import os

from wsoup.base.class_names import checked_names
from wsoup.base.errors import DataError
from wsoup.datasets import names_file


def read_class_names(text: str) -> dict[str, str]:
    """Class name by folder, of names as `listed_names` takes them; by the name itself where there is no folder."""
    return dict(_lines(text))


def listed_names(text: str) -> list[str]:
    """Class names in label order, from ``"cat,dog"`` or a text file with one per line, perhaps after a folder's name.

    A tab stands between the two. Two classes may have one name, as ImageNet's two of "missile" do.

    Raises:
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
    folders = checked_names(folders)
    names = checked_names(names)
    if len(names) < 2:
        raise DataError(
            f"--classes names {names[0]!r} alone; expected a text file, or two names or more as in 'cat,dog'"
        )
    name_of: dict[str, str] = {}
    for folder, name in zip(folders, names, strict=True):
        if name_of.setdefault(folder, name) != name:
            raise DataError(f"--classes gives {folder!r} two names, {name_of[folder]!r} and {name!r}; keep one of them")
    return list(zip(folders, names, strict=True))
