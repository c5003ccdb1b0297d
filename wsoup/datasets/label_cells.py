"""Cells that may name several classes: ``['dog']`` is one, ``dog|horse`` and ``["cat", "dog"]`` are two.

A comma, a bar, a semicolon or a space may also belong to a name. So cells are taken apart only where their parts are
classes of other rows, too, and none is taken apart in silence.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from wsoup.datasets.cells import Cells, SeveralClasses, folded
from wsoup.datasets.listing import some

BRACKETS = re.compile(r"\[(.*)\]", re.DOTALL)
QUOTED = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)')\s*,?""")
GAPS = {"nan", "NaN", "NAN", "<NA>", "N/A", "#N/A"}
"""What programs write where a cell is empty; ``NA`` and ``null`` may be names."""
SURE = "|;"
"""What hardly any name of a class holds."""
OF_SEVERAL = ("labels", "tags", "targets", "classes", "categories", "attribute_ids", "finding_labels")
"""Columns, folded, in which a space may stand between two classes."""


def one_class_each(cells: Cells, *, may_be_several: bool) -> Cells:
    """The list with one class in each cell of its label and its class name.

    Args:
        cells: the list.
        may_be_several: whether rows of several classes are left as they are, for whoever does not learn from them.

    Raises:
        SeveralClasses: rows of several classes.
    """
    columns = dict(cells.columns)
    for column in (cells.roles.label, cells.roles.class_name):
        if column is None:
            continue
        classes_of = classes_by_text(columns[column], column=column)
        several = [i for i, text in enumerate(columns[column]) if len(classes_of[text]) > 1]
        if several and not may_be_several:
            raise SeveralClasses(
                f"{cells.origin}: {len(several):,} of {len(cells.paths):,} rows are of several classes, such as row "
                f"{several[0] + 1:,} ({column} {columns[column][several[0]][:100]!r}, which is "
                f"{some(classes_of[columns[column][several[0]]])}); photos of one class each are read: remove these "
                "rows, or keep one class in each"
            )
        texts = {text: " ".join(names) if len(names) < 2 else text for text, names in classes_of.items()}
        texts |= dict.fromkeys(GAPS & texts.keys(), "")
        columns[column] = [texts[text] for text in columns[column]]
    if columns == cells.columns:
        return cells
    return dataclasses.replace(cells, columns=columns, written=cells.columns)


def classes_by_text(cells: Sequence[str], *, column: str) -> Mapping[str, Sequence[str]]:
    """The classes that each text names; itself, where it names one.

    >>> classes_by_text(["['dog']", "['dog', 'cat']", ""], column="label")["['dog', 'cat']"]
    ['dog', 'cat']
    >>> classes_by_text(["dog", "cat", "cat|dog"], column="label")["cat|dog"]
    ['cat', 'dog']
    >>> classes_by_text(["crane", "crane, bird", "kite, bird"], column="label")["crane, bird"]
    ['crane, bird']
    """
    texts = sorted({*cells})
    filled = [text for text in texts if text]
    all_in_brackets = bool(filled) and all(BRACKETS.fullmatch(text) for text in filled)
    classes_of = {}
    for text in texts:
        held = BRACKETS.fullmatch(text)
        items = None if held is None else _items(held[1], may_be_bare=all_in_brackets)
        classes_of[text] = [text] if items is None else items
    if any(items != [text] for text, items in classes_of.items()):
        return classes_of
    for separator in (*SURE, ",", None):
        parts_of = {text: _parts(text, separator=separator) for text in texts}
        if _is_between([*parts_of.values()], separator=separator, column=column):
            return parts_of
    # ``cat;`` and ``dog;`` end in what would separate more.
    ended = {text: [text.rstrip(f"{SURE} ")] for text in texts}
    return classes_of if any(one in name for (name,) in ended.values() for one in SURE) else ended


def _items(inner: str, *, may_be_bare: bool) -> list[str] | None:
    """The items of a list as JSON, Python or NumPy writes it; None if it is no such list."""
    quoted = [first or second for first, second in QUOTED.findall(inner)]
    if not QUOTED.sub("", inner).strip():
        return [text.strip() for text in quoted]
    if quoted or not may_be_bare:
        return None
    is_numbers = re.fullmatch(r"[\d.\s]+", inner) is not None
    return [text.strip() for text in (inner.split() if is_numbers else inner.split(","))]


def _parts(text: str, *, separator: str | None) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]


def _is_between(cells: Sequence[Sequence[str]], *, separator: str | None, column: str) -> bool:
    """Whether a separator stands between classes: these are also found alone, or in another order."""
    several = [parts for parts in cells if len(parts) > 1]
    alone = {parts[0] for parts in cells if len(parts) == 1}
    if separator in (*SURE,):
        first = {parts[0] for parts in several}
        later = {part for parts in several for part in parts[1:]}
        return bool((first | later) & alone or first & later)
    are_known = any({*parts} <= alone for parts in several)
    if separator is None and folded(column) not in OF_SEVERAL:
        return are_known and all(part.isdigit() for parts in cells for part in parts)
    return are_known
