"""Layouts without a file per image: webdataset tars, saved Hugging Face datasets.

**webdataset** as CLIP_benchmark lays it out (LAION-AI/CLIP_benchmark, clip_benchmark/webdataset_builder.py):
root/{train,val,test}/{0..n}.tar and root/classnames.txt, one class name per line in label order. A sample is two
members with one stem, an image and its label number: ``s0000017.webp`` and ``s0000017.cls``.

**Hugging Face** as `save_to_disk` writes it, read without that library: root/dataset_dict.json names the splits,
root/<split>/state.json the Arrow files, and root/<split>/dataset_info.json the features, among them one Image and one
ClassLabel column.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wsoup.base.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.folder import SPLIT_FOLDERS, read_json, require_folder
from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, Split, split_of
from wsoup.datasets.tables import SPLIT_NAMES, read_name_list
from wsoup.disk.files import read_text, regular_file
from wsoup.disk.members import arrow_table, read_bytes, tar_index

SAVE_AGAIN = "save the dataset again with `save_to_disk`"

# ------------------------------------------------------------------------------------------------------- webdataset


def read_webdataset(root: str, *, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images in the tars of the wanted splits; paths look like ``test/0.tar/s0000017.webp``.

    Raises:
        MissingError: the folder, all tars, a shard or classnames.txt is missing.
        DataError: a tar is truncated, or an image has no label.
    """
    base = require_folder(root)
    names = read_name_list(Path(class_names) if class_names else base / "classnames.txt")
    splits = {split: _tar_split(base, split) for split in SPLIT_FOLDERS if split in wanted and (base / split).is_dir()}
    if not splits:
        raise MissingError(f"{root} has none of the folders {', '.join(wanted)} with webdataset tars")
    return Listing(root, names, splits, origin=root)


def images_in(tar: Path) -> Iterator[tuple[str, str | None]]:
    """Each image of a tar, in the tar's order, with the text of the ``.cls`` member beside it or None."""
    members = tar_index(str(tar), regular_file(str(tar)).st_mtime_ns)
    for name in members:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in IMAGE_SUFFIXES:
            label = f"{stem}.cls"
            yield name, read_bytes(f"{tar}/{label}").decode("utf-8", "replace") if label in members else None


def _tar_split(base: Path, split: str) -> Split:
    folder = base / split
    tars = sorted(folder.glob("*.tar"), key=lambda path: (len(path.name), path.name))
    count_file = folder / "nshards.txt"
    n_shards = _number(read_text(count_file), origin=str(count_file)) if os.path.lexists(count_file) else len(tars)
    if not tars or len(tars) < n_shards:
        raise MissingError(f"{folder} has {len(tars)} tar files, expected {max(1, n_shards)}; download the others")
    return split_of([row for tar in tars for row in _samples(tar, f"{split}/{tar.name}")])


def _samples(tar: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """(path, label) of each image of a tar."""
    for name, label in images_in(tar):
        label_member = f"{os.path.splitext(name)[0]}.cls"
        if label is None:
            raise DataError(f"{tar}: image {name!r} has no label; expected a member {label_member}")
        yield f"{prefix}/{name}", _number(label, origin=f"{tar}: {label_member}", what="a label number")


def _number(text: str, *, origin: str, what: str = "a number") -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 7):
        raise DataError(f"{origin} holds {text[:40]!r}, expected {what}")
    return int(text)


# ----------------------------------------------------------------------------------------------------- Hugging Face


def read_huggingface(root: str, *, wanted: Collection[str]) -> Listing:
    """List the images of a saved DatasetDict, or of a single saved Dataset as a test split.

    Paths look like ``test/data-00000-of-00001.arrow/image/17``.

    Raises:
        MissingError: no such folder, or nothing was saved in it.
        DataError: not exactly one Image and one ClassLabel column, images stored outside the Arrow files, a filtered
            dataset whose indices were not flattened, splits with different class names, damaged files.
    """
    base = require_folder(root)
    folders = {split: folder for split, folder in _saved_splits(base).items() if split in wanted}
    class_names: list[str] = []
    splits: dict[str, Split] = {}
    for split, folder in folders.items():
        names, splits[split] = _arrow_split(base, folder)
        if class_names and names != class_names:
            raise DataError(f"{root}: split {folder!r} has other class names than the splits above it; {SAVE_AGAIN}")
        class_names = names
    return Listing(root, [clean_class_name(name) for name in class_names], splits, origin=root)


