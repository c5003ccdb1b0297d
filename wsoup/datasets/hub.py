"""A dataset as Hugging Face's hub serves it: a folder of Parquet files that hold the pictures, some for each split.

The files lie in the folder itself or in data/, as ``train-00000-of-00002.parquet``; or, as the hub converts datasets,
in a folder for each split, as ``train/0000.parquet``.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.datasets.cells import Cells
from wsoup.datasets.listing import Listing, some, split_name
from wsoup.datasets.lists import read_cells
from wsoup.datasets.tables import OF_THE_HUB, listing_of
from wsoup.datasets.walk import SPLIT_FOLDERS, subfolders

AGAIN = "download the dataset again"


def shards(base: Path) -> dict[str, list[Path]]:
    """The Parquet files of each split, by our names; none if this is not such a folder.

    Raises:
        DataError: several such folders in it, which are several datasets.
    """
    for folder in (base, base / "data"):
        files = _files(folder)
        if files:
            return files
    # The hub has a folder for each configuration of a dataset.
    inner = [name for name in subfolders(base) if _files(base / name)]
    if len(inner) > 1:
        raise DataError(f"{base} holds several datasets of Parquet files: {some(inner)}; set root to one of them")
    return _files(base / inner[0]) if inner else {}


def _files(folder: Path) -> dict[str, list[Path]]:
    """The Parquet files of each split in one folder."""
    files: dict[str, list[Path]] = {}
    if not folder.is_dir():
        return files
    for path in sorted(folder.glob("*.parquet")):
        of_split = OF_THE_HUB.match(path.name)
        if of_split is not None:
            files.setdefault(split_name(of_split[1]), []).append(path)
    if files:
        return files
    for name in subfolders(folder):
        # img2dataset has such files, too, beside the folders of its shards.
        of_folder = [
            path for path in sorted((folder / name).glob("[0-9]*.parquet")) if not path.with_suffix("").is_dir()
        ]
        if of_folder and split_name(name) in SPLIT_FOLDERS:
            files[split_name(name)] = of_folder
    return files


def read(root: str, *, wanted: Collection[str], class_names: str | None) -> Listing:
    """List the images of such a folder.

    Args:
        root: the folder.
        wanted: the splits to list.
        class_names: a file of class names in label order, if the files have none themselves; or None.

    Raises:
        DataError: files that do not belong together, or as `wsoup.datasets.tables.read`.
    """
    found = shards(Path(root))
    parts = []
    splits = []
    for split, files in found.items():
        if split not in wanted:
            continue
        for file in files:
            part = read_cells(file)
            if part.roles.path is not None:
                raise DataError(f"{file} holds no pictures; name it as a list: layout 'manifest:{file.name}'")
            parts.append(part)
            splits += [split] * len(part.paths)
    if not parts:
        raise DataError(f"{root} has Parquet files of {some(list(found))} alone; name one of these in test_split")
    return listing_of(_joined(parts, origin=root), splits, root=root, wanted=wanted, class_names=class_names)


def _joined(parts: Sequence[Cells], *, origin: str) -> Cells:
    """One list of several, which have the same columns and class names."""
    first = parts[0]
    columns: dict[str, list[str]] = {name: [] for name in (first.roles.label, first.roles.class_name) if name}
    paths: list[str] = []
    for part in parts:
        if (part.roles.label, part.roles.class_name) != (first.roles.label, first.roles.class_name):
            raise DataError(f"{part.origin} has other columns than {first.origin}; {AGAIN}")
        if part.names != first.names:
            raise DataError(f"{part.origin} has other class names than {first.origin}; {AGAIN}")
        for name in columns:
            columns[name] += part.columns[name]
        paths += part.paths
    return Cells(origin, columns, paths, first.roles, first.names)
