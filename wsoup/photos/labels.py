"""Labels of photos: what a list says of them, or else the folders that they lie in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wsoup.base.errors import one_line
from wsoup.base.folder_names import key
from wsoup.datasets.cells import has_numbers
from wsoup.photos.files import Photo

SHOWN = 5
"""Labels that are listed in a message."""


def labelled(
    photos: Sequence[Photo], *, class_names: Sequence[str], folders: Mapping[str, str]
) -> tuple[list[Photo], list[str]]:
    """The photos with their labels.

    A list's label is a class name in any spelling that `key` equates, a folder's name of `folders` (folder -> class
    name), or, where no class is called by a number, the position of a class. Photos of which no list says anything are
    labelled by their own folders, if all of these folders in one place are named like classes.

    Returns:
        The photos, and lines about labels that are no class names.
    """
    name_of = {key(folder): name for folder, name in folders.items()}
    name_of |= {key(name): name for name in class_names}
    # Where two names have one key, each is still known as it is written.
    name_of |= {name: name for name in class_names}
    labels: list[str | None] = [None] * len(photos)
    lines = []
    of_place: dict[str, list[int]] = {}
    for i, photo in enumerate(photos):
        of_place.setdefault(photo.place, []).append(i)
    for place, positions in of_place.items():
        members = [photos[i] for i in positions]
        if members[0].said is None:
            texts, line = _of_folders(members, place=place, name_of=name_of)
        else:
            texts, line = _of_list(members, class_names=class_names, name_of=name_of)
        lines += [line] if line else []
        for i, text in zip(positions, texts, strict=True):
            labels[i] = text
    return [replace(photo, label=label) for photo, label in zip(photos, labels, strict=True)], lines


Labels = tuple[list[str | None], str]
"""The class name of each photo, or None, and a line about those that have none; or ""."""


def _of_list(photos: Sequence[Photo], *, class_names: Sequence[str], name_of: Mapping[str, str]) -> Labels:
    """Labels by the words of a list."""
    said = [photo.said or "" for photo in photos]
    if has_numbers(said) and not any(text in name_of for text in said):
        # Positions, so that a list for training, with its file of class names, means the same here.
        name_of = {str(position): name for position, name in enumerate(class_names)}
        said = [text.partition(".")[0] for text in said]
    labels = [_known(text, name_of) for text in said]
    unknown = Counter(text for text, label in zip(said, labels, strict=True) if text and label is None)
    if not unknown:
        return labels, ""
    return labels, (
        f"{unknown.total()} of {len(photos)} photos have a label that is not a class name, and are not counted: "
        f"{_commonest(unknown)}"
    )


def _of_folders(photos: Sequence[Photo], *, place: str, name_of: Mapping[str, str]) -> Labels:
    """Labels by the photos' own folders: those of all photos, or none."""
    folders = [Path(photo.path).parent for photo in photos]
    names = [folder.name for folder in folders]
    # Beside folders of classes, loose photos say nothing of them.
    is_loose = [bool(place) and folder == Path(place) for folder in folders]
    if all(is_loose):
        is_loose = [False] * len(photos)
    unknown: Counter[str] = Counter()
    labels: list[str | None] = []
    for name, loose in zip(names, is_loose, strict=True):
        label = None if loose else _known(name, name_of)
        if label is None and not loose:
            unknown[name] += 1
        labels.append(label)
    is_labelled = any(label is not None for label in labels)
    if unknown:
        labels = [None] * len(photos)
    if not is_labelled:
        return labels, ""
    if unknown:
        return labels, f"folders are not taken for labels, since these are not classes: {_commonest(unknown)}"
    if any(is_loose):
        return labels, f"{sum(is_loose)} of {len(photos)} photos lie beside the folders of classes, and are not counted"
    return labels, ""


def _commonest(texts: Counter[str]) -> str:
    return ", ".join(f"{one_line(text, limit=60)!r} ({count})" for text, count in texts.most_common(SHOWN))


def _known(text: str, name_of: Mapping[str, str]) -> str | None:
    """The class name that a text is, as it is written or by its key."""
    for spelling in (text, key(text)):
        if spelling in name_of:
            return name_of[spelling]
    return None
