"""Photos given as files, folders or lists, and class names given on the command line or in a file."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wsoup.api.arguments import checked_names
from wsoup.base.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import IMAGE_SUFFIXES
from wsoup.disk.files import read_text, reason_of, shown

PATH_COLUMNS = ("path", "file", "filename", "filepath", "image")
"""Possible columns of paths in a list; the first that exists is used."""
LABEL_COLUMNS = ("label", "class", "class_name", "target")
"""Possible columns of labels in a list; the first that exists is used."""
LARGEST_NAMES = 1 << 24
"""Bytes of a file of class names."""


@dataclass(frozen=True)
class Photo:
    """One photo.

    Attributes:
        path: its file.
        label: name of its class, if known (`labelled`).
        columns: its other cells in the list that named it, by column.
    """

    path: str
    label: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def find_photos(places: Sequence[str]) -> list[Photo]:
    """Image files in the order given, without duplicates; folders are searched recursively, in the order of names.

    Args:
        places: image files, folders, or CSV files with a column of `PATH_COLUMNS`.

    Raises:
        MissingError: a place does not exist.
        DataError: no images at all, or a list without a column of paths.
    """
    photos: dict[str, Photo] = {}
    for place in places:
        if os.path.isdir(place):
            photos_here: Iterable[Photo] = map(Photo, _in_folder(place))
        elif not os.path.lexists(place):
            raise MissingError(
                f"{shown(place)} does not exist; name photos, folders of photos, or a CSV with a column path"
            )
        elif place.lower().endswith((".csv", ".tsv")):
            photos_here = _in_list(Path(place))
        else:
            photos_here = [Photo(place)]
        for photo in photos_here:
            photos.setdefault(photo.path, photo)
    if not photos:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise DataError(f"no images in {', '.join(shown(place) for place in places)}; expected {kinds} files")
    return list(photos.values())


def labelled(photos: Sequence[Photo], *, class_names: Sequence[str]) -> list[Photo]:
    """The photos with their labels, from a column of their list or else from the nearest folder named like a class.

    A label is a class name, with underscores or spaces, or a number in label order; anything else is ignored.
    """
    by_text = {clean_class_name(name): name for name in class_names}
    by_number = {str(number): name for number, name in enumerate(class_names)}

    def label(photo: Photo) -> str | None:
        cell = next((photo.columns[name] for name in LABEL_COLUMNS if name in photo.columns), None)
        if cell is not None:
            return by_text.get(clean_class_name(cell), by_number.get(cell.strip()))
        folders = (clean_class_name(folder.name) for folder in Path(photo.path).parents)
        return next((by_text[folder] for folder in folders if folder in by_text), None)

    return [Photo(photo.path, label(photo), photo.columns) for photo in photos]


def class_names(text: str) -> list[str]:
    """Class names from ``"cat,dog"``, or from a text file with one per line.

    Raises:
        DataError: fewer than two, duplicates, or a file that is not text.
        MissingError: no such file.
    """
    if os.path.isfile(text):
        names = read_text(text, largest=LARGEST_NAMES).splitlines()
    elif text.lower().endswith(".txt"):
        raise MissingError(f"--classes {text} does not exist; expected a file of names, or names such as 'cat,dog'")
    else:
        names = text.split(",")
    names = checked_names([name.strip() for name in names if name.strip()])
    if len(names) < 2:
        raise DataError(f"--classes names {names[0]!r} alone; expected two names or more, such as 'cat,dog', or a file")
    return names


def _in_folder(folder: str) -> Iterator[str]:
    """Images in a folder and its subfolders, except hidden ones."""
    seen: set[str] = set()
    for place, subfolders, names in os.walk(folder, followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if (real := os.path.realpath(place)) in seen:  # a link to a parent folder would never end
            subfolders.clear()
            continue
        seen.add(real)
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES and not name.startswith("."):
                yield os.path.join(place, name)


def _in_list(path: Path) -> list[Photo]:
    """The photos of a CSV or TSV file; relative paths are relative to it, or else to the working folder."""
    file = io.StringIO(read_text(path), newline="")
    try:
        rows = list(csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV ({reason_of(error)}); save it again") from None
    column = next((name for name in PATH_COLUMNS if rows and name in rows[0]), None)
    if column is None:
        has = ", ".join(str(name) for name in rows[0]) if rows else "no rows"
        raise DataError(f"{path} has {has}; expected a column {', '.join(PATH_COLUMNS[:-1])} or {PATH_COLUMNS[-1]}")
    named = [(Path(row.pop(column)), row) for row in rows if row[column]]
    return [
        Photo(
            str(path.parent / file if os.path.exists(path.parent / file) else file),  # never fetched, even if a URL
            columns={name: cell or "" for name, cell in cells.items() if name is not None},
        )
        for file, cells in named
    ]
