"""Which class each row of a list is of, by whatever says so: numbers, names, the list's own or those of a file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.base.folder_names import alike, composed
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.cells import Cells, folded, has_numbers, is_plain_number
from wsoup.datasets.class_lookup import Lookup, whole
from wsoup.datasets.listing import some
from wsoup.datasets.names_file import NamedClass
from wsoup.disk.files import shown

NO_CLASS = -1
"""Label of a row that says nothing, in a split that is not read."""


class Classes(NamedTuple):
    """The classes of a list.

    Attributes:
        names: C names in label order, cleaned.
        labels: of N rows; `NO_CLASS` where an unread row has none.
        may_repeat: whether two labels may have one name: only where rows have numbers.
    """

    names: list[str]
    labels: list[int]
    may_repeat: bool = False


def classes_of(cells: Cells, *, named: Sequence[NamedClass] | None, named_in: str, read_rows: Sequence[int]) -> Classes:
    """The classes of all rows.

    Args:
        cells: the list.
        named: the classes of the user's file, or None.
        named_in: that file.
        read_rows: positions of the rows that are to be listed, each of which needs a class.

    Raises:
        DataError: see `wsoup.datasets.tables.read`.
    """
    _check_complete(cells, read_rows=read_rows)
    labels = cells.of(cells.roles.label)
    names = cells.of(cells.roles.class_name)
    numbers = has_numbers(labels)
    if labels and not numbers:
        _check_not_numbers(cells, labels)
    if named is not None:
        lookup = Lookup.of(named, origin=shown(named_in))
        return Classes(_cleaned(lookup.names), _looked_up(cells, lookup, numbers=numbers), may_repeat=numbers)
    if numbers and cells.names:
        of_file = [NamedClass(name, name, label + 1) for label, name in enumerate(cells.names)]
        lookup = Lookup.of(of_file, origin=f"the names in {cells.origin}")
        return Classes(_cleaned(lookup.names), _looked_up(cells, lookup, numbers=True))
    if numbers and names:
        return _numbered(cells)
    if numbers or not (labels or names):
        raise _unnamed(cells)
    for column in (cells.roles.class_name, _class_beside_names(cells, numbers=False)):
        if labels and column is not None:
            _check_same_names(cells, column)
    _check_one_spelling(cells, labels or names)
    in_order = sorted({composed(name) for name in {*(labels or names)}} - {""})
    lookup = Lookup.of([NamedClass(name, name, 0) for name in in_order], origin=cells.origin)
    column = cells.roles.label or cells.roles.class_name or ""
    return Classes(_cleaned(in_order), _column_labels(cells, column, lookup=lookup, are_numbers=False))


def _unnamed(cells: Cells) -> DataError:
    """The error for a list that does not say what its classes are called."""
    number = next((text for text in cells.of(cells.roles.label) if text), "")
    digits = number if len(number) < 40 else f"{number[:20]}..., of {len(number):,} digits"
    why = f": {cells.roles.label} holds numbers, such as {digits!r}" if number else ""
    return DataError(
        f"{cells.origin} has no class names beside the columns {some(list(cells.columns), limit=8)}; add a column "
        f"class_name, or a column label and set class_names to a file with one class name per line{why}"
    )


def _check_same_names(cells: Cells, column: str) -> None:
    """Refuse a row whose label is a name, where another column has another name."""
    for i, (label, name) in enumerate(zip(cells.of(cells.roles.label), cells.columns[column], strict=True)):
        if label and name and clean_class_name(label) != clean_class_name(name):
            raise DataError(
                f"{cells.row(i)}: {cells.roles.label} is {label!r}, but {column} is {name!r}; correct one of them, or "
                "rename the column that is not the class"
            )


def _cleaned(names: Iterable[str]) -> list[str]:
    return [clean_class_name(name) for name in names]


def _check_complete(cells: Cells, *, read_rows: Sequence[int]) -> None:
    """Refuse rows to be listed that have an empty label or class name."""
    for column in (cells.roles.label, cells.roles.class_name):
        texts = cells.of(column)
        if "" in texts:
            for i in read_rows:
                if not texts[i]:
                    raise DataError(f"{cells.row(i)} has no {column}; fill it in, or remove the row")


def _check_not_numbers(cells: Cells, labels: Sequence[str]) -> None:
    """Refuse labels such as -1 or 0.5 among numbers, which nobody means as names."""
    odd = None
    for i, text in enumerate(labels):
        if text and not is_plain_number(text):
            return
        if text and odd is None and not has_numbers([text]):
            odd = i
    if odd is None:
        return
    raise DataError(
        f"{cells.row(odd)}: label {labels[odd][:40]!r} is not valid: it must be a whole number from 0; classes whose "
        "names are numbers belong into a column class_name"
    )


def _looked_up(cells: Cells, lookup: Lookup, *, numbers: bool) -> list[int]:
    """The label of each row, by label and class name, which must mean the same."""
    columns = [(cells.roles.label, numbers), (cells.roles.class_name, False)]
    beside = _class_beside_names(cells, numbers=numbers)
    if beside is not None:
        columns.append((beside, False))
    found: list[int] = []
    said_by = ""
    for column, are_numbers in columns:
        if column is None:
            continue
        labels = _column_labels(cells, column, lookup=lookup, are_numbers=are_numbers)
        if not found:
            found = labels
            said_by = column
            continue
        for i, (first, second) in enumerate(zip(found, labels, strict=True)):
            if first != second and NO_CLASS not in (first, second):
                raise DataError(
                    f"{cells.row(i)}: {said_by} {cells.columns[said_by][i]!r} means {lookup.names[first]!r} in "
                    f"{lookup.origin}, but {column} is {cells.columns[column][i]!r}; correct one of them"
                )
    return found


def _column_labels(cells: Cells, column: str, *, lookup: Lookup, are_numbers: bool) -> list[int]:
    """The label that each row's text of one column means."""
    label_of = {"": NO_CLASS}
    labels = []
    n_classes = len(lookup.names)
    for i, text in enumerate(cells.columns[column]):
        # Once for each text, of which a million rows may have few.
        if text not in label_of:
            row = cells.row(i)
            if are_numbers:
                label = lookup.position(text, row=row)
                if label >= n_classes:
                    raise DataError(
                        f"{row} has label {label}, out of range for {n_classes} classes (0 to {n_classes - 1}) in "
                        f"{lookup.origin}; correct the label or the list of class names"
                    )
            else:
                label = lookup.label(text, row=row)
            label_of[text] = label
        labels.append(label_of[text])
    return labels


