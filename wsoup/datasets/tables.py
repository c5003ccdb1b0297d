"""Layout ``manifest:FILE``: a list of images (`wsoup.datasets.cells`) with its classes and splits, as a listing.

Without a split column every image is a test image, unless the file's own name says its split, as on Hugging Face's hub.
Labels that are numbers need class names: of a column class_name, of the file itself (hub), or of a file of class names
in label order. Names alone get labels in sorted order. Whatever says what a row's class is must agree in every row.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError
from wsoup.base.folder_names import forms_line
from wsoup.datasets.cells import Cells, folded
from wsoup.datasets.class_columns import ONE_HOT
from wsoup.datasets.found_files import found_below
from wsoup.datasets.list_classes import classes_of
from wsoup.datasets.listing import Listing, in_splits, relative, some, split_name
from wsoup.datasets.lists import read_cells
from wsoup.datasets.names_file import read_names
from wsoup.datasets.walk import SPLIT_FOLDERS, require_folder

OF_THE_HUB = re.compile(r"^(train|validation|valid|val|dev|test)(-\d+-of-\d+)?\.parquet$", re.IGNORECASE)
"""How the hub names a Parquet file of one split."""
YES_IF_OF = re.compile(r"(is|in|for)?_?(train|training|trainset|test|testing|testset|val|valid|validation)"
    r"(_?(set|image|img|split|sample))?$")  # fmt: skip
"""Columns, folded, that say by yes or no whether a photo is of a split."""
YES_OR_NO = {"0", "1", "0.0", "1.0", "true", "false", "yes", "no", "t", "f", "y", "n"}
LIKE_SPLITS = ("set", "subset", "partition", "phase", "fold", "usage", "splits", "data_set", "dataset")
"""Columns that often hold splits."""


def read(file: str, *, root: str, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images that a table names.

    Args:
        file: the table, relative to `root` or absolute; local where root is a URL. Its suffix says its format.
        root: folder that the table's paths are relative to, or a URL.
        wanted: the splits to list.
        class_names: a file of class names in label order (`wsoup.datasets.names_file`); or None.

    Raises:
        MissingError: no such folder or file.
        DataError: no header, missing columns, a path that is a URL or leaves the root, labels and class names that
            disagree, a row of a wanted split without a class, none of the wanted splits.
    """
    path = Path(file) if remote.is_remote(root) else require_folder(root) / file
    if not path.is_file():
        raise MissingError(f"{path} does not exist; correct the file in layout 'manifest:{file}' (relative to root)")
    cells = read_cells(path)
    if not cells.paths:
        raise DataError(f"{path} lists no images; expected a row for each, below the header")
    _check_urls(cells)
    splits = splits_of(cells, wanted=wanted)
    return listing_of(cells, splits, root=root, wanted=wanted, class_names=class_names)


def listing_of(
    cells: Cells, splits: Sequence[str], *, root: str, wanted: Collection[str], class_names: str | None
) -> Listing:
    """The listing of a list whose rows have these splits; arguments and errors as of `read`."""
    named = None if class_names is None else read_names(class_names)
    read_rows = [i for i, split in enumerate(splits) if split in wanted]
    classes = classes_of(cells, named=named, named_in=class_names or "", read_rows=read_rows)
    if not read_rows:
        raise DataError(_no_split(splits, wanted=wanted, origin=cells.origin))
    forms = forms_line({*cells.of(cells.roles.label), *cells.of(cells.roles.class_name)})
    images: dict[str, list[tuple[str, int]]] = {}
    paths, how_found = _paths(cells, read_rows, root=root)
    for i, image in zip(read_rows, paths, strict=True):
        images.setdefault(splits[i], []).append((image, classes.labels[i]))
    return Listing(
        root,
        classes.names,
        in_splits(images),
        origin=cells.origin,
        names_may_repeat=classes.may_repeat,
        notes=[line for line in (*cells.notes, how_found, *_left_out(splits, wanted=wanted), forms) if line],
    )


