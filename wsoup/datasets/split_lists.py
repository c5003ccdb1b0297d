"""Lists of domain generalisation: ``clipart_train.txt``, lines of a path, a space and a number from 0 or 1.

The name of a class is the folder that its images lie in. Lists that differ by a word for a split, such as
``photo_crossval_kfold.txt``, belong together, whichever of them is named. Places365's have the class of each number in
``categories_places365.txt`` beside them, such as ``/f/field/wild 142``, and begin paths with a slash.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.datasets.cells import Cells, Roles
from wsoup.datasets.shape import WORDS
from wsoup.disk.files import read_text, shown

LINE = re.compile(r"^(\S.*?)[ \t]+(\d{1,7})$")
SPLIT_WORDS = {**WORDS, "crossval": "val"}
BESIDE_WORDS = {"kfold", "list", "lists", "labels", "split", "set", "standard"}
CATEGORIES = "categories_places365.txt"
OF_A_LETTER = re.compile(r"^/[a-z]/")
"""How a category of Places365 begins."""


def named_alike(file: Path) -> tuple[tuple[str, ...], str]:
    """The other words of a list's name, and the split that it names; "" if it names none."""
    words = [word for word in re.split(r"[\s_.-]+", file.stem.casefold()) if word]
    splits = [SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS]
    others = tuple(word for word in words if word not in SPLIT_WORDS and word not in BESIDE_WORDS)
    return others, splits[0] if len(splits) == 1 else ""


def is_split_list(file: Path) -> bool:
    """Whether a text file's first line is a path and a number."""
    try:
        with open(file, encoding="utf-8") as opened:
            return LINE.match(opened.readline(4096).strip()) is not None
    except (OSError, UnicodeDecodeError):
        return False


def lists_beside(file: Path) -> dict[str, Path]:
    """The lists of the same images' splits, by split; a list that names no split is one of test images."""
    others, split = named_alike(file)
    if not split:
        return {"test": file}
    found: dict[str, Path] = {}
    for each in sorted(file.parent.glob("*.txt")):
        of_each, split_of_each = named_alike(each)
        if split_of_each and of_each == others and is_split_list(each):
            if split_of_each in found:
                raise DataError(f"{found[split_of_each]} and {each} would both be split {split_of_each!r}; move one")
            found[split_of_each] = each
    return found


def read_split_lists(file: Path) -> Cells:
    """Read a list with those beside it; raises as `wsoup.datasets.lists.read_cells`."""
    rows: list[tuple[str, int, str]] = []
    lists = lists_beside(file)
    for split, path in lists.items():
        rows += [(image, number, split) for image, number in _rows(path)]
    if not rows:
        raise DataError(f"{file} lists no images; expected lines of a path, a space and a number")
    said = ", ".join(f"{path.name} is {split}" for split, path in lists.items())
    categories = file.with_name(CATEGORIES)
    if categories.is_file():
        name_of = {number: OF_A_LETTER.sub("", name).replace("/", " ") for name, number in _rows(categories)}
        return _of_categories(rows, name_of, file=file, said=said)
    # Numbers count from 0 or from 1, in all lists alike.
    first = min(1, *(number for _, number, _ in rows))
    columns = {
        "path": [image for image, _, _ in rows],
        "label": [str(number - first) for _, number, _ in rows],
        "class_name": [posixpath.basename(posixpath.dirname(image.replace("\\", "/"))) for image, _, _ in rows],
        "split": [split for _, _, split in rows],
    }
    for i, name in enumerate(columns["class_name"]):
        if not name:
            raise DataError(
                f"{file}: {shown(columns['path'][i])!r} lies in no folder, which would name its class; write a CSV "
                "with the columns path and label, and give the classes' names as a file"
            )
    notes = [f"{said}; the folder of an image is its class", *_in_both(columns)]
    return Cells(str(file), columns, columns["path"], Roles("path", "label", "class_name", "split"), (), notes)


def _of_categories(rows: Sequence[tuple[str, int, str]], name_of: Mapping[int, str], *, file: Path, said: str) -> Cells:
    """A list of Places365, whose numbers have names in a file of their own."""
    for image, number, _ in rows:
        if number not in name_of:
            raise DataError(f"{file}: {shown(image)!r} is of class {number}, which {CATEGORIES} does not name")
    columns = {
        # The slash is that of the folder of the images, not that of this machine.
        "path": [image.lstrip("/") for image, _, _ in rows],
        "class_name": [name_of[number] for _, number, _ in rows],
        "split": [split for _, _, split in rows],
    }
    notes = [f"{said}; {CATEGORIES} names the classes", *_in_both(columns)]
    return Cells(str(file), columns, columns["path"], Roles("path", None, "class_name", "split"), (), notes)


def _rows(path: Path) -> list[tuple[str, int]]:
    rows = []
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        line = text.strip()
        if not line:
            continue
        found = LINE.match(line)
        if found is None:
            raise DataError(f"{path}, line {number}: {line[:100]!r} should be: path, a space, the class's number")
        rows.append((found[1], int(found[2])))
    return rows


def _in_both(columns: Mapping[str, list[str]]) -> list[str]:
    """A line about paths that lie in the lists of two splits, of which test images are left out as copies."""
    splits_of: dict[str, set[str]] = {}
    for image, split in zip(columns["path"], columns["split"], strict=True):
        splits_of.setdefault(image, set()).add(split)
    both = [image for image, splits in splits_of.items() if {"train", "test"} <= splits]
    if not both:
        return []
    return [f"{len(both):,} paths lie in the lists of train and of test, such as {shown(both[0])}"]
