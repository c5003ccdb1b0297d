"""The label that a text means: the name of a class, its folder's name, or a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wsoup.base.errors import DataError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.cells import has_numbers
from wsoup.datasets.listing import LARGEST_LABEL
from wsoup.datasets.names_file import NamedClass


@dataclass(frozen=True)
class Lookup:
    """Classes with the texts that mean them.

    Attributes:
        names: in label order, as they are written.
        label_of: by folder's name, class name, or its cleaned form.
        twice: texts that mean two classes, with their labels.
        by_key: whether numbers are keys of the file ("1, a tab, cat") rather than positions.
        origin: where the names are from, for messages.
    """

    names: Sequence[str]
    label_of: Mapping[str, int]
    twice: Mapping[str, tuple[int, int]]
    by_key: bool
    origin: str

    @classmethod
    def of(cls, classes: Sequence[NamedClass], *, origin: str) -> Lookup:
        label_of: dict[str, int] = {}
        twice: dict[str, tuple[int, int]] = {}
        for label, each in enumerate(classes):
            for text in {each.key, each.name, clean_class_name(each.name)}:
                other = label_of.setdefault(text, label)
                if other != label:
                    twice[text] = (other, label)
        names = [each.name for each in classes]
        by_key = has_numbers([each.key for each in classes]) and any(each.key != each.name for each in classes)
        return cls(names, label_of, twice, by_key, origin)

    def label(self, text: str, *, row: str) -> int:
        """The label of a class that is named.

        Raises:
            DataError: no class, or two, have this name.
        """
        for spelling in (text, clean_class_name(text)):
            if spelling in self.twice:
                first, second = self.twice[spelling]
                raise DataError(
                    f"{row}: class {text!r} is both label {first} and label {second} in {self.origin}; give labels "
                    "as numbers, or the classes names of their own"
                )
            if spelling in self.label_of:
                return self.label_of[spelling]
        raise DataError(
            f"{row}: class {text!r} is not in the list of classes, {self.origin}; add it, or correct the row"
        )

    def position(self, number: str, *, row: str) -> int:
        """The label that a number means.

        Raises:
            DataError: the number is the name of another class.
        """
        if self.by_key:
            return self.label(number, row=row)
        try:
            label = whole(number)
        except DataError as error:
            raise DataError(f"{row}: {error}") from None
        named = self.label_of.get(number, label)
        if named != label:
            raise DataError(
                f"{row}: label {number} may be the class of that name or the one at that place in {self.origin}; write "
                "the names into a column class_name instead"
            )
        return label


def whole(number: str) -> int:
    """A label that is a number; DataError if it is too large."""
    # A float holds whole numbers of 15 digits.
    label = int(float(number)) if len(number) < 16 else LARGEST_LABEL + 1
    if label > LARGEST_LABEL:
        raise DataError(f"label {number[:40]} is too large; labels count from 0 to {LARGEST_LABEL:,} at most")
    return label
