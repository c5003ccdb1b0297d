"""The text lists of FGVC-Aircraft's and Oxford-IIIT Pets' releases: a file of each split, beside the images.

A class is named in each line: ``1025794 Boeing 707-320`` and, as a part of the image's name, ``Abyssinian_201 1 1 1``.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.datasets.cells import Cells, Roles
from wsoup.disk.files import read_text, shown

SPLITS = ("train", "val", "trainval", "test")


class Release(NamedTuple):
    """How one release writes its lists.

    Attributes:
        file: names of its lists, of which a part is the split.
        line: a line, with the image's name and the class.
        image: where an image lies, by its name.
    """

    file: re.Pattern[str]
    line: re.Pattern[str]
    image: str


RELEASES = (
    Release(
        re.compile(rf"images_(variant|family|manufacturer)_(?P<split>{'|'.join(SPLITS)})\.txt"),
        re.compile(r"(?P<image>\d+) (?P<class_name>\S.*)"),
        "images/{}.jpg",
    ),
    Release(
        re.compile(rf"(?P<split>{'|'.join(SPLITS)}|list)\.txt"),
        re.compile(r"(?P<image>(?P<class_name>\S+)_\d+) \d+ [12] \d+"),
        "{}.jpg",
    ),
)


def is_release_list(file: Path) -> bool:
    """Whether a text file is one of such lists, by its name and its first line."""
    return _release(file) is not None


def release_list_in(folder: Path) -> Path | None:
    """The list in a folder that is to learn from, or else any such list; None if there is none."""
    lists = [path for path in sorted(folder.glob("*.txt")) if is_release_list(path)]
    return min(lists, key=lambda path: "train" not in path.stem, default=None)


def _release(file: Path) -> Release | None:
    for release in RELEASES:
        if release.file.fullmatch(file.name):
            try:
                with open(file, encoding="utf-8") as opened:
                    first = next(_without_remarks(opened.readlines(1 << 14)), (0, ""))
            except (OSError, UnicodeDecodeError):
                return None
            if release.line.fullmatch(first[1]):
                return release
    return None


def read_release_lists(file: Path) -> Cells:
    """Read a list, which `is_release_list`, with those of the other splits.

    Raises:
        DataError: a line of another form.
    """
    release = _release(file)
    if release is None:
        raise DataError(f"{file} is not a list of FGVC-Aircraft or Oxford-IIIT Pets; download it again")
    columns: dict[str, list[str]] = {"path": [], "class_name": [], "split": []}
    lists = _lists_beside(file, release=release)
    for split, path in lists.items():
        for number, line in _without_remarks(read_text(path).split("\n")):
            found = release.line.fullmatch(line)
            if found is None:
                raise DataError(f"{path}, line {number}: {shown(line)[:100]!r} is of another form than the first line")
            columns["path"].append(release.image.format(found["image"]))
            columns["class_name"].append(found["class_name"])
            columns["split"].append(split)
    said = ", ".join(f"{path.name} is {split}" for split, path in lists.items())
    notes = [f"{said}; each line names its class"]
    return Cells(str(file), columns, columns["path"], Roles("path", None, "class_name", "split"), (), notes)


def _lists_beside(file: Path, *, release: Release) -> Mapping[str, Path]:
    """The lists of the same images by split; ``trainval`` is for training where it is named, or there is no other."""
    found = release.file.fullmatch(file.name)
    split = "" if found is None else found["split"]
    beside = {each: file.with_name(file.name.replace(f"{split}.txt", f"{each}.txt")) for each in SPLITS}
    there = {each: path for each, path in beside.items() if path.is_file()}
    if split not in there:
        return {"test": file}
    if split == "trainval" or "train" not in there:
        return {name: there[each] for name, each in (("train", "trainval"), ("test", "test")) if each in there}
    return {each: path for each, path in there.items() if each != "trainval"}


def _without_remarks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, stripped, without empty ones and those that begin with a number sign."""
    for number, text in enumerate(lines, start=1):
        line = text.strip()
        if line and not line.startswith("#"):
            yield number, line
