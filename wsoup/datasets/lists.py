"""Lists of images in any kind of file, and of any columns: the one reader of them all."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.boxes import one_row_each
from wsoup.datasets.cells import IDS, OF_AN_ANSWER, Cells, folded, has_numbers, read_text_cells
from wsoup.datasets.class_columns import guessed
from wsoup.datasets.cub import is_of_cub, read_cub
from wsoup.datasets.json_lists import read_json_cells
from wsoup.datasets.label_cells import one_class_each
from wsoup.datasets.label_studio import by_files_of_server
from wsoup.datasets.release_lists import is_release_list, read_release_lists
from wsoup.datasets.split_lists import is_split_list, read_split_lists
from wsoup.disk.files import read_text

JSON = (".json", ".jsonl", ".ndjson")
SUFFIXES = (".csv", ".tsv", ".parquet", *JSON)
LARGEST_MAP = 1 << 20
"""Bytes of a JSON file of class names beside a list."""


def is_list(place: str) -> bool:
    """Whether a file is a list, by its ending; a text file, by its first line."""
    path = Path(place)
    if path.suffix.lower() == ".txt":
        return is_of_cub(path) or is_release_list(path) or is_split_list(path)
    return path.suffix.lower() in SUFFIXES


def read_cells(path: Path, *, remarks: bool = False, may_be_several: bool = False) -> Cells:
    """Read a list.

    Args:
        path: the file.
        remarks: whether its columns may be remarks, so that none is taken for the class by its texts alone.
        may_be_several: whether a photo may be of several classes, whose names are one text then; else it is refused.

    Raises:
        MissingError: no such file.
        DataError: another kind of file, no header or no rows, a column that is missing or there twice, two that may be
            the class, a row longer than the header, or a file that is damaged or would unpack to too much.
        SeveralClasses: photos of several classes.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; name a list of images")
    suffix = path.suffix.lower()
    if not is_list(str(path)):
        raise DataError(f"{path}: expected a .csv, .tsv or .parquet file, or {', '.join(JSON)}")
    if is_of_cub(path):
        return read_cub(path.parent)
    if suffix == ".txt":
        return read_release_lists(path) if is_release_list(path) else read_split_lists(path)
    if suffix == ".parquet":
        # Imported here, since only this needs pyarrow, which `wsoup classify` can do without.
        from wsoup.datasets.parquet_lists import read_parquet

        cells = read_parquet(path)
    elif suffix in JSON:
        cells = read_json_cells(path, may_be_several=may_be_several)
    else:
        cells = read_text_cells(path)
    cells = _with_classes(by_files_of_server(cells), remarks=remarks, may_be_several=may_be_several)
    # A row of several classes is refused as such, before rows of boxes are joined.
    cells = one_class_each(cells, may_be_several=may_be_several)
    cells = one_row_each(cells, may_be_several=may_be_several, keep_rows=remarks)
    return _with_names(cells, path=path)


def _with_classes(cells: Cells, *, remarks: bool, may_be_several: bool) -> Cells:
    """The list with its class, if no column is called so and one can be it; with a line on what was taken."""
    notes = [*cells.notes]
    roles = cells.roles
    if roles.path is not None and folded(roles.path) in IDS:
        notes.append(f"column {roles.path!r} is taken for the images' files")
    is_answer = {folded(name) for name in cells.columns} >= OF_AN_ANSWER
    if roles.label is not None or roles.class_name is not None or is_answer:
        return dataclasses.replace(cells, notes=notes)
    guess = guessed(cells.columns, roles, origin=cells.origin, likely_only=remarks, may_be_several=may_be_several)
    notes += [guess.note] if guess.note else []
    return dataclasses.replace(cells, columns=guess.columns, roles=guess.roles, notes=notes, written=cells.columns)


def _with_names(cells: Cells, *, path: Path) -> Cells:
    """The list with the class names of a JSON file beside it, if its labels are numbers that nothing else names."""
    numbers = cells.of(cells.roles.label)
    if cells.names or cells.roles.class_name is not None or not has_numbers(numbers):
        return cells
    largest = max(float(text) for text in {*numbers} - {""})
    found = {}
    for file in sorted(path.parent.glob("*.json")):
        names = _names_in(file)
        if file != path and len(names) > largest:
            found[file.name] = names
    if len(found) != 1:
        return cells
    ((name, names),) = found.items()
    return dataclasses.replace(cells, names=names, notes=[*cells.notes, f"{name} names the classes"])


def _names_in(file: Path) -> Sequence[str]:
    """The class names of a JSON file of {number: name} or {name: number} from 0; none if it is no such file."""
    try:
        held: Any = json.loads(read_text(file, largest=LARGEST_MAP))
        pairs = held.items()
        if all(isinstance(value, int) for _, value in pairs):
            pairs = [(value, name) for name, value in pairs]
        name_of = {int(number): name for number, name in pairs}
    except (DataError, ValueError, TypeError, AttributeError, RecursionError):
        return ()
    names = [name_of.get(number) for number in range(len(name_of))]
    texts = [name for name in names if isinstance(name, str) and name.strip()]
    return texts if len(texts) == len(names) else ()
