"""Labelled photos, in folders or as they were distributed: their classes, their names, and which are held out.

Nothing here loads a model, so that whatever is wrong with a folder is said at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsoup.base.class_names import shared_names
from wsoup.base.errors import DataError
from wsoup.base.folder_names import changes, proposed
from wsoup.base.templates import oddity
from wsoup.core import prompts
from wsoup.datasets import division, fewshot, folder
from wsoup.datasets.division import Sides
from wsoup.datasets.few_images import none_to_test_on
from wsoup.datasets.given import given, is_given
from wsoup.datasets.hashing import hashed
from wsoup.datasets.left_out import left_out
from wsoup.datasets.listing import Listing, validated
from wsoup.datasets.walk import require_photos


@dataclass(frozen=True)
class LabelledPhotos:
    """A folder of photos before any model is loaded.

    Attributes:
        paths: files, those of the head first.
        labels: (N,) int64.
        n_train: number of photos for the head.
        names: class name by folder, in label order.
        template, seed: of the prompts and of the draws.
        notes: lines to say.
        taken: a line on what is taken for classes and what for splits.
    """

    paths: list[str]
    labels: Tensor
    n_train: int
    names: dict[str, str]
    template: str
    seed: int
    notes: list[str]
    taken: str = ""

    @property
    def class_names(self) -> list[str]:
        """C names in label order."""
        return list(self.names.values())


def look(root: str, *, shots: int, seed: int, template: str, classes: str | None) -> LabelledPhotos:
    """List photos, name their classes and divide them.

    Args:
        root: <class>/<image>, or train/<class>/<image> and test/<class>/<image>; `division.sides` has the rule. Or what
            `wsoup.datasets.given` reads: shards, a list, a folder with lists.
        shots: training photos of each class for the head, or as many as it has.
        seed: of the draws.
        template: prompt template with one ``{}``.
        classes: a file of class names, of folders or in label order; None: those of root/classnames.txt, or else
            proposed ones.

    Raises:
        MissingError, DataError, ParamsError: no such folder, one class, nothing to learn a class from or to test on,
            or a bad template.
    """
    template = prompts.checked(template)
    found = _listed(root, classes=classes) if is_given(root) else _in_folders(root, classes=classes)
    listing = found.listing
    sides = found.sides
    notes = [line for line in (*found.notes, sides.note, oddity(template), found.renamed) if line]
    if sides.test_fraction is not None:
        images = division.undivided(listing)
        # Not from the cache of digests, which the pipeline keeps and which needs pyarrow.
        digests = [digest for _, digest in hashed(listing.root, images.paths)]
        listing = division.divided(listing, digests, fraction=sides.test_fraction, test_split=sides.test_split)
    notes += [line for line in [shared_names(list(found.names.values()))] if line]
    notes += none_to_test_on(listing, test_split=sides.test_split)
    train = listing.split("train")
    test = listing.split(sides.test_split)
    drawn = fewshot.draw(train, class_names=listing.class_names, shots=shots, seed=seed, origin=root)
    paths = [train.paths[i] for i in drawn.tolist()] + test.paths
    labels = torch.from_numpy(np.concatenate([train.labels[drawn], test.labels]))
    files = [str(Path(listing.root) / path) for path in paths]
    return LabelledPhotos(files, labels, len(drawn), found.names, template, seed, notes, sides.taken)


class _Found(NamedTuple):
    """Photos and the names of their classes.

    Attributes:
        listing: all photos, not divided yet where `sides` asks for it.
        sides: which are for testing.
        names: class name by folder, or by what a list calls the class.
        notes: lines about what is left out.
        renamed: a line about classes that are called otherwise than their folders, or "".
    """

    listing: Listing
    sides: Sides
    names: dict[str, str]
    notes: list[str]
    renamed: str


def _in_folders(root: str, *, classes: str | None) -> _Found:
    """The photos of class folders."""
    require_photos(root)
    sides = division.sides(root)
    listing = validated(folder.read(root, wanted=sides.wanted, class_names=classes))
    folder.check_several(listing, wanted=sides.wanted)
    names = dict(zip(folder.class_folders(root, wanted=sides.wanted), listing.class_names, strict=True))
    named_by_user = classes is not None or (Path(root) / "classnames.txt").exists()
    renamed = ""
    if not named_by_user:
        names, renamed = _proposed(names)
    return _Found(listing, sides, names, [*listing.notes, *left_out(root)], renamed)


def _listed(root: str, *, classes: str | None) -> _Found:
    """The photos of shards and lists."""
    found = given(root, fraction=None, classes=classes)
    listing = found.listing
    if len(listing.class_names) < 2:
        raise DataError(f"{root} has one class, {listing.class_names[0]!r}; photos are told apart between two or more")
    # Of classes that share a name each keeps its position, too.
    count = Counter(listing.class_names)
    keys = [name if count[name] == 1 else f"{label}" for label, name in enumerate(listing.class_names)]
    names = dict(zip(keys, listing.class_names, strict=True))
    renamed = ""
    if classes is None:
        names, renamed = _proposed(names)
    return _Found(listing, found.sides, names, [*listing.notes], renamed)


def _proposed(names: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Class names that read better than those of folders, by folder, and a line about them."""
    better = dict(zip(names, proposed(list(names)), strict=True))
    renamed = changes(better)
    if not renamed:
        return better, ""
    return better, f"classes are named {renamed}; --classes FILE gives other names, like classes.txt in --out"
