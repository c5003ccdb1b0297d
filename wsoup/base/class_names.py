"""Class names as users pass them: a list in label order.

Two classes may have one name, as ImageNet's two of "missile" do: a label is a position.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, KeysView, Mapping, Sequence, Set, ValuesView
from numbers import Integral
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from wsoup.base.arguments import as_list, at_the_door
from wsoup.base.errors import DataError, shown_value

SHOWN_NAMES = 3
"""Names of several classes that are listed."""


def positions_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """The labels of each name, ascending; most have one."""
    positions: dict[str, list[int]] = {}
    for label, name in enumerate(names):
        positions.setdefault(name, []).append(label)
    return positions


def shared_names(names: Sequence[str]) -> str:
    """A line about names that several classes have; "" if there are none.

    >>> shared_names(["missile", "cat", "missile"])
    "class name 'missile' is that of classes 0 and 2: a tie between them goes to the first"
    """
    shared = {name: labels for name, labels in positions_by_name(names).items() if len(labels) > 1}
    if not shared:
        return ""
    parts = [f"{shown_value(name)} is that of classes {_listed(labels)}" for name, labels in shared.items()]
    listed_names = ", ".join(parts[:SHOWN_NAMES])
    if len(parts) > SHOWN_NAMES:
        listed_names += f" and {len(parts) - SHOWN_NAMES:,} more such names"
    return f"class name {listed_names}: a tie between them goes to the first"


def _listed(labels: Sequence[int]) -> str:
    *others, last = map(str, labels)
    return f"{', '.join(others)} and {last}"


def _warned(names: Sequence[str]) -> Sequence[str]:
    line = shared_names(names)
    if line:
        # Python shows a warning of one text and place once.
        warnings.warn(line, stacklevel=2)
    return names


def in_label_order(value: object) -> object:
    """Class names from what else says which position each has: a dict either way round, or pandas' unique().

    >>> in_label_order({"dog": 1, "cat": 0}), in_label_order({0: "cat", "1": "dog"})
    (['cat', 'dog'], ['cat', 'dog'])
    """
    if isinstance(value, Mapping):
        return _of_positions(value)
    if isinstance(value, KeysView | ValuesView | Iterator):
        return list(value)
    if isinstance(value, Set):
        raise DataError("class_names is a set, which has no order; give a list in label order, such as sorted(...)")
    return as_list(value)


def _of_positions(positions: Mapping[Any, Any]) -> list[object]:
    """The names of a dict of positions, as ImageFolder's class_to_idx, or of a dict by position, as id2label."""
    name_of: dict[int, object] = {}
    for key, value in positions.items():
        position = _position(value)
        name = key
        if position is None:
            position = _position(key)
            name = value
        if position is None or position in name_of:
            raise DataError(
                f"class_names is a dict with {shown_value({key: value})}; expected each name's position, such as "
                "{'cat': 0, 'dog': 1}, or a list in label order"
            )
        name_of[position] = name
    missing = sorted({*range(len(name_of))} - {*name_of})
    if missing:
        raise DataError(
            f"class_names is a dict of {len(name_of)} positions without {missing[0]}; they must count from 0"
        )
    return [name_of[position] for position in range(len(name_of))]


def _position(value: object) -> int | None:
    """A whole number, as JSON may have it as a key, too."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:18])
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return None


Label = Annotated[str, Field(max_length=10_000, pattern=r"^\P{Cc}*[^\s\p{Cc}]\P{Cc}*$")]
"""A name on one line that is not blank."""
Listed = Annotated[Sequence[Label], BeforeValidator(in_label_order), Field(min_length=1)]
Names = Annotated[Listed, AfterValidator(_warned)]
"""Class names of a public function, which warns of a name that several classes have."""


@at_the_door
def checked_names(class_names: Listed) -> list[str]:
    """Class names in label order: (C,) strings, none blank; ParamsError otherwise."""
    return [*class_names]
