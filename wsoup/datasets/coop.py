"""CoOp's folders for the paper's 15 datasets, under one data root (KaiyangZhou/CoOp, DATASETS.md).

Ten datasets have a JSON split file, ``{"train": [[path, label, class name], ...], "val": ..., "test": ...}``; ImageNet
and its four shifts are folders with CoOp's ``classnames.txt``; Aircraft has text lists. A missing split file is an
error: no random split ever replaces it.

`read_laion` lists the source of the paper's LAION table: images of LAION, retrieved by ImageNet class, for training and
ImageNet's validation set for testing. The authors' images are not published.
"""

import dataclasses
import os
from collections.abc import Collection
from pathlib import Path

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.datasets.class_lines import names_of, read_class_names, stripped_lines
from wsoup.datasets.listing import ListedImage, Listing, listing_of, relative
from wsoup.datasets.paper import PAPER, PaperDataset
from wsoup.datasets.split_file import read_split_file
from wsoup.datasets.walk import (
    SPLIT_FOLDERS,
    list_split,
    prefix_of,
    require_folder,
    subfolders,
)


def read(name: str, *, root: str, wanted: Collection[str]) -> Listing:
    """List one of the 15 datasets.

    Args:
        name: a key of `paper.PAPER`, for example ``caltech101``.
        root: the data root that holds all folders, or this dataset's own folder.
        wanted: the splits to list.

    Raises:
        ParamsError: no such dataset.
        MissingError: the folder, the split file or classnames.txt does not exist.
        DataError: one of these files is malformed.
    """
    if name not in PAPER:
        raise ParamsError(f"layout 'coop:{name}': expected one of {', '.join(PAPER)}")
    paper = PAPER[name]
    base = require_folder(root)
    place = _place(base, paper)
    if not place.is_dir():
        raise MissingError(f"{place} does not exist; {paper.title} is expected there (docs/datasets.md)")
    if paper.splits:
        return _json_splits(base, place=place, paper=paper, wanted=wanted)
    if name == "fgvc_aircraft":
        return _aircraft(base, place=place, wanted=wanted)
    if name == "imagenet":
        return _imagenet(base, place=place, train=place / "images" / "train", wanted=wanted)
    return _shift(base, place=place, paper=paper)


def read_laion(images: str, *, root: str, wanted: Collection[str]) -> Listing:
    """ImageNet's classes and test images, with training images of LAION in folders named by wnid (``n01440764``).

    Args:
        images: the folder that holds LAION's folders.
        root: CoOp's data root, for ImageNet's test images.
        wanted: the splits to list.

    Raises: as `read`.
    """
    # Absolute, because one may be given from the working folder and the other from the file system's root.
    base = Path(os.path.abspath(require_folder(root)))
    train = Path(os.path.abspath(require_folder(images)))
    common = Path(os.path.commonpath([base, train]))
    listing = _imagenet(common, place=_place(base, PAPER["imagenet"]), train=train, wanted=wanted)
    return dataclasses.replace(listing, origin=images)


def _place(base: Path, paper: PaperDataset) -> Path:
    place = base / paper.folder
    # The root may be the dataset's own folder already, unless it holds another folder of that name.
    if base.name == paper.folder and not place.is_dir():
        return base
    return place


# ------------------------------------------------------------------------------------------------ JSON split files


def _json_splits(base: Path, *, place: Path, paper: PaperDataset, wanted: Collection[str]) -> Listing:
    path = place / paper.splits
    if not path.is_file():
        raise MissingError(
            f"{path} does not exist; put {paper.title}'s split file there (KaiyangZhou/CoOp, DATASETS.md); "
            "a random split would not be comparable, so none is made"
        )
    by_split = read_split_file(path)
    prefix = prefix_of(base, place / paper.images)
    rows: list[ListedImage] = []
    for split, images in by_split.items():
        for image, label, class_name in images:
            image_path = prefix + relative(image, origin=str(path))
            rows.append((image_path, label, class_name, split))
    return listing_of(rows, root=str(base), wanted=wanted, origin=str(path))


# -------------------------------------------------------------------------------------------------------- Aircraft


def _aircraft(base: Path, *, place: Path, wanted: Collection[str]) -> Listing:
    """variants.txt holds the class names in label order, images_variant_<split>.txt lines of ``image variant``."""
    hint = "it comes with FGVC-Aircraft (docs/datasets.md)"
    prefix = prefix_of(base, place / "images")
    origin = str(place / "images_variant_*.txt")
    names = stripped_lines(place / "variants.txt", hint=hint)
    rows: list[ListedImage] = []
    for split in SPLIT_FOLDERS:
        if split not in wanted:
            continue
        for line in stripped_lines(place / f"images_variant_{split}.txt", hint=hint):
            # A variant's name may hold spaces, an image's number does not.
            image, _, variant = line.partition(" ")
            image_path = f"{prefix}{relative(image, origin=origin)}.jpg"
            rows.append((image_path, None, variant, split))
    return listing_of(rows, names=names, root=str(base), wanted=wanted, origin=origin)


# ------------------------------------------------------------------------------------------- ImageNet and its shifts


def _imagenet(base: Path, *, place: Path, train: Path, wanted: Collection[str]) -> Listing:
    """Folders by wnid; the validation set is the test set, as in CoOp. Labels follow the sorted wnids."""
    folders = {"train": train, "test": place / "images" / "val"}
    classes_of = {name: subfolders(folder) for name, folder in folders.items() if folder.is_dir()}
    for name, folder in folders.items():
        if name in wanted and not classes_of.get(name):
            raise MissingError(
                f"{folder} has no folders of classes; sort ImageNet's images into folders by wnid there (CoOp's "
                "DATASETS.md)"
            )
    # The classes of both folders, wanted or not: a label must not depend on which splits are listed.
    classes = sorted(set().union(*classes_of.values()))
    splits = {name: list_split(base, folder=folders[name], classes=classes) for name in folders if name in wanted}
    renamed, origin = _class_names(place)
    names = names_of(classes, renamed=renamed, origin=origin)
    return Listing(str(base), names, splits, origin=str(place / "images"), names_may_repeat=True)


def _shift(base: Path, *, place: Path, paper: PaperDataset) -> Listing:
    """Class folders of test images, named by wnid; ImageNet-V2's are ImageNet's label numbers."""
    images = place / paper.images
    if not images.is_dir():
        raise MissingError(f"{images} does not exist; {paper.title}'s class folders are expected there")
    classes = subfolders(images)
    renamed, origin = _class_names(place)
    if all(name.isdecimal() for name in classes):
        wnids = sorted(renamed)
        renamed = {str(label): renamed[wnid] for label, wnid in enumerate(wnids)}
        if set(classes) != set(renamed):
            raise DataError(f"{images}: folders must be numbered 0 to {len(renamed) - 1}, as {origin} has classes")
        # `renamed` is in label order, 0, 1, 2, ..., where sorted names would put 10 before 2.
        classes = list(renamed)
    splits = {"test": list_split(base, folder=images, classes=classes)}
    names = names_of(classes, renamed=renamed, origin=origin)
    return Listing(str(base), names, splits, origin=str(images), names_may_repeat=True)


def _class_names(place: Path) -> tuple[dict[str, str], str]:
    """Class name by wnid from a dataset's own classnames.txt, or else ImageNet's, and that file."""
    file = place / "classnames.txt"
    if not file.is_file():
        file = place.parent / "imagenet" / "classnames.txt"
    return read_class_names(file), str(file)
