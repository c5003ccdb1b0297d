"""What lies in a folder and below it, as several layouts read folders of images."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.listing import Split
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending, is_hidden, is_photo
from wsoup.disk.files import reason_of, regular_file, shown

SPLIT_FOLDERS = ("train", "val", "test")
OF_YOLO = re.compile(rb"^(names|nc|classes|train|val|valid)[ \t]*[:=]", re.MULTILINE)
"""Keys of YOLO's data.yaml, and of darknet's obj.data, of which a file has several."""
MOST_FILES = 10_000
MAX_DEPTH = 32
"""Nested folders below a class folder; Linux follows 40 links in a path, so a loop of links gets here."""


def require_folder(root: str | Path, *, given_by: str = "the dataset's root in params.yaml") -> Path:
    """The folder `root`, or MissingError, which says to correct what gave the path."""
    if not os.path.isdir(root):
        raise MissingError(f"{root} does not exist or is not a folder; correct {given_by}")
    return Path(root)


def require_photos(root: str) -> None:
    """Raise MissingError for what is not a folder."""
    if not os.path.isdir(root):
        raise MissingError(f"{root} is not a folder; {instead_of(root)}")


def instead_of(file: str) -> str:
    """What to give in place of a file that is no list, or of a folder that is not there."""
    kind = ending(file)
    folder = f"give one of {file}/<class>/<image>"
    if kind in (".xlsx", ".xls", ".ods", ".numbers"):
        return f"{folder}, or save the table as CSV UTF-8, with the columns path and label"
    if kind in (".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar"):
        return f"{folder}: unpack it, and name what was in it"
    if kind in (".yaml", ".yml", ".data") and _is_yolos(file):
        place = os.path.dirname(file) or "."
        return (
            f"it describes a dataset as YOLO's do, most often of boxes, and lists no photos: name its folder ({place}) "
            "if that has class folders, or crop the boxes into class folders (docs/datasets.md)"
        )
    if kind in (".txt", ".dat", ".xml", ".mat"):
        read = "CSV with the columns path and label, JSON, Parquet (docs/datasets.md)"
        return f"{folder}, or a list that is read: {read}"
    return folder


def _is_yolos(file: str) -> bool:
    """Whether a file has several of YOLO's keys."""
    try:
        with open(file, "rb") as opened:
            return len({*OF_YOLO.findall(opened.read(1 << 16))}) > 1
    except OSError:
        return False


def subfolders(folder: Path) -> list[str]:
    """Sorted names of the folders in a folder, without hidden ones."""
    return sorted(entry.name for entry in _entries(folder) if os.path.isdir(entry.path))


def names_in(folder: Path) -> list[str]:
    """Sorted names of all that lies in a folder, without hidden ones."""
    return sorted(entry.name for entry in _entries(folder))


def broken_links(folder: Path) -> list[str]:
    """Sorted names of the links in a folder itself that lead nowhere."""
    return sorted(entry.name for entry in _entries(folder) if _is_broken(entry))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not is_hidden(entry.name)]
    except OSError as error:
        raise DataError(f"{shown(str(folder))} cannot be listed ({reason_of(error)}); repair or remove it") from None


# ------------------------------------------------------------------------------------------------- files below a folder


Kind = Literal["photo", "other", "broken"]


class Contents(NamedTuple):
    """The files below a folder.

    Attributes:
        images: paths of the photos relative to the folder, sorted.
        others: how many files are no photos, by their ending.
        broken: paths of links that lead nowhere.
    """

    images: list[str]
    others: Counter[str]
    broken: list[str]


def contents_of(folder: Path) -> Contents:
    """All files below a folder.

    Raises:
        DataError: a loop of links, a folder that cannot be listed, or something named like a photo that is no file.
    """
    contents = Contents([], Counter(), [])
    for path, kind in _files_below(folder):
        if kind == "photo":
            contents.images.append(path)
        elif kind == "broken":
            contents.broken.append(path)
        else:
            contents.others[ending(path)] += 1
    contents.images.sort()
    return contents


