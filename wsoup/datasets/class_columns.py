"""Which column of a list is the class, where none is called so: by a likely name, by ones and zeros, by its texts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.datasets.cells import Roles, SeveralClasses, folded, is_plain_number
from wsoup.datasets.listing import some

LIKELY = ("breed", "species", "category", "category_name", "diagnosis", "dx", "variety", "cultivar", "labels",
    "class_label", "class_id", "label_name", "label_id", "target", "disease", "genus", "family", "object", "style",
    "artist", "landmark_id", "tag", "category_id", "caption_class",
    "choice")  # fmt: skip
"""Names of such columns in well-known lists, folded."""
ONES = {"1", "1.0", "true", "yes", "y", "x"}
ZEROS = {"0", "0.0", "false", "no", "n", "", "-1", "-1.0"}
"""What stands in the columns of classes, in lower case; CelebA has -1."""
DIGITS = {"1", "1.0", "true", "0", "0.0", "false"}
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


def guessed(
    columns: Mapping[str, Sequence[str]],
    roles: Roles,
    *,
    origin: str,
    likely_only: bool = False,
    may_be_several: bool = False,
) -> Guess:
    """The columns and roles of a list, with a class where one column can be it.

    Args:
        columns: cells by column.
        roles: with neither label nor class name; as they are, if no column can be the class.
        origin: the list, for messages.
        likely_only: whether only `LIKELY` names count, and columns of ones of which each row has at least one and most
            have exactly one, for lists whose columns are remarks.
        may_be_several: whether a row of two columns' classes is of ``dog|cat``, and not refused.

    Raises:
        DataError: two columns that may be it.
        SeveralClasses: a row that is not of exactly one class.
    """
    free = {name: cells for name, cells in columns.items() if name not in roles and name}
    likely = [name for name in free if folded(name) in LIKELY]
    if not likely:
        one_hot = _one_hot(free)
        classes = _names_of_ones(one_hot)
        n_single = sum(len(of_row) == 1 for of_row in classes)
        if likely_only:
            are_classes = bool(one_hot) and all(classes) and 2 * n_single > len(classes)
        else:
            likely = [name for name, cells in free.items() if name not in one_hot and _may_be_names(cells)]
            are_classes = bool(one_hot) and (not likely or n_single == len(classes))
            if are_classes and not may_be_several:
                _check_one_each(classes, names=[*one_hot], origin=origin)
        if are_classes:
            note = f"the class of a row is the column that holds its 1: {some([*one_hot])}"
            texts = ["|".join(of_row) for of_row in classes]
            return Guess({**columns, ONE_HOT: texts}, roles._replace(label=ONE_HOT), note)
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
    found = {}
    for name, cells in columns.items():
        different = {cell.lower() for cell in {*cells}}
        # A column of one text throughout may be empty, or a remark, unless it is a number.
        if different <= (ONES | ZEROS if different & ONES and len(different) > 1 else DIGITS):
            found[name] = cells
    return found if len(found) > 1 else {}


def _names_of_ones(one_hot: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The columns of each row's ones."""
    names = [*one_hot]
    classes = []
    for row in zip(*one_hot.values(), strict=True):
        classes.append([name for name, cell in zip(names, row, strict=True) if cell.lower() in ONES])
    return classes


def _check_one_each(classes: Sequence[Sequence[str]], *, names: Sequence[str], origin: str) -> None:
    """Refuse rows of several classes, or of none."""
    odd = [number for number, of_row in enumerate(classes) if len(of_row) != 1]
    if not odd:
        return
    of_row = classes[odd[0]]
    what = f"is of {len(of_row)} classes, {some(of_row)}" if of_row else "is of no class"
    raise SeveralClasses(
        f"{origin}, row {odd[0] + 1:,} {what}: its columns of ones and zeros ({some(names)}) need exactly one 1, and "
        f"{len(odd):,} of {len(classes):,} rows have none or several; remove these, or add a column label"
    )
