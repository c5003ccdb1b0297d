"""A folder of labelled photos: its classes, their names, and which photos are held out.

Nothing here loads a model, so that whatever is wrong with a folder is said at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsoup.base.class_names import shared_names
from wsoup.base.folder_names import changes, proposed
from wsoup.base.templates import oddity
from wsoup.core import prompts
from wsoup.datasets import division, fewshot, folder
from wsoup.datasets.few_images import none_to_test_on
from wsoup.datasets.hashing import hashed
from wsoup.datasets.left_out import left_out
from wsoup.datasets.listing import validated
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
    """List a folder, name its classes and divide its photos.

    Args:
        root: <class>/<image>, or train/<class>/<image> and test/<class>/<image>; `division.sides` has the rule.
        shots: training photos of each class for the head, or as many as it has.
        seed: of the draws.
        template: prompt template with one ``{}``.
        classes: a file of class names by folder; None: those of root/classnames.txt, or else proposed ones.

    Raises:
        MissingError, DataError, ParamsError: no such folder, one class, nothing to learn a class from or to test on,
            or a bad template.
    """
    require_photos(root)
    template = prompts.checked(template)
    sides = division.sides(root)
    listing = validated(folder.read(root, wanted=sides.wanted, class_names=classes))
    folder.check_several(listing, wanted=sides.wanted)
    notes = [*listing.notes, *left_out(root)]
    notes += [line for line in (sides.note, oddity(template)) if line]
    names = dict(zip(folder.class_folders(root, wanted=sides.wanted), listing.class_names, strict=True))
    named_by_user = classes is not None or (Path(root) / "classnames.txt").exists()
    if not named_by_user:
        names = dict(zip(names, proposed(list(names)), strict=True))
        renamed = changes(names)
        if renamed:
            notes.append(f"classes are named {renamed}; --classes FILE gives other names, like classes.txt in --out")
    if sides.test_fraction is not None:
        images = division.undivided(listing)
        # Not from the cache of digests, which the pipeline keeps and which needs pyarrow.
        digests = [digest for _, digest in hashed(root, images.paths)]
        listing = division.divided(listing, digests, fraction=sides.test_fraction, test_split=sides.test_split)
    notes += [line for line in [shared_names(list(names.values()))] if line]
    notes += none_to_test_on(listing, test_split=sides.test_split)
    train = listing.split("train")
    test = listing.split(sides.test_split)
    drawn = fewshot.draw(train, class_names=listing.class_names, shots=shots, seed=seed, origin=root)
    paths = [train.paths[i] for i in drawn.tolist()] + test.paths
    labels = torch.from_numpy(np.concatenate([train.labels[drawn], test.labels]))
    files = [str(Path(root) / path) for path in paths]
    return LabelledPhotos(files, labels, len(drawn), names, template, seed, notes, sides.taken)
