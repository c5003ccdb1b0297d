"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Labels follow the sorted folder names. An optional ``classnames.txt`` in the root renames them: one line a class, the
folder's name, white space, and the class name (CoOp's form: ``n01440764 tench``).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, Split, some
from wsoup.errors import DataError, MissingError
from wsoup.prompts import clean_class_name

SPLIT_FOLDERS = ("train", "val", "test")


def read(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS, class_names: str | None = None) -> Listing:
    """List an ImageFolder.

    Args:
        root: the folder.
        wanted: the splits to list; the classes are those of these splits.
        class_names: a file like ``classnames.txt`` that lies elsewhere, or None.

    Raises:
        MissingError: no such folder.
        DataError: no class folders, an empty one, a name that is not UTF-8, a loop of symbolic links.
    """
    base = require_folder(root)
    # A folder of images alone is a class, whatever it is called: there are photographs of trains.
    splits_there = [name for name in SPLIT_FOLDERS if (base / name).is_dir() and subfolders(base / name)]
    found = {name: base / name for name in splits_there} or {"test": base}
    folders = {name: folder for name, folder in found.items() if name in wanted} or found
    classes = sorted({name for folder in folders.values() for name in subfolders(folder)})
    if not classes:
        raise DataError(
            f"{root} has no class folders; expected {root}/train/<class>/<image> and {root}/test/<class>/<image>, "
            f"or {root}/<class>/<image>"
        )
    splits = {name: list_split(base, folder=folder, classes=classes) for name, folder in folders.items()}
    names_file = Path(class_names) if class_names else base / "classnames.txt"
    renamed = read_class_names(names_file) if class_names or names_file.is_file() else {}
    names = names_of(classes, renamed=renamed, origin=str(names_file)) if renamed else classes
    return Listing(root, [clean_class_name(name) for name in names], splits, origin=root)


def require_folder(root: str | Path) -> Path:
    """The folder `root`, or MissingError."""
    base = Path(root)
    if not base.is_dir():
        raise MissingError(f"{root} does not exist or is no folder; correct the dataset's root in params.yaml")
    return base


def subfolders(folder: Path) -> list[str]:
    """Names of the folders in a folder, sorted, hidden ones left out."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    for name in names:
        check_utf8(name, folder=folder)
    return sorted(names)


def list_split(base: Path, *, folder: Path, classes: Sequence[str]) -> Split:
    """All images under folder/<class>, with the position of the class in `classes` as label.

    Raises:
        DataError: a class folder without images.
    """
    paths: list[str] = []
    counts = np.zeros(len(classes), dtype=np.int64)
    prefix = "" if folder == base else folder.relative_to(base).as_posix() + "/"
    for label, name in enumerate(classes):
        start = len(paths)
        if (folder / name).is_dir():
            paths.extend(f"{prefix}{name}/{path}" for path in sorted(_images(folder / name, above=())))
            if len(paths) == start:
                raise DataError(f"{folder / name} holds no images; add some or remove the folder")
        counts[label] = len(paths) - start
    return Split(paths, np.repeat(np.arange(len(classes), dtype=np.int64), counts))


def _images(folder: Path, *, above: tuple[str, ...]) -> Iterator[str]:
    """Paths of the images below a folder, relative to it; `above` are the real paths of the folders around it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            check_utf8(entry.name, folder=folder)
            if os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
                yield entry.name
            elif entry.is_dir():
                here = (*above, os.path.realpath(folder))
                if os.path.realpath(entry.path) in here:
                    raise DataError(f"{entry.path} is a symbolic link to a folder that holds it (a loop); remove it")
                for path in _images(Path(entry.path), above=here):
                    yield f"{entry.name}/{path}"


def check_utf8(name: str, *, folder: str | Path) -> None:
    """Raise DataError where a file name is not UTF-8 (Python shows its odd bytes as lone surrogates)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(name)
        raise DataError(f"{folder} holds a name that is not UTF-8: {shown!r}; rename the file or folder") from None


def read_class_names(path: Path) -> dict[str, str]:
    """``folder name`` lines as a dict, in file order.

    Raises:
        MissingError: no such file.
        DataError: a line without a name, or a folder named twice.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; expected one line a class: folder, a space, class name")
    names: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        folder, _, name = line.strip().partition("\t" if "\t" in line.strip() else " ")
        if not name.strip():
            raise DataError(f"{path}, line {number}: {line.strip()!r} should be: folder, a space, class name")
        if folder in names:
            raise DataError(f"{path}, line {number}: folder {folder!r} is named twice; keep one line")
        names[folder] = name.strip()
    return names


def names_of(folders: Sequence[str], *, renamed: dict[str, str], origin: str) -> list[str]:
    """Class names of folders, in their order; every folder must have one."""
    unnamed = [folder for folder in folders if folder not in renamed]
    if unnamed:
        raise DataError(f"{origin} has no line for folder {some(unnamed)}; add one: folder, a space, class name")
    return [renamed[folder] for folder in folders]


def read_text(path: Path) -> str:
    """A UTF-8 text file, or DataError that says where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
