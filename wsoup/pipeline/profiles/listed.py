"""Section datasets for a list of your own images, or for a folder of Hugging Face's Parquet files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.datasets import division, hub, manifest
from wsoup.datasets.lists import is_list, read_cells
from wsoup.datasets.tables import splits_of
from wsoup.datasets.walk import SPLIT_FOLDERS
from wsoup.params.inputs import DatasetParams


class ListedSource(NamedTuple):
    """The source.

    Attributes:
        section: of params.yaml, but for role and template.
        class_names: C names in label order.
        notes: lines to say: what is left out, and how the images are divided.
    """

    section: dict[str, object]
    class_names: list[str]
    notes: Sequence[str]


def is_listed(images: str) -> bool:
    """Whether this is a list, or such a folder."""
    if Path(images).is_dir():
        return bool(hub.shards(Path(images)))
    return is_list(images) and Path(images).is_file()


def source(images: str, *, fraction: float | None, classes: str | None) -> ListedSource:
    """The source in a list, divided as a folder with the same splits would be.

    Args:
        images: the list, to which its paths are relative; or the folder.
        fraction: share of images to test on, if there are no splits; None: half.
        classes: a file of class names, or None.

    Raises:
        MissingError, DataError: as the list's reader; no images to learn from; a fraction though there are splits.
    """
    place = Path(images).resolve()
    # DVC watches the list alone: its folder may hold much else.
    section: dict[str, object] = {"layout": f"manifest:{place}", "watch": str(place), "root": str(place.parent)}
    if place.is_dir():
        section = {"layout": "huggingface", "watch": str(place), "verify": True}
        splits = {*hub.shards(place)}
    else:
        splits = {*splits_of(read_cells(place), wanted=SPLIT_FOLDERS)}
    sides = division.of_splits([name for name in SPLIT_FOLDERS if name in splits], root=images, fraction=fraction)
    if sides.test_split != "test":
        section["test_split"] = sides.test_split
    if sides.test_fraction is not None:
        section["test_fraction"] = sides.test_fraction
    if classes is not None:
        section["class_names"] = classes
    params = DatasetParams.model_validate({"role": "source", "template": "{}", **section})
    listing = manifest.read_listing("images", params=params)
    notes = [*listing.notes, sides.note]
    return ListedSource(section, listing.class_names, [note for note in notes if note])
