"""Few-shot training images: drawn by (shots, seed), the same on every machine, or read from pickles.

Each class of each seed has a generator of its own, made from (seed, label), and takes the first `shots` of one
permutation of its sorted paths: the 4-shot split lies within the 16-shot split.

Or those that CoOp's users already have: ``shot_16-seed_1.pkl``, pickled lists of Dassl's ``Datum``. Read without Dassl,
and without trusting the file: the unpickler admits that one class, as plain data, and refuses every other name, so no
code of the pickle's choosing runs.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wsoup.core.errors import DataError, MismatchError, MissingError
from wsoup.datasets.listing import Split, label_number, some

if TYPE_CHECKING:
    import pyarrow as pa


def draw(split: Split, *, class_names: list[str], shots: int, seed: int, origin: str) -> np.ndarray:
    """Positions in `split` of the few-shot images of one seed: (C * shots,) int64, by label, then path.

    Raises:
        DataError: a class has fewer images than shots; names the class and its count.
    """
    drawn = []
    for label, members in enumerate(by_label(split, n_classes=len(class_names))):
        if len(members) < shots:
            raise DataError(
                f"{origin}: class {class_names[label]!r} has {len(members)} training images, fewer than "
                f"fewshot.shots = {shots}; add images or lower fewshot.shots"
            )
        members = members[np.argsort([split.paths[i] for i in members], kind="stable")]
        generator = np.random.default_rng([seed, label])
        drawn.append(members[np.sort(generator.permutation(len(members))[:shots])])
    return np.concatenate(drawn)


def by_label(split: Split, *, n_classes: int) -> list[np.ndarray]:
    """Positions of the images of each class."""
    order = np.argsort(split.labels, kind="stable")
    return np.split(order, np.searchsorted(split.labels[order], np.arange(1, n_classes)))


def split_of_seed(manifest: pa.Table, *, seed: int) -> pa.Table:
    """The few-shot training images of one seed: path, label, row (in the manifest), in manifest order.

    Raises:
        MismatchError: the manifest knows no such seed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    seeds = manifest["seeds"].combine_chunks()
    rows = pc.list_parent_indices(seeds).to_numpy()[pc.list_flatten(seeds).to_numpy() == seed]
    if not len(rows):
        raise MismatchError(f"the manifest has no few-shot images of seed {seed}; run `dvc repro prepare`")
    return pa.table({"path": manifest["path"].take(rows), "label": manifest["label"].take(rows), "row": rows})


class _Datum:
    """Stands for Dassl's class: _impath, _label, _domain, _classname, and no behaviour. It takes no arguments."""

    _impath: str
    _label: int
    _classname: str


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name == "Datum" and module.split(".")[0] == "dassl":
            return _Datum
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def listed(folder: str, *, shots: int, seed: int) -> list[tuple[str, int, str]]:
    """(path, label, class name) of each few-shot training image of one seed, as the pickle lists them.

    Raises:
        MissingError: no ``shot_<shots>-seed_<seed>.pkl`` in the folder.
        DataError: not such a pickle, or one that names anything but Dassl's Datum.
    """
    path = Path(folder) / f"shot_{shots}-seed_{seed}.pkl"
    if not path.is_file():
        raise MissingError(
            f"{path} does not exist; copy CoOp's few-shot splits there, or set fewshot_pickles: null to draw anew"
        )
    try:
        with path.open("rb") as file:
            data = _Restricted(file).load()
        return [
            (str(item._impath), label_number(item._label, origin="train"), str(item._classname))
            for item in data["train"]
        ]
    except Exception as error:  # whatever a broken or hostile pickle raises, the file is not what was asked for
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{path} is refused ({reason}); expected a dict whose 'train' is a list of Dassl's Datum, nothing else"
        ) from None


def pickled(split: Split, *, class_names: list[str], folder: str, shots: int, seed: int) -> np.ndarray:
    """Positions in `split` of the images that a pickle lists: (n,) int64, by label, then path.

    Paths in the pickle may begin elsewhere than ours, at another machine's root or at the folder of the images: they
    are compared from the end.

    Raises:
        DataError: an unknown image, a label that differs, or not `shots` images of every class.
    """
    rows = listed(folder, shots=shots, seed=seed)
    origin = f"{folder}/shot_{shots}-seed_{seed}.pkl"
    by_name: dict[str, list[int]] = {}
    for i, path in enumerate(split.paths):
        by_name.setdefault(path.rpartition("/")[2], []).append(i)
    places: list[int] = []
    lost: list[str] = []
    for path, label, class_name in rows:
        place = _place(path, by_name, paths=split.paths)
        if place is None:
            lost.append(path)
            continue
        if split.labels[place] != label:
            ours = int(split.labels[place])
            raise DataError(
                f"{origin}: {path} has label {label} ({class_name!r}), here it is {ours} ({class_names[ours]!r}); "
                "use splits made for this class order"
            )
        places.append(place)
    if lost:
        raise DataError(f"{origin}: {len(lost)} of {len(rows)} images are not training images here: {some(lost)}")
    counts = np.bincount(split.labels[places], minlength=len(class_names))
    if (counts != shots).any():
        label = int((counts != shots).argmax())
        raise DataError(f"{origin}: class {class_names[label]!r} has {counts[label]} images, expected {shots}")
    return np.array(sorted(places, key=lambda i: (split.labels[i], split.paths[i])), dtype=np.int64)


def _place(path: str, by_name: dict[str, list[int]], *, paths: list[str]) -> int | None:
    """Position of the one image whose path and `path` agree from the end as far as the shorter one goes."""
    steps = path.replace("\\", "/").split("/")[::-1]
    same = [
        i
        for i in by_name.get(steps[0], ())
        if all(a == b for a, b in zip(paths[i].split("/")[::-1], steps, strict=False))
    ]
    return same[0] if len(same) == 1 else None
