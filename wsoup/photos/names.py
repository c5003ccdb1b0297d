"""Class names given on the command line or in a file."""

import os

from wsoup.base.class_names import checked_names
from wsoup.base.errors import DataError
from wsoup.disk.files import read_text


def read_class_names(text: str) -> dict[str, str]:
    """Class names from ``"cat,dog"``, or from a text file with one per line, perhaps after a folder's name and a tab.

    Returns:
        Class name by folder, in label order; by the name itself where there is no folder.

    Raises:
        DataError: fewer than two, duplicates, or a file that is not text.
    """
    lines = text.split(",")
    if os.path.isfile(text):
        lines = read_text(text).splitlines()
    folders = []
    names = []
    for line in lines:
        if line.strip():
            folder, _, name = line.strip().partition("\t")
            folders.append(folder)
            names.append((name or folder).strip())
    folders = checked_names(folders)
    names = checked_names(names)
    if len(names) < 2:
        raise DataError(
            f"--classes names {names[0]!r} alone; expected a text file, or two names or more as in 'cat,dog'"
        )
    return dict(zip(folders, names, strict=True))
