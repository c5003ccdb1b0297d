"""CoOp's folders for the paper's 15 datasets, under one data root (KaiyangZhou/CoOp, DATASETS.md).

Ten datasets have a JSON split file, ``{"train": [[path, label, class name], ...], "val": ..., "test": ...}``; ImageNet
and its four shifts are folders with a ``classnames.txt``; Aircraft has text lists. A missing split file is an error: no
random split ever replaces it.

`read_laion` lists the source of the paper's LAION table: images of LAION, retrieved by ImageNet class, for training and
ImageNet's validation set for testing. The authors' images are not published.
"""

import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.containers import images_in
from wsoup.datasets.folder import (
    SPLIT_FOLDERS,
    list_split,
    names_of,
    prefix_of,
    read_class_names,
    read_lines,
    require_folder,
    subfolders,
)
from wsoup.datasets.listing import Label, Listing, Split, listed, read_json, relative, some, split_of
from wsoup.datasets.paper import PAPER, PaperDataset

SPLIT_FILE = '{"train": [[path, label, class name], ...], "val": ..., "test": ...}'
CLASS_FORMS = "a wnid, an ImageNet class name or a label number"
"""How LAION's images may name their class."""

Names = Callable[[], list[str]]


def read(name: str, *, root: str, wanted: Collection[str], imagenet_names: Names) -> Listing:
    """List one of the 15 datasets.

    Args:
        name: a key of `paper.PAPER`, for example ``caltech101``.
        root: the data root that holds all folders, or this dataset's own folder.
        wanted: the splits to list.
        imagenet_names: ImageNet's 1,000 class names in label order, called where no classnames.txt gives them.

    Raises:
        ParamsError: no such dataset.
        MissingError: the folder or the split file does not exist.
        DataError: a split file is malformed.
    """
    if name not in PAPER:
        raise ParamsError(f"layout 'coop:{name}': expected one of {', '.join(PAPER)}")
    paper = PAPER[name]
    base = require_folder(root)
    place = base if base.name == paper.folder and not (base / paper.folder).is_dir() else base / paper.folder
    if not place.is_dir():
        raise MissingError(f"{place} does not exist; {paper.title} is expected there (docs/datasets.md)")
    if paper.splits:
        return _json_splits(base, place=place, paper=paper, wanted=wanted)
    if name == "fgvc_aircraft":
        return _aircraft(base, place=place, wanted=wanted)
    if name == "imagenet":
        return _imagenet(base, place=place, wanted=wanted, imagenet_names=imagenet_names)
    return _shift(base, place=place, paper=paper, imagenet_names=imagenet_names)


def name_of(dataset: str, *, root: str) -> str:
    """Which of the 15 plain ``layout: coop`` means: the dataset's name in params, else the root folder's name."""
    names = [dataset] if dataset in PAPER else [name for name, d in PAPER.items() if d.folder == Path(root).name]
    if not names:
        raise ParamsError(
            f"datasets.{dataset}: layout 'coop' cannot tell which dataset this is; write 'coop:NAME' with one of "
            f"{', '.join(PAPER)}"
        )
    return names[0]


# ------------------------------------------------------------------------------------------------ JSON split files


def _json_splits(base: Path, *, place: Path, paper: PaperDataset, wanted: Collection[str]) -> Listing:
    path = place / paper.splits
    if not path.is_file():
        raise MissingError(
            f"{path} does not exist; put {paper.title}'s split file there (KaiyangZhou/CoOp, DATASETS.md); "
            "a random split would not be comparable, so none is made"
        )
    by_split = read_json(path, dict[str, list[tuple[str, Label, str]]], expected=SPLIT_FILE)
    prefix = prefix_of(base, place / paper.images)
    rows = [
        (prefix + relative(image, origin=str(path)), label, class_name, split)
        for split, images in by_split.items()
        for image, label, class_name in images
    ]
    return listed(rows, root=str(base), wanted=wanted, origin=str(path))


# -------------------------------------------------------------------------------------------------------- Aircraft


def _aircraft(base: Path, *, place: Path, wanted: Collection[str]) -> Listing:
    """variants.txt holds the class names in label order, images_variant_<split>.txt lines of ``image variant``."""
    hint = "it comes with FGVC-Aircraft (docs/datasets.md)"
    prefix, origin = prefix_of(base, place / "images"), str(place / "images_variant_*.txt")
    names, rows = read_lines(place / "variants.txt", hint=hint), []
    for split in [split for split in SPLIT_FOLDERS if split in wanted]:
        for line in read_lines(place / f"images_variant_{split}.txt", hint=hint):
            image, _, variant = line.partition(" ")
            rows.append((f"{prefix}{relative(image, origin=origin)}.jpg", None, variant, split))
    return listed(rows, names=names, root=str(base), wanted=wanted, origin=origin)


# ------------------------------------------------------------------------------------------- ImageNet and its shifts


def _imagenet(base: Path, *, place: Path, wanted: Collection[str], imagenet_names: Names) -> Listing:
    """images/{train,val}/<wnid>/; the validation set is the test set, as in CoOp. Labels follow the sorted wnids."""
    folders = {"train": place / "images" / "train", "test": place / "images" / "val"}
    classes_of = {name: subfolders(folder) for name, folder in folders.items() if folder.is_dir()}
    for name in wanted:
        if name in folders and not classes_of.get(name):
            raise MissingError(
                f"{folders[name]} has no folders of classes; sort ImageNet's images into folders by wnid there (CoOp's "
                "DATASETS.md)"
            )
    classes = sorted({*itertools.chain(*classes_of.values())})
    splits = {name: list_split(base, folder=folders[name], classes=classes) for name in folders if name in wanted}
    names = _names(place, classes, imagenet_names=imagenet_names, by_position=False)
    return Listing(str(base), names, splits, origin=str(place / "images"), names_may_repeat=True)


