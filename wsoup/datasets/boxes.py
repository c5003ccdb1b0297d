"""Data for object detection: boxes of objects, of which several lie in a photo, and no class of the photo itself.

A photo whose boxes are all of one class is of that class; any other is refused with its boxes' classes.
"""

import dataclasses
import os
import re
from pathlib import Path
from typing import NamedTuple

from wsoup.base.number_of import number_of
from wsoup.datasets.cells import Cells, SeveralClasses, folded
from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import ending
from wsoup.datasets.walk import first_files_in
from wsoup.disk.files import shown

CORNERS = ({"xmin", "ymin"}, {"x_min", "y_min"}, {"x1", "y1"}, {"bbox"}, {"bbox_x", "bbox_y"}, {"left", "top"})
"""Columns, folded, of which a list of boxes has all of one set."""
HEAD = 1 << 16
OF_YOLO = re.compile(rb"\d+(\s+(0?\.\d+|[01](\.0*)?|\d\.\d+e-\d+)){4,}\s*", re.IGNORECASE)
"""A line of a class's number and shares of the picture's width and height."""
SIGNS = (
    (".xml", re.compile(rb"<annotation.*<(object|bndbox)\b", re.DOTALL), "Pascal VOC's form"),
    (".txt", re.compile(rb"\A" + OF_YOLO.pattern + rb"(\n|\Z)", re.IGNORECASE), "YOLO's form"),
    (".json", re.compile(rb'"bbox"\s*:\s*\['), "COCO's form"),
    (".json", re.compile(rb'"shapes"\s*:\s*\['), "LabelMe's form"),
    (".json", re.compile(rb'"region_attributes"\s*:'), "VIA's form"),
    (".csv", re.compile(rb"\A[^\n]*x_?min[^\n]*", re.IGNORECASE), "a list"),
)
"""What the beginnings of files of boxes look like, by their ending."""
CROP = "crop the boxes into a folder for each class"
READ = ("COCO's form", "a list")
"""Forms that are read, if each photo is of one class."""


def one_row_each(cells: Cells, *, may_be_several: bool, keep_rows: bool) -> Cells:
    """A list with a row for each box as one with a row for each photo; any other list as it is.

    Args:
        cells: the list.
        may_be_several: whether a photo may have boxes of several classes, and is of ``cat|dog`` then.
        keep_rows: whether all rows stay, each with the class of its photo.

    Raises:
        SeveralClasses: a photo with boxes of several classes.
    """
    names = {folded(name) for name in cells.columns}
    column = cells.roles.label or cells.roles.class_name
    if column is None or cells.roles.path is None or not any(corners <= names for corners in CORNERS):
        return cells
    classes_of: dict[str, set[str]] = {}
    for path, text in zip(cells.paths, cells.columns[column], strict=True):
        classes_of.setdefault(path, set()).add(text)
    several = [path for path, classes in classes_of.items() if len(classes) > 1]
    if several and not may_be_several:
        raise SeveralClasses(
            f"{cells.origin}: {len(several):,} of {len(classes_of):,} photos have boxes of several classes, such as "
            f"{shown(several[0])!r}, {some(sorted(classes_of[several[0]]))}; photos of one class each are read: leave "
            "these out, or crop the boxes"
        )
    texts = ["|".join(sorted(classes_of[path])) for path in cells.paths]
    columns = {**cells.columns, column: texts}
    if keep_rows:
        return dataclasses.replace(cells, columns=columns, written=cells.written or cells.columns)
    first = {path: i for i, path in reversed([*enumerate(cells.paths)])}
    rows = sorted(first.values())
    columns = {name: [texts[i] for i in rows] for name, texts in columns.items()}
    notes = [
        *cells.notes,
        f"{len(cells.paths):,} boxes are in {number_of(len(rows), 'photo')}, each of the one class of its boxes",
    ]
    return dataclasses.replace(cells, columns=columns, paths=columns[cells.roles.path], notes=notes)


class BoxesFound(NamedTuple):
    """The first file of boxes below a folder.

    Attributes:
        file: its path.
        form: as `SIGNS` calls it.
        said: a clause about it, with its path in the folder.
    """

    file: str
    form: str
    said: str


def boxes_found(base: Path) -> BoxesFound | None:
    """The first file of boxes below a folder; None if there is none."""
    for file in first_files_in(base):
        form = _form(file)
        if form:
            said = f"{shown(os.path.relpath(file, base))} holds boxes of objects ({form})"
            return BoxesFound(file, form, said)
    return None


def boxes_line(base: Path) -> str:
    """What to do with a folder that holds boxes of objects; "" if no file of it does."""
    found = boxes_found(base)
    if found is None:
        return ""
    named = ""
    if found.form in READ:
        named = f"name {shown(found.file)} itself, if each photo's boxes are of one class, "
    return (
        f"{found.said}, and classes of whole photos are needed: {named}{CROP}, or write a list of the photos with "
        "their classes (docs/datasets.md)"
    )


def _form(file: str) -> str:
    """The form in which a file holds boxes; "" if it holds none."""
    kind = ending(file)
    signs = [(sign, form) for suffix, sign, form in SIGNS if suffix == kind]
    # No other file is opened.
    head = _head(file) if signs else b""
    return next((form for sign, form in signs if sign.search(head)), "")


def _head(file: str) -> bytes:
    """The beginning of a file; nothing of one that cannot be read."""
    try:
        with open(file, "rb") as opened:
            return opened.read(HEAD)
    except OSError:
        return b""
