"""torchvision's datasets by name, ``torchvision:CIFAR100``; those of a run are written as PNG files under the root.

torchvision keeps its sets in forms of its own; the images that a run uses become root/wsoup-CIFAR100/test/0000017.png,
so that later stages and `wsoup data check` see plain files. Downloading happens only with ``download: true``.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.errors import DataError, MissingError, ParamsError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import Listing, Split
from wsoup.datasets.tables import read_name_list


def read(name: str, *, root: str, wanted: Collection[str], download: bool, class_names: str | None) -> Listing:
    """List one of torchvision's classification datasets.

    Raises:
        ParamsError: torchvision has no such dataset.
        MissingError: it is not under `root`, and download is off.
        DataError: it has no class names and `class_names` gives none, or labels that are no numbers.
    """
    sets = {split: _load(name, root=root, split=split, download=download) for split in _splits(name) if split in wanted}
    splits: dict[str, Split] = {}
    names: list[str] = []
    for split, dataset in sets.items():
        labels = _labels(dataset, name=name)
        splits[split] = Split([f"wsoup-{name}/{split}/{i:07d}.png" for i in range(len(labels))], labels)
        names = read_name_list(Path(class_names)) if class_names else _names(dataset, name=name)

    def fetch(paths: Sequence[str]) -> None:
        for path in paths:
            file = Path(root) / path
            if not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                image, _ = sets[file.parent.name][int(file.stem)]
                image.save(file)

    return Listing(root, [clean_class_name(n) for n in names], splits, origin=f"torchvision {name}", fetch=fetch)


def _class(name: str) -> Any:
    from torchvision import datasets

    if name not in datasets.__all__:
        raise ParamsError(f"layout 'torchvision:{name}': torchvision.datasets has no {name!r}")
    return getattr(datasets, name)


def _splits(name: str) -> dict[str, dict[str, Any]]:
    """Our split names, with the arguments that choose them."""
    arguments = inspect.signature(_class(name)).parameters
    if "train" in arguments:
        return {"train": {"train": True}, "test": {"train": False}}
    if "split" in arguments:
        return {split: {"split": split} for split in ("train", "val", "test")}
    return {"test": {}}


def _load(name: str, *, root: str, split: str, download: bool) -> Any:
    arguments = _splits(name)[split]
    if "download" in inspect.signature(_class(name)).parameters:
        arguments["download"] = download
    try:
        return _class(name)(root, **arguments)
    except (RuntimeError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise MissingError(
            f"torchvision {name} ({split}) cannot be read under {root}: {reason}; set download: true, or correct root"
        ) from None


def _labels(dataset: Any, *, name: str) -> np.ndarray:
    """(N,) labels, from the attribute that holds them, without decoding images where there is one."""
    for attribute in ("targets", "labels", "_labels"):
        if hasattr(dataset, attribute):
            return _whole(getattr(dataset, attribute), name=name)
    try:
        return _whole([dataset[i][1] for i in range(len(dataset))], name=name)
    except (TypeError, ValueError):
        raise DataError(_NO_LABELS.format(name)) from None


_NO_LABELS = "torchvision {} has no single label number per image; it is not a classification set"


def _whole(labels: Any, *, name: str) -> np.ndarray:
    """(N,) int64; numbers that are not whole are refused."""
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or not len(numbers)):
        raise DataError(_NO_LABELS.format(name))
    return numbers.astype(np.int64)


def _names(dataset: Any, *, name: str) -> list[str]:
    names = getattr(dataset, "classes", None) or getattr(dataset, "categories", None)
    if not names:
        raise DataError(f"torchvision {name} has no class names; name a file with one a line in class_names")
    return [first if isinstance(first, str) else first[0] for first in names]
