"""Which photos are meant, and which classes: files, folders and lists of paths; names on the line or in a file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wsoup.api.arguments import checked_names
from wsoup.core.disk.files import read_text, reason_of, shown
from wsoup.core.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import IMAGE_SUFFIXES

PATH_COLUMNS = ("path", "file", "filename", "filepath", "image")
"""Columns of a list that may hold paths, the first that is there."""
LABEL_COLUMNS = ("label", "class", "class_name", "target")
"""Columns of a list that may hold the right class, the first that is there."""
LARGEST_NAMES = 1 << 24
"""Bytes of a list of class names."""


@dataclass(frozen=True)
class Photo:
    """One photo.

    Attributes:
        path: where it lies.
        label: its class's name, where that is known (`labelled`).
        columns: of the list that named it, all but its path.
    """

    path: str
    label: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def find_photos(places: Sequence[str]) -> list[Photo]:
    """Image files in the order given, each once; folders are searched through, in the order of names.

    Args:
        places: image files, folders, or CSV files with a column `path`.

    Raises:
        MissingError: a place is not there.
        DataError: no images at all, or a list without such a column.
    """
    photos: dict[str, Photo] = {}
    for place in places:
        if os.path.isdir(place):
            more: Iterable[Photo] = map(Photo, _in_folder(place))
        elif not os.path.lexists(place):
            raise MissingError(
                f"{shown(place)} does not exist; name photos, folders of photos, or a CSV with a column path"
            )
        elif place.lower().endswith((".csv", ".tsv")):
            more = _in_list(Path(place))
        else:
            more = [Photo(place)]
        for photo in more:
            photos.setdefault(photo.path, photo)
    if not photos:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise DataError(f"no images in {', '.join(shown(place) for place in places)}; expected {kinds} files")
    return list(photos.values())


def labelled(photos: Sequence[Photo], *, class_names: Sequence[str]) -> list[Photo]:
    """The photos, each with its class where a column of its list says so, or else a folder that it lies in.

    A label is a class name, with underscores or spaces, or a number in label order. What names no class is no label.
    """
    by_text = {clean_class_name(name): name for name in class_names}
    by_number = {str(number): name for number, name in enumerate(class_names)}

    def label(photo: Photo) -> str | None:
        column = next((photo.columns[name] for name in LABEL_COLUMNS if name in photo.columns), None)
        if column is not None:
            return by_text.get(clean_class_name(column), by_number.get(column.strip()))
        folders = [folder.name for folder in Path(photo.path).parents]  # the nearest first
        return next((by_text[text] for text in map(clean_class_name, folders) if text in by_text), None)

    return [Photo(photo.path, label(photo), photo.columns) for photo in photos]


def class_names(text: str) -> list[str]:
    """Class names of ``"cat,dog"``, or of a text file with one a line.

    Raises:
        DataError: fewer than two, one twice, or a file that is no text.
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


def _in_folder(folder: str) -> list[str]:
    """Images below a folder, hidden ones left out."""
    photos: list[str] = []
    seen: set[str] = set()
    for place, inner, names in os.walk(folder, followlinks=True):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if (real := os.path.realpath(place)) in seen:  # a link to a folder that holds it would have no end
            inner.clear()
            continue
        seen.add(real)
        images = [name for name in names if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES]
        photos += [os.path.join(place, name) for name in sorted(images) if not name.startswith(".")]
    return photos


def _in_list(path: Path) -> list[Photo]:
    """The photos of a CSV or TSV file; relative paths are looked for beside it, then in the working folder."""
    file = io.StringIO(read_text(path), newline="")
    try:
        rows = list(csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV ({reason_of(error)}); save it again") from None
    column = next((name for name in PATH_COLUMNS if rows and name in rows[0]), None)
    if column is None:
        has = ", ".join(str(name) for name in rows[0]) if rows else "no rows"
        raise DataError(f"{path} has {has}; expected a column {', '.join(PATH_COLUMNS[:-1])} or {PATH_COLUMNS[-1]}")
    # A list names files here; a URL in it is a file of that odd name, and nothing is fetched.
    named = [(row[column], {name: row[name] or "" for name in row if name not in (None, column)}) for row in rows]
    beside = [(str(path.parent / name), str(Path(name)), columns) for name, columns in named if name]
    return [Photo(near if os.path.exists(near) else given, columns=columns) for near, given, columns in beside]