def _class_beside_names(cells: Cells, *, numbers: bool) -> str | None:
    """A column ``class`` beside a label that is a name already."""
    if numbers or cells.roles.label is None or cells.roles.class_name is not None:
        return None
    for column in cells.columns:
        if folded(column) == "class" and column != cells.roles.label:
            return column
    return None


def class_texts(cells: Cells) -> list[str] | None:
    """What each row says its class is: a name where there is one, else a number; None if no column says it.

    Raises:
        DataError: a number with two class names, or two columns of names that disagree.
    """
    labels = cells.of(cells.roles.label)
    names = cells.of(cells.roles.class_name)
    if not (labels or names):
        # The folder of a picture that lies in the list itself says nothing.
        return [""] * len(cells.paths) if cells.roles.path is None else None
    has_names = bool(names or cells.names)
    if has_names and has_numbers(labels):
        name_of = dict(enumerate(cells.names)) | _names_of_numbers(cells)
        texts = []
        for label, (number, name) in zip(_numbers(cells), _pairs(cells), strict=True):
            # A row may have the number alone.
            texts.append(name or name_of.get(label, number))
        return texts
    if labels and names:
        _check_same_names(cells, cells.roles.class_name or "")
    return [label or name for label, name in _pairs(cells)]


def _pairs(cells: Cells) -> Iterator[tuple[str, str]]:
    """Label and class name of each row, empty where there is no such column."""
    columns = [cells.of(column) or repeat("") for column in (cells.roles.label, cells.roles.class_name)]
    # Not strict, because a repeated text has no end.
    return islice(zip(*columns, strict=False), len(cells.paths))


def _numbers(cells: Cells) -> list[int]:
    """The label of each row of a list whose labels are numbers; `NO_CLASS` where there is none."""
    texts = cells.of(cells.roles.label)
    # A list may have a million rows of few texts, so each text is looked at once.
    label_of = {"": NO_CLASS}
    for text in {*texts} - {""}:
        try:
            label_of[text] = whole(text)
        except DataError as error:
            raise DataError(f"{cells.row(texts.index(text))}: {error}") from None
    return [label_of[text] for text in texts]


def _names_of_numbers(cells: Cells) -> dict[int, str]:
    """The class name of each label that is a number; DataError for one that has two."""
    name_of: dict[int, str] = {}
    names = cells.of(cells.roles.class_name)
    for i, (label, name) in enumerate(zip(_numbers(cells), names, strict=False)):
        if label != NO_CLASS and name and name_of.setdefault(label, name) != name:
            raise DataError(
                f"{cells.row(i)}: label {label} has two class names, {name_of[label]!r} and {name!r}; keep one of them"
            )
    return name_of


def _numbered(cells: Cells) -> Classes:
    """Classes by number, which are named in the rows themselves."""
    name_of = _names_of_numbers(cells)
    largest = max(name_of, default=-1)
    missing = sorted({*range(largest)} - {*name_of})
    if missing:
        raise DataError(
            f"{cells.origin}: no image has label {some(missing)}, though labels go up to {largest}; labels must count "
            "from 0 without gaps"
        )
    return Classes(_cleaned(name_of[label] for label in range(len(name_of))), _numbers(cells))


def _check_one_spelling(cells: Cells, names: Sequence[str]) -> None:
    """Refuse two spellings of one name, which no reader could tell apart in an answer."""
    pair = alike(sorted({composed(name) for name in {*names}} - {""}))
    if pair is None:
        return
    written = {composed(name): name for name in {*names}}
    rows = [names.index(written[name]) for name in pair]
    raise DataError(
        f"{cells.origin}: classes {pair[0]!r} and {pair[1]!r} (rows {rows[0] + 1:,} and {rows[1] + 1:,}) differ in "
        "case, separators or blanks alone; spell it one way"
    )
