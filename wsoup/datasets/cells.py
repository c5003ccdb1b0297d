"""The cells of a list of images, which of its columns say what, and the reader of CSV and TSV files.

A text file may have a byte order mark, any line ends, commas, semicolons, tabs or bars between its cells, and spaces
before its quotes. Columns are known by their names in any case, `PATHS` and the others. All cells are texts.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending
from wsoup.disk.files import read_text, reason_of, shown

PATHS = ("path", "file", "filename", "file_name", "file_path", "filepath", "image", "image_path", "img", "img_path")
"""Names of the column of file names; ``path`` counts if there are several."""
IDS = ("filepaths", "filenames", "image_file", "img_file", "image_filename", "image_paths", "imagepath", "image_id",
    "imageid", "img_id", "photo_id", "image_name", "imagename", "img_name", "photo", "picture", "id",
    "uuid")  # fmt: skip
"""Names of that column where there is none of these; it may lack the files' endings."""
CLASS_NAMES = ("class_name", "classname")
OF_AN_ANSWER = {"class", "probability", "status"}
"""Columns of what `wsoup classify` wrote: the class there is an answer, not a label."""
EXPECTED = "columns path, label and/or class_name, split (a CSV needs a header line that names them)"
SEPARATORS = (",", ";", "\t", "|")
ROWS_AT_ONCE = 10_000
NUMBER = re.compile(r"[0-9]+(\.0*)?")
"""A label that is a number, also as a table with gaps writes it: ``3.0``."""


class SeveralClasses(DataError):
    """A list of photos of which some are of several classes, or of none, and which is one of classes nevertheless."""


class Roles(NamedTuple):
    """The columns that say what an image's file, label, class name and split are; None where none does."""

    path: str | None
    label: str | None
    class_name: str | None
    split: str | None


@dataclass(frozen=True)
class Cells:
    """A list of N images.

    Attributes:
        origin: the file, for messages.
        columns: N texts by column, stripped, in the file's order.
        roles: which columns are read; a label is a number or a name.
        paths: N paths as the list has them; or, if `roles.path` is None, of the pictures that it holds itself.
        names: class names by label, if the file says so itself (of Hugging Face's hub); else empty.
        notes: lines about what was taken for what.
        written: the columns as the file has them, if `columns` are others; else empty.
    """

    origin: str
    columns: Mapping[str, Sequence[str]]
    paths: Sequence[str]
    roles: Roles
    names: Sequence[str] = ()
    notes: Sequence[str] = ()
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of(self, column: str | None) -> Sequence[str]:
        """The cells of a column that says something; none if there is no such column."""
        return () if column is None else self.columns[column]

    def row(self, position: int) -> str:
        """A row, counted from 1 below the header, and its path, for messages."""
        return f"{self.origin}, row {position + 1:,} ({shown(self.paths[position])[:100]!r})"


def read_text_cells(path: Path) -> Cells:
    """Read a CSV or TSV file; raises as `wsoup.datasets.lists.read_cells`."""
    columns = _columns_of_text(path)
    roles = roles_of(columns, origin=str(path))
    if roles.path is None:
        raise DataError(no_path(list(columns), origin=str(path)))
    return Cells(str(path), columns, columns[roles.path], roles)


def no_path(columns: Sequence[str], *, origin: str) -> str:
    """The message about a list without file names."""
    beside = f"{origin}: column path is missing beside {some([name[:100] for name in columns], limit=8)}"
    step = "rename the column"
    if any(ending(name) in IMAGE_SUFFIXES for name in columns):
        step = "put one above this line, which is a photo's"
    return f"{beside}; expected {EXPECTED}: {step}"


