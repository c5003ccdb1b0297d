"""The training images of a seed: few-shot draws, CoOp's pickles, base and new classes."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from miniature import WNIDS, write_pickles

from wsoup.base.errors import DataError, MismatchError, MissingError
from wsoup.datasets import fewshot
from wsoup.datasets.listing import Split

NAMES = ["ant", "bee", "cat"]


def split(per_class: int) -> Split:
    paths = [f"train/{name}/{i:02d}.png" for name in NAMES for i in range(per_class)]
    return Split(paths, np.repeat(np.arange(3), per_class))


def draw(rows: Split, *, shots: int, seed: int) -> list[str]:
    positions = fewshot.draw(rows, class_names=NAMES, shots=shots, seed=seed, origin="data")
    return [rows.paths[i] for i in positions]


# ---------------------------------------------------------------------------------------------------------- draws


def test_a_known_draw() -> None:
    assert draw(split(5), shots=2, seed=1) == [
        "train/ant/00.png",
        "train/ant/04.png",
        "train/bee/01.png",
        "train/bee/04.png",
        "train/cat/01.png",
        "train/cat/04.png",
    ]


def test_a_draw_depends_on_the_seed_and_not_on_the_order_of_the_listing() -> None:
    rows = split(30)
    order = np.random.default_rng(0).permutation(len(rows.paths))
    shuffled = Split([rows.paths[i] for i in order], rows.labels[order])
    assert draw(rows, shots=16, seed=1) == draw(shuffled, shots=16, seed=1) != draw(rows, shots=16, seed=2)
    assert set(draw(rows, shots=4, seed=3)) < set(draw(rows, shots=16, seed=3)), "fewer shots are a subset of more"
    assert draw(rows, shots=30, seed=1) == rows.paths


def test_a_class_with_fewer_images_gives_all_and_changes_no_other_class() -> None:
    rows = split(5)
    few = [i for i, path in enumerate(rows.paths) if not path.startswith("train/bee") or path.endswith("03.png")]
    drawn = draw(Split([rows.paths[i] for i in few], rows.labels[few]), shots=2, seed=1)
    assert drawn == [*draw(rows, shots=2, seed=1)[:2], "train/bee/03.png", *draw(rows, shots=2, seed=1)[4:]]
    few.remove(rows.paths.index("train/bee/03.png"))
    with pytest.raises(DataError, match=r"data: class 'bee' has no training images; add some, or remove the class"):
        draw(Split([rows.paths[i] for i in few], rows.labels[few]), shots=2, seed=1)


def test_the_split_of_a_seed_gives_rows_of_the_manifest() -> None:
    manifest = pa.table({"path": ["t", "a", "b", "c"], "label": [0, 0, 1, 1], "seeds": [[], [1, 2], [2], [1]]})
    table = fewshot.split_of_seed(manifest, seed=1)
    assert table.to_pydict() == {"path": ["a", "c"], "label": [0, 1], "row": [1, 3]}
    with pytest.raises(MismatchError, match=r"no few-shot images of seed 3; run `dvc repro prepare`"):
        fewshot.split_of_seed(manifest, seed=3)


# --------------------------------------------------------------------------------------------------------- pickles

IMAGES = [f"imagenet/images/train/{wnid}/{wnid}_{i}.JPEG" for wnid in WNIDS for i in range(4)]


def pickled(folder: Path, *, shots: int = 2, paths: list[str] = IMAGES, labels: list[int] | None = None) -> list[str]:
    rows = Split(paths, np.repeat(np.arange(3), 4) if labels is None else np.array(labels))
    found = fewshot.pickled(rows, class_names=list(WNIDS.values()), folder=str(folder), shots=shots, seed=1)
    return [paths[i] for i in found]


@pytest.fixture
def pickles(tmp_path: Path) -> Path:
    write_pickles(tmp_path / "pickles", shots=2, seeds=(1,))
    return tmp_path / "pickles"


@pytest.mark.parametrize("root", ["", "imagenet/images/train/", "a\\longer/root/imagenet/images/train/"])
def test_a_pickle_of_another_machine_lists_images_by_the_end_of_their_paths(pickles: Path, root: str) -> None:
    paths = [f"{root}{path.removeprefix('imagenet/images/train/')}" for path in IMAGES]
    if root.startswith("a"):
        with pytest.raises(DataError, match=r"6 of 6 images are not training images here: '/theirs/imagenet"):
            pickled(pickles, paths=paths)
    else:
        assert pickled(pickles, paths=paths) == [paths[i] for i in (1, 2, 5, 6, 9, 10)]


def test_images_of_a_pickle_come_by_label_and_then_by_path(pickles: Path) -> None:
    """The last class lies in a folder whose name comes first."""
    plain = [path.removeprefix("imagenet/images/train/") for path in IMAGES]
    paths = [*plain[:8], *IMAGES[8:]]
    assert min(paths) == paths[8]
    assert pickled(pickles, paths=paths) == [paths[i] for i in (1, 2, 5, 6, 9, 10)]


def test_the_order_of_a_pickle_does_not_matter(tmp_path: Path) -> None:
    """Batches of training are drawn by position."""
    write_pickles(tmp_path / "pickles", shots=2, seeds=(1,), reverse=True)
    assert pickled(tmp_path / "pickles") == [IMAGES[i] for i in (1, 2, 5, 6, 9, 10)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"labels": [1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2]},
            r"has label 0 \('tench'\), here it is 1 \('gold",
        ),
        ({"paths": [path.replace("n01440764", "n9") for path in IMAGES]}, "2 of 6 images are not training images here"),
        ({"paths": [*IMAGES[:-1], "n01440764/n01440764_1.JPEG"]}, "1 of 6 images are not training images"),  # two fit
    ],
)
def test_a_pickle_that_does_not_fit_the_images(pickles: Path, values: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pickled(pickles, **values)


DATUM = b"cdassl.data.datasets.base_dataset\nDatum\n)\x81}(X\x07\x00\x00\x00_impath%bX\x06\x00\x00\x00_labelK\x00"
DATUM += b"X\x0a\x00\x00\x00_classnameX\x03\x00\x00\x00catub"
TRAIN = b"\x80\x02}X\x05\x00\x00\x00train](%bes."
DOUBLED = b"X\x01\x00\x00\x00a" + 50 * b"2\x86"
"""A text in 2^50 tuples: each holds the one before twice."""


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (TRAIN % (DATUM % DOUBLED), "train: entry 1: entry 1: .* is not valid: it must be text"),
        (TRAIN % (DATUM % b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R"), "it names builtins.eval"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "its memo has a place 2,147,483,647, and it has 9 bytes"),
        (b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b"x.", "only 2 remain"),
        (b"(idassl\nos.system\n.", "it names dassl.os.system"),
    ],
)
def test_a_hostile_pickle_runs_nothing_and_takes_no_memory(tmp_path: Path, packed: bytes, why: str) -> None:
    (tmp_path / "shot_2-seed_1.pkl").write_bytes(packed)
    with pytest.raises(DataError, match=rf"shot_2-seed_1.pkl is refused \(.*{why}"):
        pickled(tmp_path)


def test_a_pickle_with_another_number_of_images(pickles: Path) -> None:
    (pickles / "shot_2-seed_1.pkl").rename(pickles / "shot_3-seed_1.pkl")
    with pytest.raises(DataError, match=r"shot_3-seed_1.pkl: class 'tench' has 2 images, expected 3"):
        pickled(pickles, shots=3)
    (pickles / "shot_3-seed_1.pkl").rename(pickles / "shot_1-seed_1.pkl")
    with pytest.raises(DataError, match=r"shot_1-seed_1.pkl: class 'tench' has 2 images, expected 1"):
        pickled(pickles, shots=1)
    with pytest.raises(MissingError, match=r"shot_2-seed_1.pkl does not exist; copy CoOp's few-shot splits there"):
        pickled(pickles)


@pytest.mark.parametrize("written", [str, float, bool])
def test_labels_of_a_pickle_are_whole_numbers_and_nothing_that_only_looks_like_one(tmp_path: Path, written) -> None:
    """ "1", 1.0 and True equal 1 to Python or read like it; CoOp writes none of them."""
    write_pickles(tmp_path / "pickles", shots=2, seeds=(1,), written=written)
    with pytest.raises(DataError, match=r"shot_2-seed_1.pkl is refused \(train: .*\); expected a dict whose 'train'"):
        pickled(tmp_path / "pickles")


class Command:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch ran",)


def renamed(data: bytes) -> bytes:
    return data.replace(b"dassl.data.datasets", b"dassX.data.datasets")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda data: pickle.dumps({"train": [Command()]}), r"it names (posix|os).system"),
        (lambda data: pickle.dumps({"train": [], "val": Path.cwd}), "it names "),
        (renamed, "it names dassX.data.datasets.Datum"),
        (lambda data: data.replace(b"Datum", b"Items"), "it names dassl.data.datasets.Items"),
        (lambda data: data[:-9], "."),
        (lambda data: b"", "pickle exhausted"),
        (lambda data: b"<html>", "."),
        (lambda data: pickle.dumps([]), "list indices"),
        (lambda data: pickle.dumps({"val": []}), "'train'"),
        (lambda data: pickle.dumps({"train": [1]}), "no attribute '_impath'"),
        (lambda data: data.replace(b"_label", b"_lapel"), "no attribute '_label'"),
    ],
)
def test_a_hostile_or_damaged_pickle_is_refused_and_runs_nothing(pickles: Path, in_tmp: Path, spoil, reason) -> None:
    file = pickles / "shot_2-seed_1.pkl"
    file.write_bytes(spoil(file.read_bytes()))
    message = rf"shot_2-seed_1.pkl is refused \(.*{reason}.*\); expected a dict whose 'train' is a list of Dassl's"
    with pytest.raises(DataError, match=message):
        pickled(pickles)
    assert not (in_tmp / "ran").exists()
