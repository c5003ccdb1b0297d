"""CoOp's folders for the paper's 15 datasets, under one data root (KaiyangZhou/CoOp, DATASETS.md).

Ten sets have a JSON split file, ``{"train": [[path, label, class name], ...], "val": ..., "test": ...}``; ImageNet and
its four shifts are folders with a ``classnames.txt``; Aircraft has text lists. A split file that is not there is an
error: no random split ever takes its place.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from wsoup.core.disk.files import read_text
from wsoup.core.errors import DataError, MissingError, ParamsError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.folder import (
    list_split,
    names_of,
    prefix_of,
    read_class_names,
    read_json,
    require_folder,
    subfolders,
)
from wsoup.datasets.listing import (
    IMAGE_SUFFIXES,
    Listing,
    Split,
    label_number,
    names_by_label,
    relative,
    some,
    split_of,
)
from wsoup.datasets.paper import PAPER, PaperDataset

Names = Callable[[], list[str]]


def read(name: str, *, root: str, wanted: Collection[str], imagenet_names: Names) -> Listing:
    """List one of the 15.

    Args:
        name: a key of `paper.PAPER`, for example ``caltech101``.
        root: the data root that holds all folders, or this dataset's own folder.
        wanted: the splits to list.
        imagenet_names: ImageNet's 1,000 class names in label order, called where no classnames.txt gives them.

    Raises:
        ParamsError: no such dataset.
        MissingError: folder or split file is not there.
        DataError: a split file does not hold what it should.
    """
    if name not in PAPER:
        raise ParamsError(f"layout 'coop:{name}': expected one of {', '.join(PAPER)}")
    paper = PAPER[name]
    base = require_folder(root)
    place = base if base.name == paper.folder and not (base / paper.folder).is_dir() else base / paper.folder
    if not place.is_dir():
        raise MissingError(f"{place} does not exist; {paper.title} is expected there (see `wsoup data layouts`)")
    if paper.splits:
        return _json_splits(base, place=place, paper=paper, wanted=wanted)
    if name == "fgvc_aircraft":
        return _aircraft(base, place=place, wanted=wanted)
    if name == "imagenet":
        return _imagenet(base, place=place, wanted=wanted, imagenet_names=imagenet_names)
    return _shift(base, place=place, paper=paper, imagenet_names=imagenet_names)


def name_of(dataset: str, *, root: str) -> str:
    """Which of the 15 plain ``layout: coop`` means: the dataset's name in params, else the root folder's name."""
    if dataset in PAPER:
        return dataset
    for name, paper in PAPER.items():
        if Path(root).name == paper.folder:
            return name
    raise ParamsError(
        f"datasets.{dataset}: layout 'coop' cannot tell which dataset this is; write 'coop:NAME' with one of "
        f"{', '.join(PAPER)}"
    )


# ------------------------------------------------------------------------------------------------ JSON split files


def _json_splits(base: Path, *, place: Path, paper: PaperDataset, wanted: Collection[str]) -> Listing:
    path = place / paper.splits
    if not path.is_file():
        raise MissingError(
            f"{path} does not exist; put {paper.title}'s split file there (KaiyangZhou/CoOp, DATASETS.md); "
            "a random split would not be comparable, so none is made"
        )
    raw = read_json(path, expected=_SPLIT_FILE)
    if not isinstance(raw, dict) or not all(isinstance(rows, list) for rows in raw.values()):
        raise DataError(f"{path} is not a CoOp split file; expected {_SPLIT_FILE}")
    rows = {name: [_row(row, path=path, split=name) for row in raw[name]] for name in raw}
    labelled = {(label, name) for split in rows.values() for _, label, name in split}
    prefix = prefix_of(base, place / paper.images)
    splits = {
        name: split_of([(prefix + relative(p, origin=str(path)), label) for p, label, _ in rows[name]])
        for name in rows
        if name in wanted
    }
    return Listing(str(base), names_by_label(sorted(labelled), origin=str(path)), splits, origin=str(path))


_SPLIT_FILE = '{"train": [[path, label, class name], ...], "val": ..., "test": ...}'


def _row(row: Any, *, path: Path, split: str) -> tuple[str, int, str]:
    if not (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[2], str)):
        raise DataError(f"{path}: {split} holds {repr(row)[:80]}; expected {_SPLIT_FILE}")
    return row[0], label_number(row[1], origin=f"{path}: {split}"), row[2]


# -------------------------------------------------------------------------------------------------------- Aircraft


def _aircraft(base: Path, *, place: Path, wanted: Collection[str]) -> Listing:
    """variants.txt holds the class names in label order; images_variant_<split>.txt lines of ``image variant``."""
    names = [line.strip() for line in _lines(place / "variants.txt")]
    label_of = {name: label for label, name in enumerate(names)}
    prefix = prefix_of(base, place / "images")
    splits = {}
    for split in ("train", "val", "test"):
        if split not in wanted:
            continue
        path = place / f"images_variant_{split}.txt"
        rows = []
        for line in _lines(path):
            image, _, variant = line.strip().partition(" ")
            if variant not in label_of:
                raise DataError(f"{path}: variant {variant!r} of image {image!r} is not in {place / 'variants.txt'}")
            rows.append((f"{prefix}{relative(image, origin=str(path))}.jpg", label_of[variant]))
        splits[split] = split_of(rows)
    cleaned = [clean_class_name(name) for name in names]
    return Listing(str(base), cleaned, splits, origin=str(place / "images_variant_*.txt"))


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise MissingError(f"{path} does not exist; it comes with FGVC-Aircraft (see `wsoup data layouts`)")
    return [line for line in read_text(path).split("\n") if line.strip()]


# ------------------------------------------------------------------------------------------- ImageNet and its shifts


def _imagenet(base: Path, *, place: Path, wanted: Collection[str], imagenet_names: Names) -> Listing:
    """images/{train,val}/<wnid>/; the validation set is the test set, as in CoOp. Labels: sorted folder names."""
    images = place / "images"
    folders = {"train": images / "train", "test": images / "val"}
    for name in wanted:
        if name in folders and not folders[name].is_dir():
            raise MissingError(f"{folders[name]} does not exist; ImageNet's images are expected there")
    classes = sorted({c for folder in folders.values() if folder.is_dir() for c in subfolders(folder)})
    solution = next(
        (f for f in (place / _SOLUTION, images / _SOLUTION, images / "val" / _SOLUTION) if f.is_file()), None
    )
    flat = solution is not None and folders["test"].is_dir() and not subfolders(folders["test"])
    answers = _flat_answers(solution) if solution is not None and flat else {}
    classes = classes or sorted(set(answers.values()))
    splits = {}
    for name, folder in folders.items():
        if name not in wanted:
            continue
        if name == "test" and answers:
            splits[name] = _flat_split(base, folder=folder, answers=answers, classes=classes, origin=str(solution))
        else:
            splits[name] = list_split(base, folder=folder, classes=classes)
    names = _names(place, classes, imagenet_names=imagenet_names, by_position=False)
    return Listing(str(base), names, splits, origin=str(images), names_may_repeat=True)


_SOLUTION = "LOC_val_solution.csv"


def _flat_answers(path: Path) -> dict[str, str]:
    """Image id -> wnid, from Kaggle's ``ImageId,PredictionString`` (``n03995372 85 1 499 272 ...``)."""
    rows = csv.DictReader(read_text(path).split("\n"))
    try:
        if not {"ImageId", "PredictionString"} <= set(rows.fieldnames or ()):
            raise DataError(f"{path}: first line must be the header ImageId,PredictionString")
        answers = [(row["ImageId"], (row["PredictionString"] or "").split()) for row in rows]
    except csv.Error as error:
        raise DataError(f"{path}, line {rows.line_num}: {error}; get the file again") from None
    return {image: words[0] for image, words in answers if words}


