"""The lists of CUB-200-2011's release, and of NABirds', which say the class and the split of each image by its id.

``images.txt`` has lines of an id and a path, ``image_class_labels.txt`` of an id and a class's id, ``classes.txt`` of a
class's id and its name, and ``train_test_split.txt`` of an id and 1 for training.
"""

from pathlib import Path

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.cells import Cells, Roles
from wsoup.disk.files import read_text, shown

IMAGES = "images.txt"
LABELS = "image_class_labels.txt"
CLASSES = "classes.txt"
SPLITS = "train_test_split.txt"
FOLDER = "images"
"""Where the images lie, beside the lists."""


def is_of_cub(file: Path) -> bool:
    """Whether a file is one of such lists."""
    return file.name in (IMAGES, LABELS, SPLITS) and all((file.parent / name).is_file() for name in (IMAGES, LABELS))


def read_cub(folder: Path) -> Cells:
    """Read the lists in a folder.

    Raises:
        MissingError: no classes.txt.
        DataError: a line without two parts, an id that is there twice, or one that another list does not know.
    """
    if not (folder / CLASSES).is_file():
        raise MissingError(f"{folder / CLASSES} does not exist; expected lines of a class's number and its name")
    path_of = _by_id(folder / IMAGES)
    name_of = _by_id(folder / CLASSES)
    class_of = _by_id(folder / LABELS)
    split_of = _by_id(folder / SPLITS) if (folder / SPLITS).is_file() else {}
    columns: dict[str, list[str]] = {"path": [], "class_name": [], "split": []}
    for image, path in path_of.items():
        number = _known(class_of, image, file=folder / LABELS)
        columns["path"].append(f"{FOLDER}/{path}" if (folder / FOLDER / path).is_file() else path)
        columns["class_name"].append(_known(name_of, number, file=folder / CLASSES))
        is_train = bool(split_of) and _known(split_of, image, file=folder / SPLITS) == "1"
        columns["split"].append("train" if is_train else "test")
    said = f", and whether it is train or test in {SPLITS}" if split_of else ""
    notes = [f"the class of each image of {IMAGES} is in {LABELS}{said}"]
    return Cells(str(folder / IMAGES), columns, columns["path"], Roles("path", None, "class_name", "split"), (), notes)


def _by_id(file: Path) -> dict[str, str]:
    """What a list says of each id."""
    found: dict[str, str] = {}
    for number, text in enumerate(read_text(file).split("\n"), start=1):
        if not text.strip():
            continue
        identifier, _, said = text.strip().partition(" ")
        if not said.strip():
            raise DataError(f"{file}, line {number}: {shown(text)[:100]!r} should be: an id, a space, and what it is")
        if found.setdefault(identifier, said.strip()) != said.strip():
            raise DataError(f"{file}, line {number}: id {identifier!r} is there twice; keep one line")
    return found


def _known(said: dict[str, str], identifier: str, *, file: Path) -> str:
    if identifier not in said:
        raise DataError(f"{file} has no line for id {identifier!r}; download the dataset's lists again")
    return said[identifier]
