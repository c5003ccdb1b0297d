"""Photos of an image folder that no listing reads: of unknown kinds, outside of class folders, beside train/ or test/.

They change no result, so they are counted here and not where a folder is listed; but nobody should miss them unaware.
The same holds of class folders without photos.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wsoup.datasets.folder import split_folders
from wsoup.datasets.listing import IMAGE_SUFFIXES, some
from wsoup.datasets.walk import SPLIT_FOLDERS, subfolders
from wsoup.disk.files import shown

UNKNOWN_KINDS = {".heic", ".heif", ".jxl", ".dng", ".cr2", ".nef", ".arw", ".svg", ".psd"}
"""Endings of images that cannot be decoded."""


def left_out(root: str) -> list[str]:
    """A line for each reason why photos or classes below an ImageFolder are not read, with their number.

    Args:
        root: the folder, with train/<class>/, val/<class>/ or test/<class>/, or <class>/.
    """
    base = Path(root)
    splits = split_folders(base)
    holds_classes = list(splits.values()) or [base]
    unknown: Counter[str] = Counter()
    empty: set[str] = set()
    with_photos: set[str] = set()
    outside = _pictures_in(base)
    for folder in holds_classes:
        if folder != base:
            outside += _pictures_in(folder)
        for name in subfolders(folder):
            files = list(files_in(str(folder / name)))
            unknown.update(unknown_kinds(files))
            has_photos = any(_ending(path) in IMAGE_SUFFIXES for path in files)
            group = with_photos if has_photos else empty
            group.add(name)
    lines = []
    if unknown:
        lines.append(in_words(unknown))
    # A class may have photos in another split.
    classes = sorted(empty - with_photos)
    if classes:
        lines.append(f"left out, since no photo in them can be read: the class folders {some(classes)}")
    if outside:
        example = shown(outside[0])
        lines.append(f"left out, move them into class folders: {len(outside)} beside them, such as {example}")
    if splits:
        lines += _beside(base, splits=list(splits))
    return lines


def _beside(base: Path, *, splits: Sequence[str]) -> list[str]:
    """A line about folders of photos beside train/, val/ and test/."""
    beside = {}
    for name in subfolders(base):
        if name not in SPLIT_FOLDERS:
            n_pictures = sum(_is_picture(path) for path in files_in(str(base / name)))
            if n_pictures:
                beside[name] = n_pictures
    if not beside:
        return []
    known = " and ".join(f"{name}/" for name in splits)
    return [f"left out, only classes in {known} are read: {sum(beside.values())} in {some(list(beside))}"]


def unknown_kinds(paths: Iterable[str]) -> Counter[str]:
    """How many files have each of `UNKNOWN_KINDS`."""
    endings = Counter(_ending(path) for path in paths)
    return Counter({ending: count for ending, count in endings.items() if ending in UNKNOWN_KINDS})


def in_words(unknown: Counter[str]) -> str:
    """One line about files of `unknown_kinds`."""
    listed = ", ".join(f"{count} {ending}" for ending, count in sorted(unknown.items()))
    return f"left out, convert them to .jpg: {listed}"


def files_in(folder: str) -> Iterator[str]:
    """Files in a folder and its subfolders, except hidden ones, in the order of names."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        real = os.path.realpath(place)
        # A link to a parent folder would never end.
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        for name in sorted(names):
            if not name.startswith("."):
                yield os.path.join(place, name)


def _pictures_in(folder: Path) -> list[str]:
    """Pictures that lie in a folder itself."""
    with os.scandir(folder) as entries:
        paths = [entry.path for entry in entries if entry.is_file() and not entry.name.startswith(".")]
    return sorted(path for path in paths if _is_picture(path))


def _is_picture(path: str) -> bool:
    return _ending(path) in IMAGE_SUFFIXES or _ending(path) in UNKNOWN_KINDS


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()
