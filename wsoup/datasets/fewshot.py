"""Few-shot training images: drawn by (shots, seed), the same on every machine, or read from CoOp's pickles.

Each class of each seed has its own generator, made from (seed, label), and takes the first `shots` of one permutation
of its sorted paths, so the 4-shot split is a subset of the 16-shot split.

CoOp's ``shot_16-seed_1.pkl`` holds pickled lists of Dassl's ``Datum``. It is read without Dassl and without trusting
it: the unpickler admits that one class, as plain data, and refuses every other name, so the pickle can run no code.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter, ValidationError

from wsoup.base.errors import DataError, MismatchError, MissingError
from wsoup.base.validation import in_file
from wsoup.datasets.listing import Label, Split, some
from wsoup.disk.files import read_file, reason_of

if TYPE_CHECKING:
    import pyarrow as pa

MEMO = ("PUT", "BINPUT", "LONG_BINPUT")
"""Instructions of a pickle that name a place in its memo."""


def draw(split: Split, *, class_names: list[str], shots: int, seed: int, origin: str) -> np.ndarray:
    """Positions in `split` of the few-shot images of one seed, by label, then path.

    Each class gives `shots` images, or all if it has fewer: (n,) int64 with C <= n <= C * shots.

    Raises:
        DataError: a class has no images.
    """
    positions = []
    for label, members in enumerate(by_label(split, n_classes=len(class_names))):
        if not len(members):
            raise DataError(
                f"{origin}: class {class_names[label]!r} has no training images; add some, or remove the class"
            )
        # Sorted by path first: a draw must not depend on the order in which a file system or a list names the images.
        paths = [split.paths[i] for i in members]
        members = members[np.argsort(paths, kind="stable")]
        generator = np.random.default_rng([seed, label])
        drawn = generator.permutation(len(members))[:shots]
        positions.append(members[np.sort(drawn)])
    return np.concatenate(positions)


def by_label(split: Split, *, n_classes: int) -> list[np.ndarray]:
    """Positions of the images of each class."""
    order = np.argsort(split.labels, kind="stable")
    borders = np.searchsorted(split.labels[order], np.arange(1, n_classes))
    return np.split(order, borders)


def split_of_seed(manifest: pa.Table, *, seed: int) -> pa.Table:
    """The few-shot training images of one seed: path, label, row (in the manifest), in manifest order.

    Raises:
        MismatchError: the manifest has no draw of this seed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    seeds = manifest["seeds"].combine_chunks()
    # An image may be in the draws of several seeds, so its cell is a list.
    row_of_draw = pc.list_parent_indices(seeds).to_numpy()
    seed_of_draw = pc.list_flatten(seeds).to_numpy()
    rows = row_of_draw[seed_of_draw == seed]
    if not len(rows):
        raise MismatchError(f"the manifest has no few-shot images of seed {seed}; run `dvc repro prepare`")
    return pa.table({"path": manifest["path"].take(rows), "label": manifest["label"].take(rows), "row": rows})


def pickled(
    split: Split, *, class_names: list[str], folder: str, shots: int, seed: int, labels_of_all: range | None = None
) -> np.ndarray:
    """Positions in `split` of the images that a pickle lists: (n,) int64, by label, then path.

    The pickle lists images of all classes. If `split` has half of them, `labels_of_all` are their labels there. Paths
    are compared from the end: those in the pickle may start at another machine's root or at the image folder.

    Raises:
        MissingError: no ``shot_<shots>-seed_<seed>.pkl`` in the folder.
        DataError: not a pickle of Datum, an unknown image, another label than here, or not `shots` images per class.
    """
    path = Path(folder) / f"shot_{shots}-seed_{seed}.pkl"
    rows = _read_pickle(path)
    if labels_of_all is not None:
        rows = [(image, label - labels_of_all.start, name) for image, label, name in rows if label in labels_of_all]
    positions_of: dict[str, list[int]] = {}
    # Folders in front of a file's name may differ. Without this dictionary of names, each of the pickle's images would
    # be compared with all 1.3 million of ImageNet.
    for i, image in enumerate(split.paths):
        file_name = image.rpartition("/")[2]
        positions_of.setdefault(file_name, []).append(i)
    positions = [_position(image, positions_of, paths=split.paths) for image, _, _ in rows]
    unknown = [image for (image, _, _), position in zip(rows, positions, strict=True) if position < 0]
    if unknown:
        raise DataError(f"{path}: {len(unknown)} of {len(rows)} images are not training images here: {some(unknown)}")
    for (image, label, class_name), position in zip(rows, positions, strict=True):
        ours = int(split.labels[position])
        if ours != label:
            raise DataError(
                f"{path}: {image} has label {label} ({class_name!r}), here it is {ours} ({class_names[ours]!r}); "
                "use splits made for this class order"
            )
    counts = np.bincount(split.labels[positions], minlength=len(class_names))
    is_wrong = counts != shots
    if is_wrong.any():
        label = int(is_wrong.argmax())
        raise DataError(f"{path}: class {class_names[label]!r} has {counts[label]} images, expected {shots}")
    positions.sort(key=lambda i: (split.labels[i], split.paths[i]))
    return np.array(positions, dtype=np.int64)


class _Datum:
    """Stands for Dassl's class: _impath, _label, _domain, _classname, and no behaviour. It takes no arguments."""


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if name == "Datum" and module.split(".")[0] == "dassl":
            return _Datum
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _check_memo(packed: bytes) -> None:
    """Raise UnpicklingError for a place in the memo beyond the file's size: pickle reserves memory up to there."""
    for opcode, argument, _ in pickletools.genops(packed):
        if opcode.name in MEMO and isinstance(argument, int) and argument > len(packed):
            raise pickle.UnpicklingError(f"its memo has a place {argument:,}, and it has {len(packed):,} bytes")


def _read_pickle(path: Path) -> list[tuple[str, int, str]]:
    """(path, label, class name) of each training image that a pickle lists."""
    if not path.is_file():
        raise MissingError(
            f"{path} does not exist; copy CoOp's few-shot splits there, or set fewshot_pickles: null to draw new ones"
        )
    packed = read_file(str(path))
    try:
        _check_memo(packed)
        data = _Restricted(io.BytesIO(packed)).load()
        # Not as str(...): a few bytes can stand for a tuple whose text has no end.
        rows = [(item._impath, item._label, item._classname) for item in data["train"]]
        adapter = TypeAdapter(list[tuple[str, Label, str]])
        return adapter.validate_python(rows, strict=True)
    except Exception as error:  # a broken or hostile pickle may raise anything
        # pydantic's own text has the whole value.
        reason = f"train: {in_file(error)}" if isinstance(error, ValidationError) else reason_of(error)
        raise DataError(
            f"{path} is refused ({reason}); expected a dict whose 'train' is a list of Dassl's Datum"
        ) from None


def _position(image: str, positions_of: dict[str, list[int]], *, paths: list[str]) -> int:
    """Position of the only path that agrees with `image` from the end, over the length of the shorter one; else -1."""
    steps = image.replace("\\", "/").split("/")[::-1]
    same = []
    for i in positions_of.get(steps[0], ()):
        steps_here = paths[i].split("/")[::-1]
        if all(a == b for a, b in zip(steps_here, steps, strict=False)):
            same.append(i)
    # An image that agrees with two of ours could be either: it counts as unknown, and the caller refuses it.
    if len(same) != 1:
        return -1
    return same[0]
