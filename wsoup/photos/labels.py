"""Labels of photos: what a list says of them, or else the folders that they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wsoup.base.errors import one_line
from wsoup.base.folder_names import composed, key
from wsoup.datasets.cells import bare_number, has_numbers
from wsoup.datasets.class_lookup import key_of, numbered_keys
from wsoup.photos.files import Photo

SHOWN = 5
"""Labels that are listed in a message."""


def labelled(
    photos: Sequence[Photo], *, class_names: Sequence[str], folders: Mapping[str, str]
) -> tuple[list[Photo], list[str]]:
    """The photos with their labels.

    A list's label is a class name in any spelling that `key` equates, a folder's name of `folders` (folder -> class
    name), or, where classes are not called by numbers, the position of a class; ``3.0`` and ``03`` are 3. Photos of
    which no list says anything are labelled by their own folders, if all of these folders in one place are named like
    classes.

    A folder may have the name of another class than its own: its photos are of its own, as for training, and a list's
    label that may be either is of none.

    Returns:
        The photos, and lines about labels that are no class names.
    """
    classes = _Classes.of(class_names, folders=folders)
    labels: list[str | None] = [None] * len(photos)
    lines = []
    of_place: dict[str, list[int]] = {}
    for i, photo in enumerate(photos):
        of_place.setdefault(photo.place, []).append(i)
    for place, positions in of_place.items():
        members = [photos[i] for i in positions]
        if members[0].said is None:
            names, said = _of_folders(members, place=place, classes=classes)
        else:
            names, said = _of_list(members, classes=classes)
        lines += said
        for i, name in zip(positions, names, strict=True):
            labels[i] = name
    return [replace(photo, label=label) for photo, label in zip(photos, labels, strict=True)], lines


@dataclass(frozen=True)
class _Classes:
    """The classes that a text may mean: none, one, or several.

    Attributes:
        names: in label order.
        by_folder: class names by folder.
        by_text: by folder or class name, as it is written.
        by_key: by the `key` of these.
        numbered: what numbers are looked up in: `numbered_keys` of the folders, or else all folders and class names.
        have_positions: whether a number may be a position, since neither folders nor names are numbers.
    """

    names: Sequence[str]
    by_folder: Mapping[str, set[str]]
    by_text: Mapping[str, set[str]]
    by_key: Mapping[str, set[str]]
    numbered: Mapping[str, str]
    have_positions: bool

    @classmethod
    def of(cls, names: Sequence[str], *, folders: Mapping[str, str]) -> _Classes:
        of_folders = [(composed(folder), name) for folder, name in folders.items()]
        of_texts = [*of_folders, *((composed(name), name) for name in names)]
        of_keys = [(key(text), name) for text, name in of_texts]
        numbered = numbered_keys(folders.items()) or {text: text for text, _ in of_texts}
        have_positions = not has_numbers([*folders]) and not has_numbers(names)
        by_folder, by_text, by_key = map(_by_first, (of_folders, of_texts, of_keys))
        return cls(names, by_folder, by_text, by_key, numbered, have_positions)

    def of_folder(self, folder: str) -> set[str]:
        return self.by_folder.get(composed(folder)) or self.of_text(folder)

    def of_text(self, text: str) -> set[str]:
        # Where two names have one key, each is still known as it is written.
        return self.by_text.get(composed(text)) or self.by_key.get(key(text), set())

    def of_numbers(self, numbers: Iterable[str]) -> dict[str, set[str]]:
        """The classes that each number means, of a list whose labels are numbers."""
        called = {number: self.of_text(key_of(number, self.numbered)) for number in numbers}
        if any(called.values()) or not self.have_positions:
            return called
        # So that a list for training, with its file of class names, means the same here.
        at = {str(position): {name} for position, name in enumerate(self.names)}
        return {number: at.get(bare_number(number), set()) for number in called}


def _by_first(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """All that is paired with each text."""
    seconds: dict[str, set[str]] = {}
    for first, second in pairs:
        seconds.setdefault(first, set()).add(second)
    return seconds


Labels = tuple[list[str | None], list[str]]
"""The class name of each photo, or None, and lines about those that have none."""


def _of_list(photos: Sequence[Photo], *, classes: _Classes) -> Labels:
    """Labels by the words of a list."""
    said = [photo.said or "" for photo in photos]
    texts = {*said} - {""}
    names_of = classes.of_numbers(texts) if has_numbers(said) else {text: classes.of_text(text) for text in texts}
    unknown, unclear = _unlabelled(said, names_of)
    of_all = f"of {len(photos)} photos have a label that"
    lines = []
    if unknown:
        lines.append(f"{unknown.total()} {of_all} is not a class name, and are not counted: {_commonest(unknown)}")
    if unclear:
        lines.append(f"{unclear.total()} {of_all} may mean two classes, and are not counted: {_commonest(unclear)}")
    return [_only(names_of.get(text, set())) for text in said], lines


def _of_folders(photos: Sequence[Photo], *, place: str, classes: _Classes) -> Labels:
    """Labels by the photos' own folders: those of all photos, or none."""
    folders = [Path(photo.path).parent for photo in photos]
    # Beside folders of classes, loose photos say nothing of them.
    is_loose = [bool(place) and folder == Path(place) for folder in folders]
    if all(is_loose):
        is_loose = [False] * len(photos)
    named = [folder.name for folder, loose in zip(folders, is_loose, strict=True) if not loose]
    names_of = {name: classes.of_folder(name) for name in named}
    if not any(names_of.values()):
        return [None] * len(photos), []
    unknown, unclear = _unlabelled(named, names_of)
    lines = []
    if unknown:
        lines.append(f"folders are not taken for labels, since these are not classes: {_commonest(unknown)}")
    if unclear:
        lines.append(f"folders are not taken for labels, since these may mean two classes: {_commonest(unclear)}")
    if lines:
        return [None] * len(photos), lines
    if any(is_loose):
        lines.append(f"{sum(is_loose)} of {len(photos)} photos lie beside the folders of classes, and are not counted")
    labels = [None if loose else _only(names_of[folder.name]) for folder, loose in zip(folders, is_loose, strict=True)]
    return labels, lines


def _only(names: set[str]) -> str | None:
    """The class name, if it is one."""
    return next(iter(names)) if len(names) == 1 else None


def _unlabelled(texts: Sequence[str], names_of: Mapping[str, set[str]]) -> tuple[Counter[str], Counter[str]]:
    """How often there are texts that mean no class, and texts that may mean several."""
    unknown = Counter(text for text in texts if text in names_of and not names_of[text])
    unclear = Counter(text for text in texts if len(names_of.get(text, ())) > 1)
    return unknown, unclear


def _commonest(texts: Counter[str]) -> str:
    return ", ".join(f"{one_line(text, limit=60)!r} ({count})" for text, count in texts.most_common(SHOWN))
