"""Photos given as files, folders or lists, their labels, and class names given on the command line or in a file.

Every file of a folder and every row of a list is a photo, in the order given, so that a table of answers can be joined
by position.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from wsoup.api.arguments import checked_names
from wsoup.base.errors import DataError, MissingError, one_line
from wsoup.base.names import key
from wsoup.datasets.folder import read_class_names
from wsoup.datasets.listing import IMAGE_SUFFIXES
from wsoup.disk.files import read_text, reason_of, shown

PATH_COLUMNS = ("path", "file", "filename", "filepath", "image")
"""Possible columns of paths in a list; the first that exists is used."""
LABEL_COLUMNS = ("label", "class", "class_name", "target")
"""Possible columns of labels in a list; the first that exists is used."""
OWN_COLUMNS = {"status", "class", "probability"}
"""A list with these was written by `wsoup classify`: its class is an answer, and a label is in input_class."""
LARGEST_NAMES = 1 << 24
"""Bytes of a file of class names."""
UNKNOWN_KINDS = {".heic", ".heif", ".jxl", ".dng", ".cr2", ".nef", ".arw", ".svg", ".psd"}
"""Endings of images that cannot be decoded; a folder's are counted in a message."""
SHOWN = 5
"""Labels that are listed in a message."""


@dataclass(frozen=True)
class Photo:
    """One photo.

    Attributes:
        path: its file; empty if the row of a list names none.
        label: name of its class, if known (`labelled`).
        columns: its other cells in the list that named it, by column.
    """

    path: str
    label: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def find_photos(places: Sequence[str]) -> list[Photo]:
    """Photos in the order given; folders are searched recursively, in the order of names.

    Args:
        places: image files, folders, or CSV files with a column of `PATH_COLUMNS`.

    Raises:
        MissingError: a place does not exist.
        DataError: no images at all, or a list without a column of paths.
    """
    photos: list[Photo] = []
    for place in places:
        if os.path.isdir(place):
            photos += [Photo(path) for path in files_in(place) if _ending(path) in IMAGE_SUFFIXES]
        elif not os.path.lexists(place):
            raise MissingError(
                f"{shown(place)} does not exist; name photos, folders of photos, or a CSV with a column path"
            )
        else:
            photos += _in_list(Path(place)) if _ending(place) in (".csv", ".tsv") else [Photo(place)]
    if not photos:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise DataError(f"no images in {', '.join(shown(place) for place in places)}; expected {kinds} files")
    return photos


def ignored(places: Sequence[str]) -> str:
    """A line about images in folders whose kind cannot be decoded; empty if there are none."""
    count = Counter(_ending(path) for place in places if os.path.isdir(place) for path in files_in(place))
    kinds = [f"{number} {ending}" for ending, number in sorted(count.items()) if ending in UNKNOWN_KINDS]
    return f"left out, convert them to .jpg: {', '.join(kinds)}" if kinds else ""


def labelled(
    photos: Sequence[Photo], *, class_names: Sequence[str], folders: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Photo], str]:
    """The photos with their labels, from a column of their list or else from the nearest folder named like a class.

    A label is a class name in any spelling that `wsoup.base.names.key` equates, a folder's name of `folders` (folder ->
    class name); in a column also a number in label order.

    Returns:
        The photos, and a line about labels that are no class names; "" if there are none.
    """
    by_number = {str(number): name for number, name in enumerate(class_names)}
    by_text = {key(folder): name for folder, name in folders.items()} | {key(name): name for name in class_names}
    by_text |= {name: name for name in class_names}  # where two names have one key, as they are written

    def class_of(text: str) -> str | None:
        return by_text.get(text, by_text.get(key(text)))

    unknown: Counter[str] = Counter()
    found, outside = [], []
    for photo in photos:
        names = ("label", "input_class", *LABEL_COLUMNS[2:]) if {*photo.columns} >= OWN_COLUMNS else LABEL_COLUMNS
        cell = next((photo.columns[name] for name in names if name in photo.columns), None)
        if cell is not None:
            label = class_of(cell) or by_number.get(cell.strip())
            unknown[cell] += label is None and bool(cell.strip())
        else:
            parents = [folder.name for folder in Path(photo.path).parents if folder.name]
            label = next(filter(None, map(class_of, parents)), None)
            outside += parents[:1] if label is None else []
        found.append(replace(photo, label=label))
    if any(photo.label is not None for photo in found):  # else the folders are just folders
        unknown.update(outside)
    if not (total := unknown.total()):
        return found, ""
    listed = ", ".join(f"{one_line(name, limit=60)!r} ({count})" for name, count in unknown.most_common(SHOWN) if count)
    return found, f"{total} of {len(photos)} photos have a label that is no class name, and are not counted: {listed}"


def class_names(text: str) -> dict[str, str]:
    """Class names from ``"cat,dog"``, or from a text file with one per line, perhaps after a folder's name and a tab.

    Returns:
        Class name by folder, in label order; the name itself where there is no folder.

    Raises:
        DataError: fewer than two, duplicates, or a file that is not text.
        MissingError: no such file.
    """
    folders: list[str] = []
    if os.path.isfile(text):
        names = read_text(text, largest=LARGEST_NAMES).splitlines()
        if any("\t" in line for line in names):
            by_folder = read_class_names(Path(text))
            folders, names = [*by_folder], [*by_folder.values()]
    elif text.lower().endswith(".txt"):
        raise MissingError(f"--classes {text} does not exist; expected a file of names, or names such as 'cat,dog'")
    else:
        names = text.split(",")
    names = checked_names([name.strip() for name in names if name.strip()])
    if len(names) < 2:
        raise DataError(f"--classes names {names[0]!r} alone; expected two names or more, such as 'cat,dog', or a file")
    return dict(zip(folders or names, names, strict=True))


def files_in(folder: str) -> Iterator[str]:
    """Files in a folder and its subfolders, except hidden ones."""
    seen: set[str] = set()
    for place, subfolders, names in os.walk(folder, followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if (real := os.path.realpath(place)) in seen:  # a link to a parent folder would never end
            subfolders.clear()
            continue
        seen.add(real)
        yield from (os.path.join(place, name) for name in sorted(names) if not name.startswith("."))


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _in_list(path: Path) -> list[Photo]:
    """The photos of a CSV or TSV file; relative paths are relative to it, or else to the working folder."""
    file = io.StringIO(read_text(path), newline="")
    try:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV ({reason_of(error)}); save it again") from None
    header, *rows = [row for row in rows if row] or [[]]
    column = next((name for name in PATH_COLUMNS if name in header), None)
    if column is None or not rows:
        has = ", ".join(header) if rows else "no rows"
        raise DataError(f"{path} has {has}; expected a column {', '.join(PATH_COLUMNS[:-1])} or {PATH_COLUMNS[-1]}")
    if len({*header}) < len(header) or any(len(row) > len(header) for row in rows):
        raise DataError(f"{path} has two columns of one name, or a row longer than its header; correct the list")
    photos = []
    for row in rows:
        cells = dict(zip(header, [*row, *[""] * (len(header) - len(row))], strict=True))
        name = cells.pop(column)
        beside = path.parent / name
        photos.append(
            Photo(str(beside) if name and os.path.exists(beside) else name, columns=cells)
        )  # a URL is never fetched
    return photos
