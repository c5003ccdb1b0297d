"""Class names given on the command line or in a file."""

import os

from wsoup.base.class_names import checked_names
from wsoup.base.errors import DataError
from wsoup.datasets import names_file


def read_class_names(text: str) -> dict[str, str]:
    """Class names from ``"cat,dog"``, or from a text file (`wsoup.datasets.names_file`).

    Returns:
        Class name by folder, in label order; by the name itself where there is no folder.

    Raises:
        DataError: fewer than two, duplicates, or a file that is not text.
    """
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
    return dict(zip(folders, names, strict=True))
