"""A Hugging Face dataset as `save_to_disk` leaves it: Arrow files with image bytes, read without that library.

root/dataset_dict.json names the splits, root/<split>/state.json its Arrow files, root/<split>/dataset_info.json the
features: one Image and one ClassLabel column. An image's path is ``test/data-00000-of-00001.arrow/image/17``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.datasets.folder import require_folder
from wsoup.datasets.listing import Listing, Split
from wsoup.datasets.tables import SPLIT_NAMES
from wsoup.errors import DataError, MissingError
from wsoup.files import arrow_table
from wsoup.prompts import clean_class_name


def read(root: str, *, wanted: Collection[str]) -> Listing:
    """List the images of a saved DatasetDict; a saved single Dataset is a test split.

    Raises:
        MissingError: no such folder, or nothing saved in it.
        DataError: no single Image and ClassLabel column, images that are not stored inside, a filtered dataset whose
            indices were not flattened.
    """
    base = require_folder(root)
    if (base / "dataset_dict.json").is_file():
        folders = {SPLIT_NAMES.get(name, name): name for name in _json(base / "dataset_dict.json")["splits"]}
    elif (base / "state.json").is_file():
        folders = {"test": ""}
    else:
        raise MissingError(f"{root} holds no dataset saved by `save_to_disk` (dataset_dict.json or state.json)")
    names: list[str] = []
    splits = {}
    for split, folder in folders.items():
        if split in wanted:
            names, splits[split] = _split(base, folder)
    return Listing(root, [clean_class_name(name) for name in names], splits, origin=root)


def _split(base: Path, folder: str) -> tuple[list[str], Split]:
    """Class names, and the rows of one split."""
    place = base / folder
    features = _json(place / "dataset_info.json")["features"]
    images = [name for name, feature in features.items() if feature.get("_type") == "Image"]
    labels = [name for name, feature in features.items() if feature.get("_type") == "ClassLabel"]
    if len(images) != 1 or len(labels) != 1:
        raise DataError(
            f"{place}: expected one Image and one ClassLabel column, found {images} and {labels}; "
            "remove or cast columns and save it again"
        )
    state = _json(place / "state.json")
    if state.get("_indices_data_files"):
        raise DataError(f"{place} was saved with an index over its rows; call flatten_indices() and save it again")
    paths: list[str] = []
    found = []
    for entry in state["_data_files"]:
        file = place / entry["filename"]
        table = arrow_table(str(file), file.stat().st_mtime_ns)
        if table[images[0]].combine_chunks().field("bytes").null_count:
            raise DataError(f"{file}: some images are only named, not stored inside; save it again with their bytes")
        prefix = f"{folder}/{entry['filename']}/{images[0]}".lstrip("/")
        paths += [f"{prefix}/{row}" for row in range(table.num_rows)]
        found.append(table[labels[0]].to_numpy().astype(np.int64))
    return features[labels[0]]["names"], Split(paths, np.concatenate(found))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; save the dataset again with `save_to_disk`") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON ({error}); save the dataset again") from None
