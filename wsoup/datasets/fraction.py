"""A folder of classes without a split, divided into training and test images by what the images hold.

An image's own digest says on which side it is. So it stays there whatever is added, removed or renamed, two copies of
one photograph never lie on both sides, and everybody with the same images has the same split. The share of a class is
the fraction on average, not to the image.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from wsoup.core.errors import DataError
from wsoup.datasets import digests
from wsoup.datasets.listing import Listing, Split


def is_test(digest: str, *, fraction: float) -> bool:
    """Whether an image of this SHA-256, in hex, is a test image.

    >>> is_test("3f" + 62 * "0", fraction=0.25), is_test("40" + 62 * "0", fraction=0.25)
    (True, False)
    """
    return int(digest[:13], 16) < fraction * 16**13  # 52 bits, which a float holds


def divided(listing: Listing, *, fraction: float, test_split: str) -> Listing:
    """The listing of a folder without a split, with the splits train and `test_split`.

    Args:
        listing: as `wsoup.datasets.folder` lists it: all images in ``test``.
        fraction: share of test images, between 0 and 1.
        test_split: what the test images are called.

    Raises:
        DataError: the folder has splits already.
        MissingError: an image is gone.
    """
    if set(listing.splits) != {"test"} or any(path.startswith("test/") for path in listing.splits["test"].paths):
        raise DataError(
            f"{listing.origin} is divided into {', '.join(listing.splits)} already; test_fraction is for a folder of "
            "classes without train/ and test/: remove it, or move the classes up"
        )
    every = listing.splits["test"]
    of_images = digests.of_images(listing.root, every.paths, origin=listing.origin)
    chosen = np.array([is_test(digest, fraction=fraction) for digest in of_images.hexes], dtype=bool)

    def part(mask: np.ndarray) -> Split:
        return Split([every.paths[i] for i in np.flatnonzero(mask).tolist()], every.labels[mask])

    origin = f"{listing.origin} ({100 * fraction:g} % for testing, by digest)"
    return dataclasses.replace(listing, splits={"train": part(~chosen), test_split: part(chosen)}, origin=origin)
