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
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.folder import SPLIT_FOLDERS, read_lines, require_folder
from wsoup.datasets.listing import IMAGE_SUFFIXES, SPLIT_NAMES, Listing, Row, listed, read_json
from wsoup.datasets.tables import NAMES_HINT
from wsoup.disk.files import read_text, reason_of, regular_file
from wsoup.disk.members import arrow_table, read_bytes, tar_index

SAVED = "what `save_to_disk` writes"
SAVE_AGAIN = "save the dataset again with `save_to_disk`"

# ------------------------------------------------------------------------------------------------------- webdataset


def read_webdataset(root: str, *, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images in the tars of the wanted splits; paths look like ``test/0.tar/s0000017.webp``.

    Raises:
        MissingError: the folder, all tars, a shard or classnames.txt is missing.
        DataError: a tar is truncated, or an image has no label.
    """
    base = require_folder(root)
    names = read_lines(Path(class_names) if class_names else base / "classnames.txt", hint=NAMES_HINT)
    folders = [base / split for split in SPLIT_FOLDERS if split in wanted and (base / split).is_dir()]
    if not folders:
        raise MissingError(f"{root} has none of the folders {', '.join(wanted)} with webdataset tars")
    rows = [row for folder in folders for tar in _tars(folder) for row in _samples(tar)]
    return listed(rows, names=names, root=root, wanted=wanted, origin=root)


def images_in(tar: Path) -> Iterator[tuple[str, str | None]]:
    """Each image of a tar, in the tar's order, with the text of the ``.cls`` member beside it or None."""
    members = tar_index(str(tar), regular_file(str(tar)).st_mtime_ns)
    for name in members:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in IMAGE_SUFFIXES:
            label = f"{stem}.cls"
            yield name, read_bytes(f"{tar}/{label}").decode("utf-8", "replace") if label in members else None


def _tars(folder: Path) -> list[Path]:
    tars = sorted(folder.glob("*.tar"))
    count_file = folder / "nshards.txt"
    n_shards = _number(read_text(count_file), origin=str(count_file)) if os.path.lexists(count_file) else len(tars)
    if not tars or len(tars) < n_shards:
        raise MissingError(f"{folder} has {len(tars)} tar files, expected {max(1, n_shards)}; download the others")
    return tars


def _samples(tar: Path) -> Iterator[Row]:
    """Each image of a tar."""
    for name, label in images_in(tar):
        label_member = f"{os.path.splitext(name)[0]}.cls"
        if label is None:
            raise DataError(f"{tar}: image {name!r} has no label; expected a member {label_member}")
        number = _number(label, origin=f"{tar}: {label_member}")
        yield f"{tar.parent.name}/{tar.name}/{name}", number, None, tar.parent.name


def _number(text: str, *, origin: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 7):
        raise DataError(f"{origin} holds {text[:40]!r}, expected a number")
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
    class_names: list[str] = []
    rows: list[Row] = []
    for split, folder in _saved_splits(base).items():
        if split not in wanted:
            continue
        names, images = _arrow_split(base / folder)
        if class_names and names != class_names:
            raise DataError(f"{root}: split {folder!r} has other class names than the splits above it; {SAVE_AGAIN}")
        class_names = names
        rows += [(f"{folder}/{path}".lstrip("/"), label, None, split) for path, label in images]
    return listed(rows, names=class_names, root=root, wanted=wanted, origin=root)


Step = Annotated[str, Field(pattern=r"^[^./\x00][^/\x00]*$")]
"""A name of a file or folder, none that is hidden."""


class _Index(BaseModel):
    splits: Annotated[list[Step], Field(min_length=1)]


class _Feature(BaseModel):
    kind: str = Field("", alias="_type")
    names: Annotated[list[str], Field(min_length=1)] | None = None


class _Info(BaseModel):
    features: dict[str, _Feature]


class _File(BaseModel):
    filename: Step


class _State(BaseModel):
    files: Annotated[list[_File], Field(alias="_data_files", min_length=1)]
    indices: list[Any] | None = Field(None, alias="_indices_data_files")


def _saved_splits(base: Path) -> dict[str, str]:
    """Folder of each split, by our name of the split."""
    index = base / "dataset_dict.json"
    if not index.is_file():
        if (base / "state.json").is_file():
            return {"test": ""}
        raise MissingError(f"{base} holds no dataset saved by `save_to_disk` (dataset_dict.json or state.json)")
    names = read_json(index, _Index, expected=SAVED).splits
    folders = {SPLIT_NAMES.get(name, name): name for name in names}
    if len(folders) < len(names):
        raise DataError(f"{index} lists a split twice: {', '.join(names)}; {SAVE_AGAIN}")
    return folders


def _arrow_split(place: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """Class names of one split, and path (from its folder) and label of each image."""
    state = read_json(place / "state.json", _State, expected=SAVED)
    if state.indices:
        raise DataError(f"{place} was saved with an index over its rows; call flatten_indices() and save it again")
    features = read_json(place / "dataset_info.json", _Info, expected=SAVED).features
    images = [name for name, feature in features.items() if feature.kind == "Image"]
    classes = [name for name, feature in features.items() if feature.kind == "ClassLabel" and feature.names]
    if len(images) != 1 or len(classes) != 1:
        raise DataError(
            f"{place}: expected one Image and one ClassLabel column, found {images} and {classes}; "
            "remove or cast columns and save it again"
        )
    rows = []
    for file in state.files:
        labels = _arrow_labels(place / file.filename, image=images[0], label=classes[0])
        rows += [(f"{file.filename}/{images[0]}/{row}", label) for row, label in enumerate(labels)]
    return features[classes[0]].names or [], rows


def _arrow_labels(file: Path, *, image: str, label: str) -> list[int]:
    """N labels of one Arrow file; checks that it holds the images themselves."""
    table = arrow_table(str(file), regular_file(str(file)).st_mtime_ns)
    try:
        cells, labels = pc.struct_field(table[image], "bytes"), table[label].cast(pa.int64())
    except (KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{file}: expected images with their bytes in column {image!r} and whole numbers in column {label!r} "
            f"({reason_of(error)}); {SAVE_AGAIN}"
        ) from None
    if cells.null_count or labels.null_count:
        raise DataError(f"{file}: some rows have no label, or an image outside of the file; {SAVE_AGAIN}")
    return labels.to_pylist()
