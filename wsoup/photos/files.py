"""Photos given as files, folders or lists, with their labels.

Every file of a folder and every row of a list is a photo, in the order given, so that a table of answers can be joined
by position.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wsoup.base.errors import DataError, MissingError, one_line
from wsoup.base.folder_names import key
from wsoup.datasets.left_out import files_in, in_words, unknown_kinds
from wsoup.datasets.listing import IMAGE_SUFFIXES
from wsoup.disk.files import read_text, reason_of, shown

SHOWN = 5
"""Labels that are listed in a message."""


@dataclass(frozen=True)
class Photo:
    """One photo.

    Attributes:
        path: its file; empty if the row of a list names none.
        label: name of its class, if known (`labelled`).
        columns: its other cells in the list that named it, by column.
    """

    path: str
    label: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def find_photos(places: Sequence[str]) -> tuple[list[Photo], str]:
    """Photos in the order given; folders are searched recursively, in the order of names.

    Args:
        places: image files, folders, or CSV files with a column path.

    Returns:
        The photos, and a line about images in folders whose kind cannot be decoded; "" if there are none.

    Raises:
        MissingError: a place does not exist.
        DataError: no images at all, or a list without a column path.
    """
    photos: list[Photo] = []
    unknown: Counter[str] = Counter()
    for place in places:
        if os.path.isdir(place):
            files = list(files_in(place))
            photos += [Photo(path) for path in files if _ending(path) in IMAGE_SUFFIXES]
            unknown += unknown_kinds(files)
        elif not os.path.lexists(place):
            raise MissingError(
                f"{shown(place)} does not exist; name photos, folders of photos, or a CSV with a column path"
            )
        elif _ending(place) == ".csv":
            photos += _in_list(Path(place))
        else:
            photos.append(Photo(place))
    if not photos:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise DataError(f"no images in {', '.join(shown(place) for place in places)}; expected {kinds} files")
    if not unknown:
        return photos, ""
    return photos, in_words(unknown)


def labelled(
    photos: Sequence[Photo], *, class_names: Sequence[str], folders: Mapping[str, str]
) -> tuple[list[Photo], str]:
    """The photos with their labels, from the column label of their list or else the nearest folder named like a class.

    A label is a class name in any spelling that `key` equates, or a folder's name of `folders` (folder
    -> class name).

    Returns:
        The photos, and a line about labels that are no class names; "" if there are none.
    """
    name_of = {key(folder): name for folder, name in folders.items()}
    name_of |= {key(name): name for name in class_names}
    # Where two names have one key, each is still known as it is written.
    name_of |= {name: name for name in class_names}
    unknown: Counter[str] = Counter()
    with_labels = []
    for photo in photos:
        if "label" in photo.columns:
            texts = [photo.columns["label"]]
        else:
            texts = [folder.name for folder in Path(photo.path).parents]
        label = _first_known(texts, name_of)
        if label is None and texts and texts[0].strip():
            unknown[texts[0]] += 1
        with_labels.append(replace(photo, label=label))
    any_labels = any(photo.label is not None or "label" in photo.columns for photo in with_labels)
    n_unknown = unknown.total()
    # Without any label, folders are just folders.
    if not any_labels or not n_unknown:
        return with_labels, ""
    listed = ", ".join(f"{one_line(name, limit=60)!r} ({count})" for name, count in unknown.most_common(SHOWN))
    return with_labels, (
        f"{n_unknown} of {len(photos)} photos have a label that is not a class name, and are not counted: {listed}"
    )


def _first_known(texts: Sequence[str], name_of: Mapping[str, str]) -> str | None:
    """The class name of the first text that is one, as it is written or by its key."""
    for text in texts:
        for spelling in (text, key(text)):
            if spelling in name_of:
                return name_of[spelling]
    return None


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _in_list(path: Path) -> list[Photo]:
    """The photos of a CSV file; relative paths are relative to it, or else to the working folder."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restval="")
    try:
        rows = list(reader)
        header = reader.fieldnames or []
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV ({reason_of(error)}); save it again") from None
    if "path" not in header or not rows:
        raise DataError(f"{path} has the columns {', '.join(header)} and {len(rows)} rows; expected a column path")
    if len({*header}) < len(header) or any(None in row for row in rows):
        # csv puts cells beyond the header under the key None.
        raise DataError(f"{path} has two columns of one name, or a row longer than its header; correct the list")
    photos = []
    for row in rows:
        name = row.pop("path")
        beside = path.parent / name
        if name and os.path.exists(beside):
            name = str(beside)
        # A URL stays what it is: a list from elsewhere must not make this machine fetch anything.
        photos.append(Photo(name, columns=row))
    return photos