def _check_urls(cells: Cells) -> None:
    """Refuse a list whose paths are URLs: it may come from anywhere, and must not make this machine fetch anything."""
    urls = [path for path in cells.paths if remote.names_url(path)]
    if urls:
        raise DataError(
            f"{cells.origin}: {len(urls):,} of {len(cells.paths):,} paths are URLs, such as {urls[0][:100]!r}; nothing "
            "that a list names is fetched: download the images, and list their paths below root"
        )


def _paths(cells: Cells, read_rows: Sequence[int], *, root: str) -> tuple[list[str], str]:
    """Paths of images, below the root, and a line on how they were found."""
    images = [cells.paths[i] for i in read_rows]
    if cells.roles.path is None:
        return [_inside(image, root=root, origin=cells.origin) for image in images], ""
    images = [relative(image, origin=cells.origin) for image in images]
    if remote.is_remote(root):
        for image in images:
            remote.joined(root, image)  # raises if it would lead elsewhere
        return images, ""
    return found_below(root, images, origin=cells.origin)


def _inside(picture: str, *, root: str, origin: str) -> str:
    """The path from the root of a picture that the list holds itself; DataError if the list lies elsewhere."""
    try:
        return Path(picture).relative_to(root).as_posix()
    except ValueError:
        raise DataError(f"{origin} holds pictures, and does not lie in root ({root}); set root to its folder") from None


# ---------------------------------------------------------------------------------------------------------- splits


def splits_of(cells: Cells, *, wanted: Collection[str]) -> list[str]:
    """The split of each row by our name; "" where its cell is empty.

    Args:
        cells: the list.
        wanted: names that are splits, too, besides the usual ones.

    Raises:
        DataError: no column split, but another one that holds splits.
    """
    n_rows = len(cells.paths)
    if cells.roles.split is None:
        _check_no_other_splits(cells)
        of_file = OF_THE_HUB.match(Path(cells.origin).name)
        if of_file is not None and cells.roles.path is None:
            return [split_name(of_file[1])] * n_rows
        return ["test"] * n_rows
    known = {name.casefold(): name for name in wanted}
    name_of = {}
    for text in {*cells.of(cells.roles.split)}:
        name_of[text] = known.get(text.casefold(), split_name(text))
    return [name_of[text] for text in cells.of(cells.roles.split)]


def _check_no_other_splits(cells: Cells) -> None:
    """Refuse a column of splits by another name: all its training images would be tested on."""
    for column, texts in cells.columns.items():
        # One of the columns of ones is a class, of vehicles perhaps.
        is_class = cells.roles.label == ONE_HOT
        if not is_class and YES_IF_OF.match(folded(column)) and {text.lower() for text in {*texts}} <= YES_OR_NO:
            raise DataError(
                f"{cells.origin}: column {column!r} says which photos are of a split; make a column split of it, with "
                "train and test in its rows, or, if it says something else, rename it"
            )
        if folded(column) in LIKE_SPLITS:
            splits = {split_name(text) for text in texts if text}
            if splits and splits <= {*SPLIT_FOLDERS}:
                listed = some(sorted({*texts}))
                raise DataError(f"{cells.origin}: column {column!r} holds splits ({listed}); rename it to split")


def _left_out(splits: Sequence[str], *, wanted: Collection[str]) -> list[str]:
    """A line about rows of splits that nobody knows."""
    unknown = Counter(split for split in splits if split not in wanted and split not in SPLIT_FOLDERS)
    if not unknown:
        return []
    return [
        f"left out: {unknown.total():,} of {len(splits):,} rows of the list, whose split is not train, val or test: "
        f"{counted(unknown)}"
    ]


def _no_split(splits: Sequence[str], *, wanted: Collection[str], origin: str) -> str:
    asked = " or ".join(repr(name) for name in sorted(wanted))
    return (
        f"{origin} has no rows of split {asked}; its splits are {counted(Counter(splits))}: correct the column split, "
        "or test_split in params.yaml"
    )


def counted(texts: Mapping[str, int]) -> str:
    """Texts and how often each occurs, the commonest first."""
    parts = [f"{text!r} ({count:,})" for text, count in Counter(texts).most_common(5)]
    if len(texts) > len(parts):
        parts.append(f"{len(texts) - len(parts):,} more")
    return ", ".join(parts)