def _files_below(folder: Path, *, depth: int = 0) -> Iterator[tuple[str, Kind]]:
    """Paths of the files below a folder, relative to it; `depth` is that of the folder below a class folder."""
    if depth > MAX_DEPTH:
        raise DataError(
            f"{shown(str(folder))} lies more than {MAX_DEPTH} folders deep; move the images up, or remove a link "
            "that leads back"
        )
    for entry in _entries(folder):
        # A folder named like a photo is refused as one that is no file.
        if ending(entry.name) not in IMAGE_SUFFIXES and os.path.isdir(entry.path):
            for path, kind in _files_below(Path(entry.path), depth=depth + 1):
                yield f"{entry.name}/{path}", kind
        else:
            yield entry.name, _kind(entry)


def _kind(entry: os.DirEntry[str]) -> Kind:
    """What an entry is that is no folder; DataError for something named like a photo that is no file."""
    if _is_broken(entry):
        return "broken"
    if ending(entry.name) in IMAGE_SUFFIXES:
        # The directory entry itself says what most files are, without a call to the system for each.
        if not entry.is_file(follow_symlinks=False):
            regular_file(entry.path)
        return "photo"
    return "photo" if is_photo(entry.path) else "other"


def _is_broken(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a link that leads nowhere, as git-annex keeps one for each file without content."""
    return entry.is_symlink() and not os.path.exists(entry.path)


def files_in(folder: str) -> Iterator[str]:
    """Files in a folder and its subfolders, except hidden ones, in the order of names."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        real = os.path.realpath(place)
        # A link to a parent folder would never end.
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        for name in sorted(names):
            if not is_hidden(name):
                yield os.path.join(place, name)


def first_files_in(folder: Path) -> Iterator[str]:
    """As many of these as are looked at for what to say of a folder that is refused."""
    return islice(files_in(str(folder)), MOST_FILES)


def has_photos(folder: Path) -> bool:
    """Whether there is a photo in a folder or below."""
    return folder.is_dir() and any(kind == "photo" for _, kind in _files_below(folder))


def holds_photos_itself(folder: Path) -> bool:
    """Whether there is a photo in a folder, its subfolders left aside."""
    return any(not os.path.isdir(entry.path) and is_photo(entry.path) for entry in _entries(folder))


# --------------------------------------------------------------------------------------------------------------- splits


def prefix_of(base: Path, folder: Path) -> str:
    """Prefix of the files of a folder in paths relative to `base`: ``""`` or ``"a/b/"``."""
    path = folder.relative_to(base).as_posix()
    return "" if path == "." else f"{path}/"


def list_split(base: Path, *, folder: Path, classes: Sequence[str]) -> Split:
    """All images under folder/<class>, labelled by the position of the class in `classes`.

    Raises:
        DataError: a class folder without images, or with a link that leads nowhere.
    """
    images_of = {}
    for name in classes:
        if (folder / name).is_dir():
            contents = contents_of(folder / name)
            if contents.broken:
                raise DataError(f"{folder / name / contents.broken[0]} is a broken symbolic link; repair or remove it")
            images_of[name] = contents.images
            if not images_of[name]:
                raise DataError(f"{folder / name} holds no images; add some or remove the folder")
    return split_of_folders(images_of, classes=[[name] for name in classes], prefix=prefix_of(base, folder))


def split_of_folders(images_of: Mapping[str, Sequence[str]], *, classes: Sequence[Sequence[str]], prefix: str) -> Split:
    """The split of the images of each class folder, which are named relative to it.

    Args:
        images_of: by class folder; none of a class that is missing.
        classes: the folders of each class in label order, of which there is one but for Unicode forms.
        prefix: of the class folders, as `prefix_of` gives it.
    """
    paths: list[str] = []
    counts = np.zeros(len(classes), dtype=np.int64)
    for label, folders in enumerate(classes):
        for name in folders:
            images = images_of.get(name, ())
            paths.extend(f"{prefix}{name}/{image}" for image in images)
            counts[label] += len(images)
    labels = np.arange(len(classes), dtype=np.int64)
    return Split(paths, np.repeat(labels, counts))
