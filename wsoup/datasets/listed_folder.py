"""A folder with its own list of photos: one in it, or one in the folder of each split.

So are Hugging Face's imagefolder with ``metadata.csv``, Roboflow's ``_classes.csv``, Kaggle's ``labels.csv``,
FiftyOne's ``labels.json`` and the lists of domain generalisation. Class folders come first: where there are some, no
list is asked.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from wsoup.base.errors import DataError, WsoupError
from wsoup.datasets import cub, folder
from wsoup.datasets.cells import Cells
from wsoup.datasets.found_files import found_below
from wsoup.datasets.listing import Listing, relative, some
from wsoup.datasets.lists import SUFFIXES, read_cells
from wsoup.datasets.photo_files import is_hidden
from wsoup.datasets.shape import named_like_splits
from wsoup.datasets.split_lists import lists_beside, named_alike
from wsoup.datasets.tables import listing_of, splits_of
from wsoup.datasets.walk import SPLIT_FOLDERS, require_folder, subfolders

PART = re.compile(r"(part|images|imgs|photos|batch|chunk|shard|fold|data)[_ .-]*\d+$", re.IGNORECASE)
"""How folders end that hold parts of a dataset."""
MOST_LISTS = 20
"""Lists in one folder; more such files are notes of single photos."""
NO_LISTS = ("sample_submission", "samplesubmission")
"""How lists of answers begin that competitions want, in lower case."""


def is_listed_folder(root: str) -> bool:
    """Whether a folder is such: it has lists with classes, and no class folders.

    Raises:
        DataError: several lists that may be the one.
    """
    return bool(_lists(require_folder(root))) and not _has_classes(root)


def _has_classes(root: str) -> bool:
    """Whether the folder is one of class folders that can be read, and not of parts such as ``images_part_1``."""
    try:
        folder.read(root)
        names = folder.class_folders(root)
    except WsoupError:
        return False
    of_splits = {name for of_split in named_like_splits(names).values() for name in of_split}
    return len(names) > 1 and {*names} != of_splits and not all(map(PART.search, names))


def _lists(base: Path) -> dict[str, Path]:
    """The list of each split, by our names; "" for one that lies in the folder itself."""
    found: dict[str, Path] = {}
    for split, names in named_like_splits(subfolders(base)).items():
        of_split = [path for name in names for path in [_only_list(base / name)] if path is not None]
        if len(of_split) > 1:
            raise DataError(f"{of_split[0]} and {of_split[1]} would both be split {split!r}; move one elsewhere")
        if of_split:
            found[split] = of_split[0]
    if found:
        return found
    here = _only_list(base)
    return {} if here is None else {"": here}


def _only_list(place: Path) -> Path | None:
    """The list in a folder that says the classes of images, None if there is none; DataError if there are several."""
    lists = [path for path in _candidates(place) if _says_classes(path)]
    # Lists of one dataset's splits belong together; the first stands for all.
    if lists and lists[0].suffix.lower() == ".txt" and {*lists} <= {*lists_beside(lists[0]).values()}:
        return lists[0]
    if len(lists) > 1:
        raise DataError(
            f"{place} holds several lists of images with classes, {some([path.name for path in lists])}; name one of "
            f"them ({lists[0]})"
        )
    return lists[0] if lists else None


def _candidates(place: Path) -> list[Path]:
    """Files that may be the list of a folder; none where there are as many as notes of single photos."""
    paths = []
    with os.scandir(place) as entries:
        for entry in entries:
            path = Path(entry.path)
            is_of_split = path.suffix.lower() == ".txt" and bool(named_alike(path)[1])
            # One of the lists of a release stands for all.
            is_images = path.name == cub.IMAGES and cub.is_of_cub(path)
            if path.suffix.lower() in SUFFIXES or (is_of_split and not cub.is_of_cub(path)) or is_images:
                paths.append(path)
    if len(paths) > MOST_LISTS:
        return []
    is_asked = [not is_hidden(path.name) and not path.name.casefold().startswith(NO_LISTS) for path in paths]
    return sorted(path for path, asked in zip(paths, is_asked, strict=True) if asked and path.is_file())


def _says_classes(path: Path) -> bool:
    """Whether a list names images that are there, and their classes, of which an image may have several."""
    try:
        cells = read_cells(path, may_be_several=True)
        first = [relative(image, origin=cells.origin) for image in cells.paths[:1]]
        found, _ = found_below(str(path.parent), first, origin=cells.origin)
    except WsoupError:
        return False
    has_class = cells.roles.label is not None or cells.roles.class_name is not None
    return has_class and cells.roles.path is not None and any((path.parent / image).is_file() for image in found)


def read(root: str, *, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images of such a folder.

    Args:
        root: the folder.
        wanted: the splits to list.
        class_names: a file of class names in label order; or None.

    Raises:
        DataError: no list, several, or as `wsoup.datasets.tables.read`.
    """
    cells, splits = read_all(root, wanted=wanted)
    return listing_of(cells, splits, root=root, wanted=wanted, class_names=class_names)


def splits_in(root: str) -> list[str]:
    """The splits of such a folder, by our names."""
    _, splits = read_all(root, wanted=SPLIT_FOLDERS)
    return [split for split in SPLIT_FOLDERS if split in {*splits}]


def read_all(root: str, *, wanted: Collection[str], may_be_several: bool = False) -> tuple[Cells, list[str]]:
    """The rows of all lists with their files below the root, and the split of each row; raises as `read_cells`."""
    base = require_folder(root)
    lists = _lists(base)
    if not lists:
        raise DataError(f"{root} has no class folders and no list of images with classes; write one (docs/datasets.md)")
    if [*lists] == [""]:
        cells = read_cells(lists[""], may_be_several=may_be_several)
        return cells, splits_of(cells, wanted=wanted)
    parts = {split: read_cells(path, may_be_several=may_be_several) for split, path in lists.items()}
    return _joined(parts, base=base), [split for split, part in parts.items() for _ in part.paths]


def _joined(parts: Mapping[str, Cells], *, base: Path) -> Cells:
    """One list of those of several splits, with paths from the folder."""
    first, *others = parts.values()
    for part in others:
        if (part.roles.label, part.roles.class_name, part.names) != (
            first.roles.label,
            first.roles.class_name,
            first.names,
        ):
            raise DataError(f"{part.origin} has other columns or class names than {first.origin}; make them alike")
    columns: dict[str, list[str]] = {name: [] for name in (first.roles.label, first.roles.class_name) if name}
    paths: list[str] = []
    notes: dict[str, None] = {}
    for part in parts.values():
        place = Path(part.origin).parent
        images, line = found_below(str(place), part.paths, origin=part.origin)
        paths += [(place.relative_to(base) / image).as_posix() for image in images]
        notes |= dict.fromkeys([*part.notes, *([line] if line else [])])
        for name, cells in columns.items():
            cells += part.columns[name]
    said = ", ".join(f"{Path(part.origin).relative_to(base).as_posix()} is {split}" for split, part in parts.items())
    roles = first.roles._replace(path="path", split=None)
    return Cells(str(base), {**columns, "path": paths}, paths, roles, first.names, [said, *notes])