def _shift(base: Path, *, place: Path, paper: PaperDataset, imagenet_names: Names) -> Listing:
    """Class folders of test images. ImageNet-V2's folders are ImageNet's label numbers."""
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
    """Class names from classnames.txt, this dataset's own or ImageNet's, else the 1,000 of `imagenet_names`."""
    for path in (place / "classnames.txt", place.parent / "imagenet" / "classnames.txt"):
        if path.is_file():
            renamed = read_class_names(path)
            if not by_position:
                return names_of(folders, renamed=renamed, origin=str(path))
            if len(renamed) != len(folders):
                raise DataError(f"{path} names {len(renamed)} classes, but there are {len(folders)} folders")
            return [clean_class_name(renamed[wnid]) for wnid in sorted(renamed)]
    names = imagenet_names()
    if len(folders) != len(names):
        raise MissingError(
            f"{place / 'classnames.txt'} does not exist, and {len(folders)} folders are not ImageNet's "
            f"{len(names):,} classes; get CoOp's classnames.txt (docs/datasets.md)"
        )
    return [clean_class_name(name) for name in names]


# ------------------------------------------------------------------------------------------------------------ LAION


def read_laion(images: str, *, root: str, imagenet_names: Names) -> Listing:
    """ImageNet's classes and test images, with training images of LAION.

    A class is named by its wnid (``n01440764``), its class name or its label number. In a folder of images that is the
    class folder's name; in webdataset tars, the ``.cls`` member beside the image or the folder in the member's name.

    Args:
        images: the folder of LAION's images, with class folders or tars in it or in its ``train`` folder.
        root: CoOp's data root, for ImageNet's test images.
        imagenet_names: ImageNet's class names, called where no classnames.txt gives them.

    Raises:
        ParamsError: `images` is empty.
        MissingError: a folder does not exist.
        DataError: there are no images, or one has no class of ImageNet.
    """
    if not images:
        raise ParamsError("layout 'laion:' names no folder; write laion:FOLDER, the folder of LAION's images by class")
    imagenet = read("imagenet", root=root, wanted={"test"}, imagenet_names=imagenet_names)
    base, place = Path(os.path.abspath(imagenet.root)), Path(os.path.abspath(require_folder(images)))
    place = place / "train" if (place / "train").is_dir() else place
    common = Path(os.path.commonpath([base, place]))
    labels = _labels_by_name(imagenet)
    tars = sorted(place.glob("*.tar"))
    in_tars = [row for tar in tars for row in _in_tar(tar, labels=labels)]
    train = in_tars if tars else _in_folders(place, labels=labels)
    if not train:
        raise DataError(f"{place} holds no images; expected <class>/<image>, or *.tar, with {CLASS_FORMS} for a class")
    test = imagenet.split("test")
    splits = {
        "test": Split([prefix_of(common, base) + path for path in test.paths], test.labels),
        "train": split_of([(prefix_of(common, place) + path, label) for path, label in train]),
    }
    return Listing(str(common), imagenet.class_names, splits, origin=images, names_may_repeat=True)


def _labels_by_name(imagenet: Listing) -> dict[str, int]:
    """Label of each wnid, label number and lower-case class name; a name that two classes share is left out."""
    labels_of: dict[str, list[int]] = {}
    for label, name in enumerate(imagenet.class_names):
        labels_of.setdefault(name.lower(), []).append(label)
    labels = {name: shared[0] for name, shared in labels_of.items() if len(shared) == 1}
    labels |= {str(label): label for label in range(len(imagenet.class_names))}
    test = imagenet.split("test")
    folders = [PurePosixPath(path).parent.name for path in test.paths]
    return labels | {name: int(label) for name, label in zip(folders, test.labels, strict=True)}


def _class_label(name: str, *, labels: Mapping[str, int]) -> int | None:
    name = name.strip()
    return labels.get(name, labels.get(clean_class_name(name).lower()))


def _in_folders(place: Path, *, labels: Mapping[str, int]) -> list[tuple[str, int]]:
    """(path, label) of each image in class folders."""
    folders = sorted(subfolders(place))
    folder_labels = [_class_label(name, labels=labels) for name in folders]
    unknown = [name for name, label in zip(folders, folder_labels, strict=True) if label is None]
    if unknown:
        raise DataError(
            f"{place} has folders that are not classes of ImageNet: {some(unknown)}; expected {CLASS_FORMS}"
        )
    listed = list_split(place, folder=place, classes=folders)
    return [(path, folder_labels[i] or 0) for path, i in zip(listed.paths, listed.labels.tolist(), strict=True)]


def _in_tar(tar: Path, *, labels: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """(path, label) of each image of a tar, in the tar's order."""
    for name, label_text in images_in(tar):
        class_name = PurePosixPath(name).parent.name if label_text is None else label_text
        label = _class_label(class_name, labels=labels)
        if label is None:
            raise DataError(
                f"{tar}: image {name!r} is of class {class_name[:40]!r}, none of ImageNet's; expected {CLASS_FORMS}"
            )
        yield f"{tar.name}/{name}", label
