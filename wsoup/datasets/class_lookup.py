"""The label that a text means: the name of a class, its folder's name, or a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wsoup.base.errors import DataError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.cells import bare_number, has_numbers
from wsoup.datasets.listing import LARGEST_LABEL
from wsoup.datasets.names_file import NamedClass


@dataclass(frozen=True)
class Lookup:
    """Classes with the texts that mean them.

    Attributes:
        names: in label order, as they are written.
        label_of: by folder's name, class name, or its cleaned form.
        twice: texts that mean two classes, with their labels.
        keys: of the file, where these are numbers ("1, a tab, cat"), as `numbered_keys`; else numbers are positions.
        origin: where the names are from, for messages.
    """

    names: Sequence[str]
    label_of: Mapping[str, int]
    twice: Mapping[str, tuple[int, int]]
    keys: Mapping[str, str]
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
        keys = numbered_keys((each.key, each.name) for each in classes)
        return cls(names, label_of, twice, keys, origin)

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
        if self.keys:
            return self.label(key_of(number, self.keys), row=row)
        try:
            label = whole(number)
        except DataError as error:
            raise DataError(f"{row}: {error}") from None
        named = self.label_of.get(number, self.label_of.get(bare_number(number), label))
        if named != label:
            raise DataError(
                f"{row}: label {number} may be the class of that name or the one at that place in {self.origin}; write "
                "the names into a column class_name instead"
            )
        return label


def numbered_keys(classes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The keys of classes (key, name), by what each is as a number; none unless all keys are numbers beside names.

    >>> numbered_keys([("01", "cat"), ("02", "dog")])
    {'1': '01', '2': '02', '01': '01', '02': '02'}
    >>> numbered_keys([("1990", "1990"), ("1991", "1991")])
    {}
    """
    pairs = [*classes]
    keys = [key for key, _ in pairs]
    if not has_numbers(keys) or all(key == name for key, name in pairs):
        return {}
    # Where ``1`` and ``01`` are two keys, each is itself.
    return {bare_number(key): key for key in keys} | {key: key for key in keys}


def key_of(number: str, keys: Mapping[str, str]) -> str:
    """The key that a number means, of `numbered_keys`; the number itself if it means none."""
    return keys.get(number) or keys.get(bare_number(number), number)


def whole(number: str) -> int:
    """A label that is a number; DataError if it is too large."""
    # A float holds whole numbers of 15 digits.
    label = int(float(number)) if len(number) < 16 else LARGEST_LABEL + 1
    if label > LARGEST_LABEL:
        raise DataError(f"label {number[:40]} is too large; labels count from 0 to {LARGEST_LABEL:,} at most")
    return label