def _saved_splits(base: Path) -> dict[str, str]:
    """Folder of each split, by our name of the split."""
    index = base / "dataset_dict.json"
    if not index.is_file():
        if (base / "state.json").is_file():
            return {"test": ""}
        raise MissingError(f"{base} holds no dataset saved by `save_to_disk` (dataset_dict.json or state.json)")
    folders: dict[str, str] = {}
    for name in _list(_object(index).get("splits"), of=str, what="splits", path=index):
        split = SPLIT_NAMES.get(name, name)
        if split in folders or not _is_name(name):
            raise DataError(f"{index}: split {name!r} appears twice, or is not a folder's name; {SAVE_AGAIN}")
        folders[split] = name
    return folders


def _arrow_split(base: Path, folder: str) -> tuple[list[str], Split]:
    """Class names and images of one split."""
    place = base / folder
    image, label, names = _columns(place)
    state = _object(place / "state.json")
    if state.get("_indices_data_files"):
        raise DataError(f"{place} was saved with an index over its rows; call flatten_indices() and save it again")
    paths: list[str] = []
    labels: list[np.ndarray] = []
    for entry in _list(state.get("_data_files"), of=dict, what="_data_files", path=place / "state.json"):
        name = entry.get("filename")
        if not isinstance(name, str) or not _is_name(name):
            raise DataError(
                f"{place / 'state.json'}: a data file is called {name!r}, expected a file name; {SAVE_AGAIN}"
            )
        labels.append(_arrow_labels(place / name, image=image, label=label))
        paths += [f"{folder}/{name}/{image}/{row}".lstrip("/") for row in range(len(labels[-1]))]
    return names, Split(paths, np.concatenate(labels))


def _columns(place: Path) -> tuple[str, str, list[str]]:
    """Names of the image column and the label column, and the class names."""
    path = place / "dataset_info.json"
    features = _object(path).get("features")
    if not isinstance(features, dict) or not all(isinstance(feature, dict) for feature in features.values()):
        raise DataError(f"{path}: features should be an object of objects; {SAVE_AGAIN}")
    images = [name for name, feature in features.items() if feature.get("_type") == "Image"]
    labels = [name for name, feature in features.items() if feature.get("_type") == "ClassLabel"]
    if len(images) != 1 or len(labels) != 1:
        raise DataError(
            f"{place}: expected one Image and one ClassLabel column, found {images} and {labels}; "
            "remove or cast columns and save it again"
        )
    return images[0], labels[0], _list(features[labels[0]].get("names"), of=str, what="class names", path=path)


def _arrow_labels(file: Path, *, image: str, label: str) -> np.ndarray:
    """(N,) int64 labels of one Arrow file; checks that it holds the images themselves."""
    table = arrow_table(str(file), regular_file(str(file)).st_mtime_ns)
    for name in (image, label):
        if table.column_names.count(name) != 1:
            raise DataError(f"{file} has columns {table.column_names}, expected one called {name!r}; {SAVE_AGAIN}")
    kind = table.schema.field(image).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise DataError(f"{file}: column {image!r} holds {kind}, expected images with their bytes; {SAVE_AGAIN}")
    cells = table[image].combine_chunks()
    if cells.null_count or cells.field("bytes").null_count:
        raise DataError(f"{file}: some images are stored outside of the file; save it again with their bytes")
    if not pa.types.is_integer(table[label].type) or table[label].null_count:
        raise DataError(f"{file}: column {label!r} should hold a whole number in every row; {SAVE_AGAIN}")
    return table[label].to_numpy().astype(np.int64)


def _is_name(text: str) -> bool:
    """Whether a saved name is a single step of a path."""
    return bool(text) and "/" not in text and "\0" not in text and text not in (".", "..")


def _object(path: Path) -> dict[str, object]:
    value = read_json(path, expected="what `save_to_disk` writes")
    if not isinstance(value, dict):
        raise DataError(f"{path} does not hold a JSON object; {SAVE_AGAIN}")
    return value


def _list(value: Any, *, of: type, what: str, path: Path) -> list[Any]:
    if not isinstance(value, list) or not value or not all(isinstance(item, of) for item in value):
        raise DataError(f"{path}: {what} should be a list with at least one entry; {SAVE_AGAIN}")
    return value
