"""What a place of labelled photos is, if it holds no class folders: shards, lists, or the hub's Parquet files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import MissingError
from wsoup.datasets import division, hub, listed_folder, webdataset
from wsoup.datasets.division import Sides
from wsoup.datasets.found_files import root_of
from wsoup.datasets.layouts import listed_by_layout
from wsoup.datasets.listing import Listing, split_name, validated
from wsoup.datasets.lists import is_list, read_cells
from wsoup.datasets.tables import splits_of
from wsoup.datasets.walk import SPLIT_FOLDERS, names_in, subfolders
from wsoup.disk.files import shown
from wsoup.params.inputs import DatasetParams


class Given(NamedTuple):
    """Labelled photos that are no class folders.

    Attributes:
        section: of params.yaml, but for role and template.
        sides: which photos are for testing.
        listing: all photos of the wanted splits, not divided yet.
    """

    section: dict[str, object]
    sides: Sides
    listing: Listing

    @property
    def notes(self) -> Sequence[str]:
        """Lines to say: what was taken for what, what is left out, and how the photos are divided."""
        return [note for note in (*self.listing.notes, self.sides.note) if note]


def is_given(place: str) -> bool:
    """Whether a place is not a folder of class folders, but of another form that is read."""
    if Path(place).is_dir():
        return bool(_layout(Path(place)))
    return Path(place).is_file() and is_list(place)


def _layout(folder: Path) -> str:
    """The layout of a folder that holds no class folders; "" if it holds some, or nothing that is known."""
    if hub.shards(folder) or _is_saved(folder):
        return "huggingface"
    if webdataset.shards(folder):
        return "webdataset"
    return "listed" if listed_folder.is_listed_folder(str(folder)) else ""


def _is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote a folder."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def given(images: str, *, fraction: float | None, classes: str | None) -> Given:
    """The photos of a place, which `is_given`, divided as a folder with the same splits would be.

    Args:
        images: the list, to which its paths are relative; or the folder.
        fraction: share of images to test on, if there are no splits; None: half.
        classes: a file of class names, or None.

    Raises:
        MissingError, DataError: as the layout's reader; no images to learn from; a fraction though there are splits; a
            list whose first file is missing.
    """
    place = Path(images).resolve()
    # DVC watches the list alone: its folder may hold much else.
    section: dict[str, object] = {"layout": f"manifest:{place}", "watch": str(place)}
    if place.is_file():
        section["root"] = str(root_of(place, cells=read_cells(place)))
    else:
        section = {"layout": _layout(place), "watch": str(place), "verify": True}
    sides = division.of_splits(_splits(place, layout=str(section["layout"])), root=images, fraction=fraction)
    if sides.test_split != "test":
        section["test_split"] = sides.test_split
    if sides.test_fraction is not None:
        section["test_fraction"] = sides.test_fraction
    if classes is not None:
        section["class_names"] = classes
    templates = webdataset.templates_file(str(place)) if section["layout"] == "webdataset" else None
    if templates is not None:
        section["templates"] = str(templates)
    params = DatasetParams.model_validate({"role": "source", "template": "{}", **section})
    listing = validated(listed_by_layout("images", params=params))
    if section["layout"] == "listed" or place.is_file():
        _check_there(listing)
    return Given(section, sides, listing)


def _check_there(listing: Listing) -> None:
    """Refuse a list whose first file is missing: most often all lie elsewhere, or are called otherwise."""
    paths = [path for split in listing.splits.values() for path in split.paths]
    first = Path(listing.root, paths[0])
    # A picture that a Parquet file holds lies below that file.
    if os.path.lexists(first) or any(parent.is_file() for parent in first.parents):
        return
    n_missing = sum(not os.path.lexists(Path(listing.root, path)) for path in paths)
    like = ""
    if first.parent.is_dir():
        alike = [name for name in names_in(first.parent) if Path(name).stem.casefold() == first.stem.casefold()]
        like = f" (there is {shown(alike[0])})" if alike else ""
    raise MissingError(
        f"{listing.origin}: {n_missing:,} of {len(paths):,} listed files are not there; the first, "
        f"{shown(paths[0])!r}, was looked for at {shown(str(first))}{like}, and by its name below {listing.root}: "
        "correct the paths, which are relative to that folder, or move the list"
    )


def _splits(place: Path, *, layout: str) -> list[str]:
    """The splits of a place, in our order; one of test images alone is none."""
    if layout == "huggingface":
        saved = {split_name(name) for name in subfolders(place) if (place / name / "state.json").is_file()}
        found = {*hub.shards(place)} or saved
    elif layout == "webdataset":
        found = {*webdataset.shards(place)}
    elif layout == "listed":
        found = {*listed_folder.splits_in(str(place))}
    else:
        found = {*splits_of(read_cells(place), wanted=SPLIT_FOLDERS)}
    # Images that nothing divides are all for testing, as those of a folder of classes alone.
    return [] if found == {"test"} else [name for name in SPLIT_FOLDERS if name in found]
