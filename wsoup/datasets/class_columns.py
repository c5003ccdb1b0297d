"""Which column of a list is the class, where none is called so: by a likely name, by ones and zeros, by its texts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.datasets.cells import Roles, folded, is_plain_number
from wsoup.datasets.listing import some

LIKELY = ("breed", "species", "category", "category_name", "diagnosis", "dx", "variety", "cultivar", "labels",
    "class_label", "class_id", "label_name", "label_id", "target", "disease", "genus", "family", "object", "style",
    "artist", "landmark_id", "tag", "category_id", "caption_class")  # fmt: skip
"""Names of such columns in well-known lists, folded."""
ONES = {"1", "1.0", "true"}
ZEROS = {"0", "0.0", "false"}
ONE_HOT = "one column for each class"
"""The name of the column that is made of those with ones and zeros."""


class Guess(NamedTuple):
    """The class of each row.

    Attributes:
        columns: of the list, and perhaps one that was made.
        roles: with the column that was taken as label.
        note: a line that says which.
    """

    columns: Mapping[str, Sequence[str]]
    roles: Roles
    note: str


def guessed(columns: Mapping[str, Sequence[str]], roles: Roles, *, origin: str, likely_only: bool = False) -> Guess:
    """The columns and roles of a list, with a class where one column can be it.

    Args:
        columns: cells by column.
        roles: with neither label nor class name; as they are, if no column can be the class.
        origin: the list, for messages.
        likely_only: whether only `LIKELY` names count, for lists whose columns are remarks.

    Raises:
        DataError: two columns that may be it, or a row that is not of exactly one class.
    """
    free = {name: cells for name, cells in columns.items() if name not in roles and name}
    likely = [name for name in free if folded(name) in LIKELY]
    if not likely and not likely_only:
        one_hot = _one_hot(free)
        likely = [name for name, cells in free.items() if _may_be_names(cells)]
        if one_hot and (not likely or _is_one_of(one_hot)):
            names = _names_of_ones(one_hot, origin=origin)
            note = f"the class of a row is the column that holds its 1: {some([*one_hot])}"
            return Guess({**columns, ONE_HOT: names}, roles._replace(label=ONE_HOT), note)
    if len(likely) > 1:
        # Where names and their numbers stand side by side, the names say more.
        with_names = [name for name in likely if not all(map(is_plain_number, free[name]))]
        likely = with_names if len(with_names) == 1 else likely
    if len(likely) > 1:
        raise DataError(f"{origin}: columns {some(likely)} may all be the class; call the right one label")
    if not likely:
        return Guess(columns, roles, "")
    return Guess(columns, roles._replace(label=likely[0]), f"column {likely[0]!r} is taken for the class")


def _may_be_names(cells: Sequence[str]) -> bool:
    """Whether texts are those of classes: several, each of which is there twice on average."""
    different = {*cells} - {""}
    return 2 <= len(different) <= len(cells) // 2 and not any(map(is_plain_number, different))


def _one_hot(columns: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The columns of ones and zeros alone, if there are several."""
    known = ONES | ZEROS
    found = {}
    for name, cells in columns.items():
        if cells and {cell.lower() for cell in {*cells}} <= known:
            found[name] = cells
    return found if len(found) > 1 else {}


def _is_one_of(one_hot: Mapping[str, Sequence[str]]) -> bool:
    return all(sum(cell.lower() in ONES for cell in row) == 1 for row in zip(*one_hot.values(), strict=True))


def _names_of_ones(one_hot: Mapping[str, Sequence[str]], *, origin: str) -> list[str]:
    """The column of each row's one; DataError for a row with none or with two."""
    names = [*one_hot]
    found = []
    for number, row in enumerate(zip(*one_hot.values(), strict=True), start=1):
        of_row = [name for name, cell in zip(names, row, strict=True) if cell.lower() in ONES]
        if len(of_row) != 1:
            what = f"is of {len(of_row)} classes, {some(of_row)}" if of_row else "is of no class"
            raise DataError(
                f"{origin}, row {number:,} {what}: its columns of ones and zeros ({some(names)}) need exactly one 1; "
                "remove the row, or add a column label"
            )
        found.append(of_row[0])
    return found
