"""A folder of labelled photos: its classes, their names, and which photos are held out.

Nothing here loads a model, so that whatever is wrong with a folder is said at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsoup.base.errors import DataError, MissingError
from wsoup.base.folder_names import changes, proposed
from wsoup.check.left_out import left_out
from wsoup.core import prompts
from wsoup.datasets import fewshot, folder
from wsoup.datasets.listing import Listing, Split, some, validated


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
    """

    paths: list[str]
    labels: Tensor
    n_train: int
    names: dict[str, str]
    template: str
    seed: int
    notes: list[str]

    @property
    def class_names(self) -> list[str]:
        """C names in label order."""
        return list(self.names.values())


def look(root: str, *, shots: int, seed: int, template: str, classes: str | None) -> LabelledPhotos:
    """List a folder, name its classes and divide its photos.

    Args:
        root: <class>/<image>, or train/<class>/<image> and test/<class>/<image>.
        shots: photos of each class for the head, or as many as it has; without a train/ at most half of them.
        seed: of the draws.
        template: prompt template with one ``{}``.
        classes: a file of class names by folder; None: those of root/classnames.txt, or else proposed ones.

    Raises:
        MissingError, DataError, ParamsError: no such folder, one class, nothing to hold out, or a bad template.
    """
    if not Path(root).is_dir():
        raise MissingError(f"{root} is not a folder; give one of {root}/<class>/<image>")
    listing = validated(folder.read(root, class_names=classes, may_be_empty=True))
    names = dict(zip(_folders(listing), listing.class_names, strict=True))
    empty = [name for name in folder.class_folders(root) if name not in names]
    if len(names) < 2:
        raise DataError(f"{root} has one class, {listing.class_names[0]!r}; photos are told apart between two or more")
    notes = left_out(root)
    if empty:
        notes.append(f"left out, since no photo in them can be read: the class folders {some(empty)}")
    named_by_user = classes is not None or (Path(root) / "classnames.txt").exists()
    if not named_by_user:
        names = dict(zip(names, proposed(list(names)), strict=True))
        renamed = changes(names)
        if renamed:
            notes.append(f"classes are named {renamed}; --classes FILE gives other names, like classes.txt in --out")
    train, test = _divided(listing, shots=shots, seed=seed)
    if not test.paths:
        raise DataError(f"{root}: no photos are left to be held out; add some to test/, or lower --shots")
    paths = [str(Path(root) / path) for path in train.paths + test.paths]
    labels = torch.from_numpy(np.concatenate([train.labels, test.labels]))
    return LabelledPhotos(paths, labels, len(train.paths), names, prompts.checked(template), seed, notes)


def _folders(listing: Listing) -> list[str]:
    """The folder of each class, in label order."""
    folder_of: dict[int, str] = {}
    for name, split in listing.splits.items():
        # A split is a folder of its own only if all its photos lie two levels deep in a folder of its name.
        in_own_folder = all(path.startswith(f"{name}/") and path.count("/") > 1 for path in split.paths)
        depth = 1 if in_own_folder else 0
        for path, label in zip(split.paths, split.labels.tolist(), strict=True):
            folder_of.setdefault(label, path.split("/")[depth])
    return [folder_of[label] for label in range(len(listing.class_names))]


def _divided(listing: Listing, *, shots: int, seed: int) -> tuple[Split, Split]:
    """Photos for the head and held-out photos: of train and test, or both of the only split."""
    splits = {name: split for name, split in listing.splits.items() if split.paths}
    first_split = next(iter(splits.values()))
    source = splits.get("train", first_split)
    other = splits.get("test", splits.get("val", source))
    is_only_split = other is source
    drawn = []
    for label, members in enumerate(fewshot.by_label(source, n_classes=len(listing.class_names))):
        most = len(members)
        if is_only_split:
            most = max(1, len(members) // 2)
        # A generator for each class, so that a new photo in one class changes no other class's draw.
        shuffled = np.random.default_rng([seed, label]).permutation(members)
        drawn.append(shuffled[: min(shots, most)])
    train = np.sort(np.concatenate(drawn))
    if is_only_split:
        held_out = np.setdiff1d(np.arange(len(source.paths)), train)
        other = _part(source, held_out)
    return _part(source, train), other


def _part(split: Split, positions: np.ndarray) -> Split:
    paths = [split.paths[i] for i in positions.tolist()]
    return Split(paths, split.labels[positions])
