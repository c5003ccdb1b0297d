"""A dataset as Hugging Face's `save_to_disk` wrote it, read without that library.

root/<split>/state.json names the Arrow files, and root/<split>/dataset_info.json the features, among them one Image and
one ClassLabel column.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.listing import ListedImage, Listing, listing_of, read_json_as, split_name
from wsoup.datasets.walk import require_folder, subfolders
from wsoup.disk.files import arrow_table, reason_of

SAVED = "what `save_to_disk` writes"
SAVE_AGAIN = "save the dataset again with `save_to_disk`"


class _Feature(BaseModel):
    kind: str = Field("", alias="_type")
    names: Annotated[list[str], Field(min_length=1)] | None = None


class _Info(BaseModel):
    features: dict[str, _Feature]


class _File(BaseModel):
    filename: Annotated[str, Field(pattern=r"^[^./\x00][^/\x00]*$")]


class _State(BaseModel):
    files: Annotated[list[_File], Field(alias="_data_files", min_length=1)]


def read_saved(root: str, *, wanted: Collection[str]) -> Listing:
    """List the images of a saved DatasetDict, or of a single saved Dataset as a test split.

    Paths look like ``test/data-00000-of-00001.arrow/image/17``.

    Raises:
        MissingError: no such folder, or nothing was saved in it.
        DataError: not exactly one Image and one ClassLabel column, images stored outside the Arrow files, splits with
            different class names, damaged files.
    """
    base = require_folder(root)
    splits = {name: f"{name}/" for name in subfolders(base) if (base / name / "state.json").is_file()}
    # A single saved Dataset has its state.json in the folder itself.
    if (base / "state.json").is_file():
        splits = {"test": ""}
    if not splits:
        raise MissingError(f"{base} holds no dataset saved by `save_to_disk` (no folder in it has a state.json)")
    class_names: list[str] = []
    rows: list[ListedImage] = []
    for split, prefix in splits.items():
        our_name = split_name(split)
        if our_name in wanted:
            names, images = _saved_split(base / prefix)
            if class_names and names != class_names:
                raise DataError(f"{root}: split {split!r} has other class names than those above it; {SAVE_AGAIN}")
            class_names = names
            rows += [(prefix + path, label, None, split) for path, label in images]
    return listing_of(rows, names=class_names, root=root, wanted=wanted, origin=root)


def _saved_split(folder: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """Class names of one split, and path (from its folder) and label of each image."""
    files = read_json_as(folder / "state.json", _State, expected=SAVED).files
    features = read_json_as(folder / "dataset_info.json", _Info, expected=SAVED).features
    images = [name for name, feature in features.items() if feature.kind == "Image"]
    classes = [name for name, feature in features.items() if feature.kind == "ClassLabel" and feature.names]
    if len(images) != 1 or len(classes) != 1:
        raise DataError(
            f"{folder}: expected one Image and one ClassLabel column, found {images} and {classes}; "
            "remove or cast columns and save it again"
        )
    (image,) = images
    (label_column,) = classes
    rows = []
    for file in files:
        name = file.filename
        labels = _labels(folder / name, image=image, label=label_column)
        rows += [(f"{name}/{image}/{row}", label) for row, label in enumerate(labels)]
    return features[label_column].names or [], rows


def _labels(file: Path, *, image: str, label: str) -> list[int]:
    """N labels of one Arrow file; checks that it holds the images themselves."""
    table = arrow_table(str(file))
    try:
        cells = pc.struct_field(table[image], "bytes")
        labels = table[label].cast(pa.int64())
    except (KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{file}: expected images with their bytes in column {image!r} and whole numbers in column {label!r} "
            f"({reason_of(error)}); {SAVE_AGAIN}"
        ) from None
    if cells.null_count or labels.null_count:
        raise DataError(f"{file}: some rows have no label, or an image outside of the file; {SAVE_AGAIN}")
    return labels.to_pylist()
