"""Which images of a folder are to learn from, and which are to test on.

A folder with train/ and test/ divides its images itself. One without is divided by the digests of its images: an image
stays on its side whatever is added, removed or renamed, and everybody with the same images has the same split. The test
share of a class is the fraction on average, not exactly.

Each class keeps at least one image on each side, if it has two that differ, and its only one to learn from. So in a
class whose images would all be on one side, the one whose digest is nearest to the border changes sides; it may change
back when others are added. Copies of one image within a class lie on the same side.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from wsoup.base.errors import DataError
from wsoup.datasets import folder
from wsoup.datasets.fewshot import by_label
from wsoup.datasets.listing import Listing, Split, some
from wsoup.datasets.shape import Shape, shape_of
from wsoup.datasets.walk import SPLIT_FOLDERS, subfolders

HALF = 0.5
"""Share of test images where the user names none."""


@dataclasses.dataclass(frozen=True)
class Sides:
    """How the images of a folder are divided.

    Attributes:
        test_split: name of the split of the test images; that to learn from is always ``train``.
        test_fraction: share of test images, if `divided` is to choose them; None: folders say which these are.
        note: a line about it for the user; "" if there are train/ and test/.
        taken: a line on what is taken for classes and what for splits.
        only: the one split that is divided, or "".
    """

    test_split: str
    test_fraction: float | None
    note: str
    taken: str = ""
    only: str = ""

    @property
    def wanted(self) -> Collection[str]:
        """The splits to list."""
        if self.test_fraction is None:
            return ("train", self.test_split)
        return (self.only,) if self.only else SPLIT_FOLDERS


def sides(root: str, *, fraction: float | None = None) -> Sides:
    """How a folder of labelled images is divided: by its folders, or by digests where all images are in one place.

    With train/ and test/, val/ is not read; without test/, val/ is for testing. A folder with only one of the three, or
    with classes alone, is divided by digests.

    Args:
        root: the ImageFolder.
        fraction: share of test images that the user asks for; None: `HALF`, where it is needed.

    Raises:
        MissingError: no such folder.
        DataError: a fraction for a folder that is divided, val/ and test/ without train/, or a folder of such folders.
    """
    shape = shape_of(root)
    _check_one_dataset(shape)
    splits = folder.splits_with_images(root)
    _check_val(shape, splits=splits)
    return of_splits(splits, root=root, fraction=fraction, shape=shape)


def of_splits(splits: Sequence[str], *, root: str, fraction: float | None, shape: Shape | None = None) -> Sides:
    """`sides` of a folder with this shape, or of a list, with these splits."""
    if len(splits) < 2:
        if fraction is None:
            fraction = HALF
        place = "no train/ and test/"
        if splits:
            place = f"only {_place(shape, splits[0])}"
        note = (
            f"{root} has {place}: about {100 * fraction:g} % of the photos of each class are for testing, chosen by "
            "their digests"
        )
        if shape is None:
            return Sides("test", fraction, note)
        return Sides("test", fraction, note, shape.taken(roles=dict.fromkeys(splits, "divided")), *splits)
    if fraction is not None:
        raise _is_divided(root, splits)
    if "train" not in splits:
        raise DataError(
            f"{root} has val/ and test/, but no train/ to learn from; rename val/ to train/, or put the classes side "
            "by side without these folders to have them divided"
        )
    test_split = of_target(splits)
    note = ""
    if test_split != "test":
        note = f"{root} has no test/: the photos in {_place(shape, test_split)} are for testing"
    taken = ""
    if shape is not None:
        taken = shape.taken_for(test_split)
    return Sides(test_split, None, note, taken)


def _place(shape: Shape | None, split: str) -> str:
    """The folder of a split as it is called: ``Test/``."""
    if shape is None:
        return f"{split}/"
    return f"{shape.splits[split].relative_to(shape.base).as_posix()}/"


def _check_val(shape: Shape, *, splits: Collection[str]) -> None:
    """Refuse photos for validation without classes, if the other photos are to be tested on."""
    place = shape.flat.get("val")
    if place is not None and "test" not in splits:
        raise DataError(
            f"{place} holds photos but no folder for each class; move each photo into {place}/<class>/ (a list beside "
            f"them, such as val_annotations.txt, may name the classes), or move {place} elsewhere, and "
            f"{_place(shape, 'train')} is divided"
        )


def _check_one_dataset(shape: Shape) -> None:
    """Refuse a folder of several datasets, whose names would be taken for those of classes."""
    if shape.splits:
        return
    inner = [name for name in subfolders(shape.base) if shape_of(shape.base / name).splits]
    if inner:
        raise DataError(
            f"{shape.base} holds folders with train/, val/ or test/, which are datasets and not classes: "
            f"{some(inner)}; name one of them"
        )


def of_target(splits: Collection[str]) -> str:
    """The split to test on, of those that `folder.splits_with_images` names: test, or val where there is no test/."""
    if "val" in splits and "test" not in splits:
        return "val"
    return "test"


def undivided(listing: Listing) -> Split:
    """All images of a folder that does not divide them; DataError if it does."""
    if len(listing.splits) > 1:
        raise _is_divided(listing.origin, listing.splits)
    (images,) = listing.splits.values()
    return images


def _is_divided(root: str, splits: Collection[str]) -> DataError:
    return DataError(
        f"{root} is divided into {', '.join(splits)} already; a test fraction is for a folder whose images are all in "
        "one place: leave it out, or put the classes side by side without these folders"
    )


def divided(listing: Listing, digests: Sequence[str], *, fraction: float, test_split: str) -> Listing:
    """Split a folder of classes into train and `test_split`.

    Args:
        listing: as `folder.read` lists it.
        digests: SHA-256 of its `undivided` images, in hex.
        fraction: share of test images, between 0 and 1.
        test_split: name of the split of the test images.

    Raises:
        DataError: it is divided already, or no class has two images that differ.
    """
    images = undivided(listing)
    for_test = np.zeros(len(images.paths), dtype=bool)
    for members in by_label(images, n_classes=len(listing.class_names)):
        of_class = [digests[i] for i in members.tolist()]
        chosen = set(for_testing(of_class, fraction=fraction))
        for_test[members] = [digest in chosen for digest in of_class]
    if not for_test.any():
        raise DataError(
            f"{listing.origin}: no class has two images that differ, so that none is left to test on; add some"
        )
    splits = {}
    for name, mask in (("train", ~for_test), (test_split, for_test)):
        paths = [images.paths[i] for i in np.flatnonzero(mask).tolist()]
        splits[name] = Split(paths, images.labels[mask])
    origin = f"{listing.origin} ({100 * fraction:g} % for testing, by digest)"
    return dataclasses.replace(listing, splits=splits, origin=origin)


def for_testing(digests: Iterable[str], *, fraction: float) -> list[str]:
    """Which of one class's digests are those of test images.

    >>> for_testing(["3f" + 62 * "0", "40" + 62 * "0"], fraction=0.25) == ["3f" + 62 * "0"]
    True
    >>> for_testing(["a0" + 62 * "0", "90" + 62 * "0"], fraction=0.25) == ["90" + 62 * "0"]
    True
    """
    different = sorted({*digests})
    if len(different) < 2:
        return []
    # Test images are those with the smallest digests, so at least one and not all of the sorted ones.
    n_test = sum(_is_below(digest, fraction=fraction) for digest in different)
    return different[: min(max(n_test, 1), len(different) - 1)]


def _is_below(digest: str, *, fraction: float) -> bool:
    """Whether a SHA-256, in hex, lies in this share of all numbers of 256 bits."""
    return int(digest[:13], 16) < fraction * 16**13  # 52 bits, which a float holds
