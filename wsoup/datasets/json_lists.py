"""Lists in JSON files: an object for each image, a map from files to classes, and the forms of COCO and other tools."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wsoup.base.errors import DataError
from wsoup.base.number_of import number_of
from wsoup.datasets.cells import CLASS_NAMES, EXPECTED, Cells, Roles, SeveralClasses, folded, no_path, roles_of
from wsoup.datasets.class_columns import LIKELY
from wsoup.datasets.label_studio import classes_of_tasks, is_label_studio
from wsoup.datasets.listing import some, split_name
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending
from wsoup.datasets.split_file import read_split_file
from wsoup.datasets.walk import SPLIT_FOLDERS
from wsoup.disk.files import read_text, shown

FORMS = (
    "objects with a path and a label, {file: class}, {class: files}, COCO's images, annotations and categories, "
    "FiftyOne's labels, Label Studio's tasks with choices, or CoOp's splits"
)
COLUMNS = ("path", "label")
LABELS = ("label", "class")
LONGEST_NUMBER = 100
"""Digits; Python reads 4,300."""


def read_json_cells(path: Path, *, may_be_several: bool = False) -> Cells:
    """Read a .json, .jsonl or .ndjson file; raises as `wsoup.datasets.lists.read_cells`."""
    origin = str(path)
    if path.suffix.lower() != ".json":
        return _of_objects(_lines(path), origin=origin)
    try:
        held = _parsed(read_text(path), place=origin)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{origin} is not JSON ({error}); save it again") from None
    if isinstance(held, list) and is_label_studio(held):
        return _of_form(classes_of_tasks, held, origin=origin, may_be_several=may_be_several)
    if isinstance(held, list):
        return _of_objects(held, origin=origin)
    if isinstance(held, dict) and {"images", "annotations", "categories"} <= held.keys():
        return _of_form(_coco, held, origin=origin, may_be_several=may_be_several)
    if isinstance(held, dict) and isinstance(held.get("labels"), dict):
        return _of_form(_fiftyone, held, origin=origin, may_be_several=may_be_several)
    if isinstance(held, dict) and held and all(isinstance(value, str | int) for value in held.values()):
        return _cells({name: _text(value) for name, value in held.items()}, origin=origin)
    if isinstance(held, dict) and any(held.values()) and all(map(_is_of_texts, held.values())):
        return _of_form(_maps_of_lists, held, origin=origin, may_be_several=may_be_several)
    if isinstance(held, dict) and held and {split_name(name) for name in held} <= {*SPLIT_FOLDERS}:
        return _of_splits(path)
    raise DataError(f"{origin} is no list of images; expected {FORMS}")


def _lines(path: Path) -> list[object]:
    """The value on each line that is not blank."""
    values = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                values.append(_parsed(line, place=f"{path}, line {number}"))
            except (json.JSONDecodeError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: {error}; expected one JSON object on each line") from None
    return values


def _parsed(text: str, *, place: str) -> Any:
    """The value of a JSON text; DataError for a key that has two values, of which JSON itself keeps the last."""

    def of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
        held: dict[str, object] = {}
        for key, value in pairs:
            first = held.setdefault(key, value)
            if first is not value and first != value:
                raise DataError(
                    f"{place}: key {shown(key)[:100]!r} is there twice, with {_short(first)} and {_short(value)}; "
                    "keep one of them"
                )
        return held

    return json.loads(text, object_pairs_hook=of_pairs, parse_int=_whole)


def _whole(digits: str) -> int | str:
    """A whole number; one that Python would refuse to read stays a text, so that its row can be named."""
    return int(digits) if len(digits) < LONGEST_NUMBER else digits


def _short(value: object) -> str:
    """A value for messages."""
    return repr(value)[:40]


def _text(value: object) -> str:
    """A cell as a CSV file would have it; what pandas writes for a gap, NaN or null, is empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _of_objects(rows: Sequence[object], *, origin: str) -> Cells:
    """A list with an object for each image; what is no text or number in one is not read, but for lists of classes."""
    columns: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"{origin}, row {number + 1:,} is not an object; expected {EXPECTED}")
        for name, value in row.items():
            if isinstance(value, list) and folded(name) in (*LABELS, *CLASS_NAMES, *LIKELY):
                value = json.dumps(value, ensure_ascii=False)
            if not isinstance(value, dict | list):
                cells = columns.setdefault(name, [])
                cells += [""] * (number - len(cells))
                # Of a key that is there twice JSON keeps the last.
                cells.append(_text(value))
    for cells in columns.values():
        cells += [""] * (len(rows) - len(cells))
    roles = roles_of(columns, origin=origin)
    if roles.path is None:
        raise DataError(no_path([*columns], origin=origin))
    return Cells(origin, columns, columns[roles.path], roles)


def _of_splits(path: Path) -> Cells:
    """A list as CoOp's split files are."""
    columns: dict[str, list[str]] = {"path": [], "label": [], "class_name": [], "split": []}
    for split, images in read_split_file(path).items():
        for row in images:
            for column, value in zip(columns, (*row, split), strict=True):
                columns[column].append(str(value))
    notes = [f"{path.name} says what is train and what is test"]
    return Cells(str(path), columns, columns["path"], Roles("path", "label", "class_name", "split"), (), notes)


