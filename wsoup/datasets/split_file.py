"""CoOp's split files: the images of each split in one JSON object, with labels and class names."""

from pathlib import Path

from wsoup.datasets.listing import Label, read_json_as

EXPECTED = '{"train": [[path, label, class name], ...], "val": ..., "test": ...}'


def read_split_file(path: Path) -> dict[str, list[tuple[str, int, str]]]:
    """Path, label and class name of each image, by split; raises as `read_json_as`."""
    return read_json_as(path, dict[str, list[tuple[str, Label, str]]], expected=EXPECTED)
