"""LAION as the source: training images of anyone's retrieval by ImageNet class, tested on ImageNet's validation set.

The paper's table of a 16-shot subset of LAION; the authors' images are not published. ``layout: laion:IMAGES`` takes a
folder with a folder for each class, or webdataset tars, below IMAGES or IMAGES/train. A class is named by its wnid
(``n01440764``), its class name or its label number: as the folder, or in a tar in a ``.cls`` member beside the image or
as the folder in front of the member's name. The root is CoOp's data root, for ImageNet's test images.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from wsoup.core.errors import DataError, ParamsError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets import coop
from wsoup.datasets.folder import list_split, prefix_of, require_folder, subfolders
from wsoup.datasets.listing import Listing, Split, some, split_of
from wsoup.datasets.webdataset import images_in

NAMED = "a wnid, an ImageNet class name or a label number"


def read(images: str, *, root: str, imagenet_names: Callable[[], list[str]]) -> Listing:
    """ImageNet's classes and test images, and the training images below `images`.

    Args:
        images: the folder of LAION's images.
        root: CoOp's data root.
        imagenet_names: ImageNet's class names, called where no classnames.txt gives them.

    Raises:
        ParamsError: no folder is named.
        MissingError: a folder is not there.
        DataError: no images, a class that is none of ImageNet's, an image in a tar without a class.
    """
    if not images:
        raise ParamsError("layout 'laion:' names no folder; write laion:FOLDER, that of LAION's images by class")
    target = coop.read("imagenet", root=root, wanted={"test"}, imagenet_names=imagenet_names)
    base, place = Path(os.path.abspath(target.root)), Path(os.path.abspath(require_folder(images)))
    place = place / "train" if (place / "train").is_dir() else place
    common = Path(os.path.commonpath([base, place]))
    labels = labels_of(target)
    tars = sorted(place.glob("*.tar"))
    if tars:
        train = split_of([row for tar in tars for row in _in_tar(tar, labels=labels)])
    else:
        train = _in_folders(place, labels=labels)
    if not train.paths:
        raise DataError(f"{place} holds no images; expected <class>/<image>, or *.tar, with {NAMED} for a class")
    splits = {"test": target.split("test"), "train": train}
    moved = {
        name: Split([prefix_of(common, at) + path for path in split.paths], split.labels)
        for (name, split), at in zip(splits.items(), (base, place), strict=True)
    }
    return Listing(str(common), target.class_names, moved, origin=images, names_may_repeat=True)


def labels_of(imagenet: Listing) -> dict[str, int]:
    """What a class may be called -> its label; a name that two classes have is none."""
    names: dict[str, list[int]] = {}
    for label, name in enumerate(imagenet.class_names):
        names.setdefault(name.lower(), []).append(label)
    labels = {name: alike[0] for name, alike in names.items() if len(alike) == 1}
    labels |= {str(label): label for label in range(len(imagenet.class_names))}
    test = imagenet.split("test")
    folders = [PurePosixPath(path).parent.name for path in test.paths]
    return labels | {name: int(label) for name, label in zip(folders, test.labels, strict=True) if name != "val"}


def _label(name: str, *, labels: Mapping[str, int]) -> int | None:
    name = name.strip()
    return labels.get(name, labels.get(clean_class_name(name).lower() if name else name))


def _in_folders(place: Path, *, labels: Mapping[str, int]) -> Split:
    folders = sorted(subfolders(place))
    unknown = [name for name in folders if _label(name, labels=labels) is None]
    if unknown:
        raise DataError(f"{place} has folders that are not classes of ImageNet: {some(unknown)}; expected {NAMED}")
    listed = list_split(place, folder=place, classes=folders)
    known = [_label(name, labels=labels) or 0 for name in folders]
    return split_of([(path, known[label]) for path, label in zip(listed.paths, listed.labels.tolist(), strict=True)])


def _in_tar(tar: Path, *, labels: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """(path, label) of each image in one tar, in its order."""
    for name, stated in images_in(tar):
        called = PurePosixPath(name).parent.name if stated is None else stated
        label = _label(called, labels=labels)
        if label is None:
            raise DataError(f"{tar}: image {name!r} is of class {called[:40]!r}, none of ImageNet's; expected {NAMED}")
        yield f"{tar.name}/{name}", label
