"""Lists of images: a CSV, TSV or Parquet file, or a dataset that Hugging Face's `save_to_disk` wrote.

A **file** has columns path, label and/or class_name, and split. Without a split column every image is a test image.
Labels alone need a file of class names (`class_names` in params: one per line, in label order); class names alone get
labels in sorted order.

A **saved dataset** is read without that library: root/<split>/state.json names the Arrow files, and
root/<split>/dataset_info.json the features, among them one Image and one ClassLabel column.
"""

from collections.abc import Collection, Sequence
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.listing import (
    SPLIT_NAMES,
    Label,
    ListedImage,
    Listing,
    listed,
    read_json_as,
    refusing,
    relative,
    some,
)
from wsoup.datasets.walk import require_folder, stripped_lines, subfolders
from wsoup.disk.files import LARGEST_FILE, arrow_table, reason_of

EXPECTED = "columns path, label and/or class_name, split (a CSV needs a header line that names them)"
CSV_TYPES = {"path": pa.string(), "label": pa.int64(), "class_name": pa.string(), "split": pa.string()}
ROWS_PER_BYTE = 32
"""Rows for each byte of a Parquet list. Paths differ, so a list has about one row for two bytes."""
LONGEST_TEXT = 4096
"""Bytes of a path, a class name or a split in a Parquet list; Linux takes no longer path."""
SAVED = "what `save_to_disk` writes"
SAVE_AGAIN = "save the dataset again with `save_to_disk`"


class Columns(BaseModel):
    """A list of N images by column, without empty cells."""

    model_config = ConfigDict(strict=True)

    path: list[str]
    label: list[Label] | None = None
    class_name: list[str] | None = None
    split: list[str] | None = None


def read(file: str, *, root: str, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images that a table names.

    Args:
        file: the table, relative to `root` or absolute; local where root is a URL. Its suffix says its format.
        root: folder that the table's paths are relative to, or a URL.
        wanted: the splits to list.
        class_names: file with one class name per line, in label order; or None.

    Raises:
        MissingError: no such folder or file.
        DataError: no header, missing columns, a value of the wrong type, a path that leaves the root, labels and
            class names that disagree.
    """
    path = Path(file) if remote.is_remote(root) else require_folder(root) / file
    if not path.is_file():
        raise MissingError(f"{path} does not exist; correct the file in layout 'manifest:{file}' (relative to root)")
    with refusing(path, expected=EXPECTED):
        columns = Columns.model_validate(_load(path))
    names = None if class_names is None else stripped_lines(Path(class_names), hint="expected one class name per line")
    if columns.class_name is None and (columns.label is None or names is None):
        raise DataError(
            f"{path} has no class names; add a column class_name, or a column label and set class_names to a file with "
            "one class name per line"
        )
    paths = [relative(image, origin=str(path)) for image in columns.path]
    labels = columns.label or repeat(None)
    names_of_images = columns.class_name or repeat(None)
    splits = columns.split or repeat("test")
    # Zipped without `strict`, because a repeated default has no end.
    rows = list(zip(paths, labels, names_of_images, splits, strict=False))
    return listed(rows, names=names, root=root, wanted=wanted, origin=str(path))


def _load(path: Path) -> dict[str, list[Any]]:
    """The known columns of a table."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            table = _parquet(path)
        elif suffix in (".csv", ".tsv"):
            delimiter = "\t" if suffix == ".tsv" else ","
            parse = pa_csv.ParseOptions(delimiter=delimiter)
            # Without types a column of class names that are all numbers would be read as numbers.
            convert = pa_csv.ConvertOptions(column_types=CSV_TYPES)
            table = pa_csv.read_csv(path, parse_options=parse, convert_options=convert)
        else:
            raise DataError(f"{path}: expected a .csv, .tsv or .parquet file")
        # A damaged file may be read without an error: this looks at every value.
        table.validate(full=True)
        _require_path(table.column_names, path=path)
        return {name: table[name].to_pylist() for name in CSV_TYPES if name in table.column_names}
    except (pa.ArrowException, KeyError, OSError, UnicodeError) as error:
        why = reason_of(error)
        raise DataError(f"{path} cannot be read as a list of images ({why}); expected {EXPECTED}") from None


def _parquet(path: Path) -> pa.Table:
    """A Parquet list. A few kilobytes can stand for 10^9 rows or texts of gigabytes, so sizes are read first."""
    about = pq.read_metadata(path)
    most_rows = ROWS_PER_BYTE * path.stat().st_size
    if about.num_rows > most_rows:
        raise DataError(
            f"{path} has {about.num_rows:,} rows in {path.stat().st_size:,} bytes, more than {ROWS_PER_BYTE} for each; "
            "list every image once"
        )
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    if size > LARGEST_FILE:
        raise DataError(f"{path} unpacks to {size:,} bytes, more than {LARGEST_FILE:,}; is it the right file?")
    columns = about.schema.to_arrow_schema().names
    _require_path(columns, path=path)
    known = [name for name in CSV_TYPES if name in columns]
    # A text that many rows share is held once, until its length is known.
    table = pq.read_table(path, columns=known, partitioning=None, read_dictionary=known)
    written_out = {name: _written_out(table[name], of=f"{path}: column {name}") for name in known}
    return pa.table(written_out)


def _require_path(columns: Sequence[str], *, path: Path) -> None:
    """Raise DataError for a list without paths."""
    if "path" not in columns:
        raise DataError(f"{path}: column path is missing beside {some(columns)}; expected {EXPECTED}")


def _written_out(column: pa.ChunkedArray, *, of: str) -> pa.ChunkedArray:
    """A dictionary's column with a text for each row; any other column as it is."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = []
    for chunk in column.chunks:
        longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
        if longest > LONGEST_TEXT:
            raise DataError(f"{of} holds a text of {longest:,} bytes, expected {LONGEST_TEXT:,} at most; shorten it")
        chunks.append(chunk.dictionary_decode())
    return pa.chunked_array(chunks, type=column.type.value_type)


# ----------------------------------------------------------------------------------------------------- Hugging Face


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
        our_name = SPLIT_NAMES.get(split, split)
        if our_name in wanted:
            names, images = _saved_split(base / prefix)
            if class_names and names != class_names:
                raise DataError(f"{root}: split {split!r} has other class names than those above it; {SAVE_AGAIN}")
            class_names = names
            rows += [(prefix + path, label, None, split) for path, label in images]
    return listed(rows, names=class_names, root=root, wanted=wanted, origin=root)


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