def _cells(class_of: Mapping[str, str], *, origin: str, notes: Sequence[str] = ()) -> Cells:
    """A list of the class of each file."""
    columns = dict(zip(COLUMNS, ([*class_of], [*class_of.values()]), strict=True))
    return Cells(origin, columns, columns["path"], roles_of(columns, origin=origin), notes=notes)


Form = Callable[[Any, str], tuple[Mapping[str, Sequence[str]], list[str]]]
"""From what a file holds, and its name, to the classes of each image, and lines about these."""


def _of_form(form: Form, held: Any, *, origin: str, may_be_several: bool) -> Cells:
    """A list in a form whose parts may be missing."""
    try:
        classes_of, notes = form(held, origin)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{origin}: a part of its form is missing or of another kind ({error!r}); expected {FORMS}"
        ) from None
    several = [file for file, classes in classes_of.items() if len(classes) > 1]
    if several and not may_be_several:
        classes = classes_of[several[0]]
        raise SeveralClasses(
            f"{origin}: {len(several):,} of {len(classes_of):,} images are of several classes, such as "
            f"{shown(several[0])!r} of {len(classes)}, {some(classes)}; images of one class each are read: leave these "
            "out, or crop them"
        )
    return _cells({file: "|".join(classes) for file, classes in classes_of.items()}, origin=origin, notes=notes)


def _coco(held: Mapping[str, Any], origin: str) -> tuple[dict[str, list[str]], list[str]]:
    """COCO's form: the categories of each image's annotations."""
    name_of = _names_by_id(held["categories"], name="name", what="category", origin=origin)
    file_of = _names_by_id(held["images"], name="file_name", what="image", origin=origin)
    classes_of = _classes_by_image(held["annotations"], name_of, origin=origin)
    names_of: dict[str, list[str]] = {}
    without = []
    for image, file in file_of.items():
        names = sorted(classes_of.get(image, ()))
        if not names:
            without.append(file)
        elif names_of.setdefault(file, names) != names:
            raise DataError(
                f"{origin}: image {shown(file)!r} has two ids, of {some(names_of[file])} and {some(names)}; keep one"
            )
    unlisted = [image for image in classes_of if image not in file_of]
    if unlisted and not names_of:
        raise DataError(
            f"{origin}: annotations are of image ids {some(unlisted)}, and images have others, {some([*file_of])}; "
            "write the ids of both in one way"
        )
    notes = [_shared_names(name_of)]
    if without:
        notes.append(f"left out, without annotation: {number_of(len(without), 'image')}, such as {shown(without[0])}")
    if unlisted:
        notes.append(
            f"left out, annotated but not among the images: {number_of(len(unlisted), 'image id')}, {some(unlisted)}"
        )
    return names_of, [note for note in notes if note]


def _names_by_id(listed: Sequence[Mapping[str, Any]], *, name: str, what: str, origin: str) -> dict[object, str]:
    """The name of each image or category of COCO's form; DataError for an id that has two."""
    found: dict[object, str] = {}
    for each in listed:
        text = _text(each[name])
        first = found.setdefault(each["id"], text)
        if first != text:
            raise DataError(
                f"{origin}: {what} id {each['id']!r} is of both {first!r} and {text!r}; give each an id of its own"
            )
    return found


def _classes_by_image(
    annotations: Sequence[Mapping[str, Any]], name_of: Mapping[object, str], *, origin: str
) -> dict[object, set[str]]:
    """The categories of each image's annotations; DataError for one that is not listed."""
    found: dict[object, set[str]] = {}
    for each in annotations:
        category = each["category_id"]
        if category not in name_of:
            raise DataError(
                f"{origin}: an annotation of image id {each['image_id']!r} has category_id {category!r}, which is not "
                f"among the ids of categories, {some([*name_of])}; correct it, or add the category"
            )
        found.setdefault(each["image_id"], set()).add(name_of[category])
    return found


def _shared_names(name_of: Mapping[object, str]) -> str:
    """A line on categories that have one name and several ids; "" if there are none."""
    shared = sorted(name for name, count in Counter(name_of.values()).items() if count > 1)
    return f"read as one class though listed as several categories: {some(shared)}" if shared else ""


def _is_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _maps_of_lists(held: Mapping[str, Any], origin: str) -> tuple[dict[str, list[str]], list[str]]:
    """The classes of each file, or the files of each class."""
    first = next((each for value in held.values() for each in value), "")
    if ending(first) not in IMAGE_SUFFIXES:
        return {file: [*dict.fromkeys(map(_text, classes))] for file, classes in held.items()}, []
    classes_of: dict[str, list[str]] = {}
    for name, files in held.items():
        for file in files:
            of_file = classes_of.setdefault(file, [])
            of_file += [name] if name not in of_file else []
    return classes_of, []


def _fiftyone(held: Mapping[str, Any], origin: str) -> tuple[dict[str, list[str]], list[str]]:
    """FiftyOne's form: the class, or its position in ``classes``, by the file's name without ending."""
    named = held.get("classes") or []
    classes_of: dict[str, list[str]] = {}
    for file, label in held["labels"].items():
        classes_of[file] = []
        for each in label if isinstance(label, list) else [label]:
            one = each["label"] if isinstance(each, dict) else each
            name = named[one] if isinstance(one, int) and named else _text(one)
            # Boxes of one class are one class.
            if name not in classes_of[file]:
                classes_of[file].append(name)
    return classes_of, []