def roles_of(columns: Mapping[str, Sequence[str]], *, origin: str) -> Roles:
    """Which column is the path, the label, the class name and the split.

    Raises:
        DataError: two columns for one of these.
    """
    by_fold: dict[str, str] = {}
    for name in columns:
        fold = folded(name)
        if fold in (*PATHS, *CLASS_NAMES, "label", "class", "split") and fold in by_fold:
            raise DataError(f"{origin} has the columns {by_fold[fold]!r} and {name!r}, which mean the same; rename one")
        by_fold[fold] = name
    of_paths = [by_fold[fold] for fold in PATHS if fold in by_fold]
    if len(of_paths) > 1 and "path" not in by_fold:
        raise DataError(f"{origin}: columns {some(of_paths)} may all be the images' files; call the right one path")
    if not of_paths:
        of_paths = [by_fold[fold] for fold in IDS if fold in by_fold]
    of_names = [by_fold[fold] for fold in CLASS_NAMES if fold in by_fold]
    if len(of_names) > 1:
        raise DataError(f"{origin}: columns {some(of_names)} may both be class names; keep one of them")
    label = by_fold.get("label")
    class_name = next(iter(of_names), None)
    other = None if by_fold.keys() >= OF_AN_ANSWER else by_fold.get("class")
    if label is None:
        label = other
    elif class_name is None and other is not None and has_numbers(columns[label]):
        class_name = other
    return Roles(next(iter(of_paths), None), label, class_name, by_fold.get("split"))


def folded(name: str) -> str:
    """A column's name without case, spaces and hyphens.

    >>> folded(" File Name")
    'file_name'
    """
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def is_plain_number(text: str) -> bool:
    """Whether a text is a number of any kind."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def has_numbers(labels: Sequence[str]) -> bool:
    """Whether labels are whole numbers; empty cells say nothing, and all of them are not numbers."""
    texts = {*labels} - {""}
    return bool(texts) and all(NUMBER.fullmatch(text) for text in texts)


def bare_number(number: str) -> str:
    """A label that is a number, without the point and the zeros that tables and names of files add.

    >>> bare_number("3.0"), bare_number("03"), bare_number("00")
    ('3', '3', '0')
    """
    return number.partition(".")[0].lstrip("0") or "0"


# ------------------------------------------------------------------------------------------------------------ text


def _columns_of_text(path: Path) -> dict[str, list[str]]:
    """All columns of a CSV or TSV file."""
    text = read_text(path)
    # Excel's own hint, which is not a row.
    if text[:4].lower() == "sep=":
        text = text.partition("\n")[2]
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    separator = _separator(text, usual=usual)
    try:
        rows = _rows(text, separator=separator)
        header = [name.strip() for name in next(rows, [])]
        if not any(header):
            raise DataError(f"{path} is empty; expected {EXPECTED}")
        twice = sorted(name for name, count in Counter(header).items() if count > 1)
        if twice:
            raise DataError(f"{path}: columns {some(twice)} are there twice; rename or remove one")
        columns: list[list[str]] = [[] for _ in header]
        done = 0
        # A block at a time, since a list may have a million rows.
        while block := list(islice(rows, ROWS_AT_ONCE)):
            _pad(block, header=header, done=done, origin=str(path), separator=separator)
            for column, cells in zip(columns, zip(*block, strict=True), strict=True):
                column += [cell.strip() for cell in cells]
            done += len(block)
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as a list of images ({reason_of(error)}); save it again") from None
    return dict(zip(header, columns, strict=True))


def _pad(block: Sequence[list[str]], *, header: Sequence[str], done: int, origin: str, separator: str) -> None:
    """Give rows that end early empty cells; DataError for one that is longer than the header."""
    for number, row in enumerate(block, start=done + 1):
        missing = len(header) - len(row)
        if missing < 0:
            raise DataError(
                f"{origin}, row {number:,} has {len(row)} cells, its header {len(header)}; quote cells that hold "
                f"{separator!r}"
            )
        if missing:
            row += [""] * missing


def _rows(text: str, *, separator: str) -> Iterator[list[str]]:
    """Rows of a text that are not blank."""
    # Strict, or a quote that is never closed would take all rows after it into one cell.
    lines = io.StringIO(text, newline="")
    yield from filter(None, csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True))


def _separator(text: str, *, usual: str) -> str:
    """What stands between the cells: that which makes the most columns of the header that a list may have."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    known = {*PATHS, *IDS, *CLASS_NAMES, "label", "class", "split"}

    def n_known(separator: str) -> int:
        try:
            header = next(_rows(first, separator=separator), [])
        except csv.Error:
            return 0
        return len(known & {folded(name) for name in header})

    # Of equally good ones the first is taken, the file's usual one.
    return max((usual, *SEPARATORS), key=n_known)