def _flat_split(base: Path, *, folder: Path, answers: dict[str, str], classes: list[str], origin: str) -> Split:
    label_of = {wnid: label for label, wnid in enumerate(classes)}
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in IMAGE_SUFFIXES)
    unknown = [file.name for file in files if answers.get(file.stem) not in label_of]
    if unknown:
        raise DataError(f"{origin} has no known class for {some(unknown)}; get the whole file, or remove these images")
    rows = [(prefix_of(base, folder) + file.name, label_of[answers[file.stem]]) for file in files]
    return split_of(sorted(rows, key=lambda row: (row[1], row[0])))


def _shift(base: Path, *, place: Path, paper: PaperDataset, imagenet_names: Names) -> Listing:
    """Class folders alone, all of them test images. ImageNet-V2's folders are ImageNet's label numbers."""
    images = place / paper.images
    if not images.is_dir():
        raise MissingError(f"{images} does not exist; {paper.title}'s class folders are expected there")
    classes = subfolders(images)
    numbered = all(name.isdecimal() for name in classes)
    if numbered:
        classes.sort(key=int)
        if [int(name) for name in classes] != list(range(len(classes))):
            raise DataError(f"{images}: folders must be numbered 0 to {len(classes) - 1} without gaps; unpack it again")
    names = _names(place, classes, imagenet_names=imagenet_names, by_position=numbered)
    splits = {"test": list_split(base, folder=images, classes=classes)}
    return Listing(str(base), names, splits, origin=str(images), names_may_repeat=True)


def _names(place: Path, folders: list[str], *, imagenet_names: Names, by_position: bool) -> list[str]:
    """Class names from classnames.txt here or beside ImageNet's images, else ImageNet's own 1,000."""
    for path in (place / "classnames.txt", place.parent / "imagenet" / "classnames.txt"):
        if path.is_file():
            renamed = read_class_names(path)
            if by_position:
                if len(renamed) != len(folders):
                    raise DataError(f"{path} names {len(renamed)} classes, but there are {len(folders)} folders")
                names = [renamed[wnid] for wnid in sorted(renamed)]
            else:
                names = names_of(folders, renamed=renamed, origin=str(path))
            return [clean_class_name(name) for name in names]
    everything = imagenet_names()
    if len(folders) != len(everything):
        raise MissingError(
            f"{place / 'classnames.txt'} does not exist, and {len(folders)} folders are not ImageNet's "
            f"{len(everything):,} classes; get CoOp's classnames.txt (see `wsoup data layouts`)"
        )
    return [clean_class_name(name) for name in everything]


def expected() -> Iterable[tuple[str, str, str]]:
    """What is expected where: (name, images, what says the split and class names) for each of the 15."""
    for name, paper in PAPER.items():
        images = "/".join(part for part in (paper.folder, paper.images) if part)
        if name == "imagenet":
            yield (
                name,
                f"{images}/{{train,val}}/n…/",
                f"{paper.folder}/classnames.txt (or flat val/*.JPEG + {_SOLUTION})",
            )
        elif name == "fgvc_aircraft":
            yield name, images, f"{paper.folder}/variants.txt, {paper.folder}/images_variant_{{train,val,test}}.txt"
        elif paper.splits:
            yield name, images, f"{paper.folder}/{paper.splits}"
        else:
            folders = "{0..999}/" if name == "imagenetv2" else "n…/"
            yield name, f"{images}/{folders}", f"{paper.folder}/classnames.txt"
