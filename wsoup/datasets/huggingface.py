"""A Hugging Face dataset as `save_to_disk` leaves it: Arrow files with image bytes, read without that library.

root/dataset_dict.json names the splits, root/<split>/state.json its Arrow files, root/<split>/dataset_info.json the
features: one Image and one ClassLabel column. An image's path is ``test/data-00000-of-00001.arrow/image/17``.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wsoup.core.disk.files import arrow_table, regular_file
from wsoup.core.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.folder import read_json, require_folder
from wsoup.datasets.listing import Listing, Split
from wsoup.datasets.tables import SPLIT_NAMES

AGAIN = "save the dataset again with `save_to_disk`"


def read(root: str, *, wanted: Collection[str]) -> Listing:
    """List the images of a saved DatasetDict; a saved single Dataset is a test split.

    Raises:
        MissingError: no such folder, or nothing saved in it.
        DataError: no single Image and ClassLabel column, images that are not stored inside, a filtered dataset whose
            indices were not flattened, splits that disagree on the class names, files of another form.
    """
    base = require_folder(root)
    names: list[str] | None = None
    splits: dict[str, Split] = {}
    for split, folder in _folders(base).items():
        if split not in wanted:
            continue
        class_names, splits[split] = _split(base, folder)
        if names is not None and class_names != names:
            raise DataError(f"{root}: split {folder!r} has other class names than the splits above it; {AGAIN}")
        names = class_names
    return Listing(root, [clean_class_name(name) for name in names or []], splits, origin=root)


def _folders(base: Path) -> dict[str, str]:
    """Our name of each split, and its folder."""
    index = base / "dataset_dict.json"
    if not index.is_file():
        if (base / "state.json").is_file():
            return {"test": ""}
        raise MissingError(f"{base} holds no dataset saved by `save_to_disk` (dataset_dict.json or state.json)")
    saved = _list(_object(index).get("splits"), of=str, what="splits", path=index)
    folders: dict[str, str] = {}
    for name in saved:
        split = SPLIT_NAMES.get(name, name)
        if split in folders or not _is_name(name):
            raise DataError(f"{index}: split {name!r} appears twice, or is not a folder's name; {AGAIN}")
        folders[split] = name
    return folders


def _split(base: Path, folder: str) -> tuple[list[str], Split]:
    """Class names, and the rows of one split."""
    place = base / folder
    image, label, names = _features(place)
    state = _object(place / "state.json")
    if state.get("_indices_data_files"):
        raise DataError(f"{place} was saved with an index over its rows; call flatten_indices() and save it again")
    paths: list[str] = []
    labels = [np.empty(0, dtype=np.int64)]
    for entry in _list(state.get("_data_files"), of=dict, what="_data_files", path=place / "state.json"):
        name = entry.get("filename")
        if not isinstance(name, str) or not _is_name(name):
            raise DataError(f"{place / 'state.json'}: a data file is called {name!r}, expected a file's name; {AGAIN}")
        numbers = _labels(place / name, image=image, label=label)
        paths += [f"{folder}/{name}/{image}/{row}".lstrip("/") for row in range(len(numbers))]
        labels.append(numbers)
    return names, Split(paths, np.concatenate(labels))


def _features(place: Path) -> tuple[str, str, list[str]]:
    """The image column, the label column and the class names."""
    path = place / "dataset_info.json"
    features = _object(path).get("features")
    if not isinstance(features, dict) or not all(isinstance(feature, dict) for feature in features.values()):
        raise DataError(f"{path}: features should be an object of objects; {AGAIN}")
    images = [name for name, feature in features.items() if feature.get("_type") == "Image"]
    labels = [name for name, feature in features.items() if feature.get("_type") == "ClassLabel"]
    if len(images) != 1 or len(labels) != 1:
        raise DataError(
            f"{place}: expected one Image and one ClassLabel column, found {images} and {labels}; "
            "remove or cast columns and save it again"
        )
    return images[0], labels[0], _list(features[labels[0]].get("names"), of=str, what="class names", path=path)


def _labels(file: Path, *, image: str, label: str) -> np.ndarray:
    """(N,) int64 labels of one Arrow file, whose images are checked to lie inside."""
    table = arrow_table(str(file), regular_file(str(file)).st_mtime_ns)
    for name in (image, label):
        if table.column_names.count(name) != 1:
            raise DataError(f"{file} has columns {table.column_names}, expected one called {name!r}; {AGAIN}")
    kind = table.schema.field(image).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise DataError(f"{file}: column {image!r} holds {kind}, expected images with their bytes; {AGAIN}")
    cells = table[image].combine_chunks()
    if cells.null_count or cells.field("bytes").null_count:
        raise DataError(f"{file}: some images are only named, not stored inside; save it again with their bytes")
    if not pa.types.is_integer(table[label].type) or table[label].null_count:
        raise DataError(f"{file}: column {label!r} should hold a whole number in every row; {AGAIN}")
    return table[label].to_numpy().astype(np.int64)


def _is_name(text: str) -> bool:
    """Whether a saved name is one step of a path."""
    return bool(text) and "/" not in text and "\0" not in text and text not in (".", "..")


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path, expected="what `save_to_disk` writes")
    if not isinstance(value, dict):
        raise DataError(f"{path} does not hold a JSON object; {AGAIN}")
    return value


def _list(value: Any, *, of: type, what: str, path: Path) -> list[Any]:
    if not isinstance(value, list) or not value or not all(isinstance(item, of) for item in value):
        raise DataError(f"{path}: {what} should be a list, and not an empty one; {AGAIN}")
    return value
