"""The training images of a seed: few-shot draws, CoOp's pickles, base and new classes."""

from __future__ import annotations

import os
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from miniature import draw as draw_image

from wsoup.base.errors import DataError, MismatchError, MissingError
from wsoup.datasets import fewshot, folder, manifest
from wsoup.datasets.listing import Split, class_range
from wsoup.params.inputs import DatasetParams

NAMES = ["ant", "bee", "cat"]


def split(per_class: int) -> Split:
    paths = [f"train/{name}/{i:02d}.png" for name in NAMES for i in range(per_class)]
    return Split(paths, np.repeat(np.arange(3), per_class))


def draw(rows: Split, *, shots: int, seed: int) -> list[str]:
    positions = fewshot.draw(rows, class_names=NAMES, shots=shots, seed=seed, origin="data")
    return [rows.paths[i] for i in positions]


# ---------------------------------------------------------------------------------------------------------- draws


def test_each_class_gives_its_shots_sorted_by_label_and_path() -> None:
    drawn = draw(split(10), shots=4, seed=1)
    assert drawn == sorted(drawn)
    assert [path.split("/")[1] for path in drawn] == ["ant"] * 4 + ["bee"] * 4 + ["cat"] * 4


def test_a_known_draw() -> None:
    assert draw(split(5), shots=2, seed=1) == [
        "train/ant/00.png",
        "train/ant/04.png",
        "train/bee/01.png",
        "train/bee/04.png",
        "train/cat/01.png",
        "train/cat/04.png",
    ]


def test_seeds_differ_and_repeat() -> None:
    rows = split(30)
    assert draw(rows, shots=16, seed=1) == draw(rows, shots=16, seed=1)
    assert draw(rows, shots=16, seed=1) != draw(rows, shots=16, seed=2)


def test_fewer_shots_are_a_subset_of_more_shots() -> None:
    rows = split(30)
    assert set(draw(rows, shots=4, seed=3)) < set(draw(rows, shots=16, seed=3))


def test_the_order_of_the_listing_does_not_matter() -> None:
    rows = split(12)
    order = np.random.default_rng(0).permutation(len(rows.paths))
    shuffled = Split([rows.paths[i] for i in order], rows.labels[order])
    assert draw(shuffled, shots=5, seed=1) == draw(rows, shots=5, seed=1)


def test_a_class_may_give_all_its_images() -> None:
    assert draw(split(3), shots=3, seed=1) == split(3).paths


def test_too_few_images_name_class_and_count() -> None:
    with pytest.raises(DataError, match=r"data: class 'ant' has 3 training images, fewer than fewshot.shots = 4"):
        draw(split(3), shots=4, seed=1)


def test_the_split_of_a_seed_gives_rows_of_the_manifest() -> None:
    manifest = pa.table({"path": ["t", "a", "b", "c"], "label": [0, 0, 1, 1], "seeds": [[], [1, 2], [2], [1]]})
    table = fewshot.split_of_seed(manifest, seed=1)
    assert table.to_pydict() == {"path": ["a", "c"], "label": [0, 1], "row": [1, 3]}
    with pytest.raises(MismatchError, match=r"no few-shot images of seed 3; run `dvc repro prepare`"):
        fewshot.split_of_seed(manifest, seed=3)


# ------------------------------------------------------------------------------------------------- base and new


@pytest.mark.parametrize(("n", "base", "new"), [(4, [0, 1], [2, 3]), (5, [0, 1, 2], [3, 4]), (1, [0], [])])
def test_base_is_the_first_half_rounded_up(n: int, base: list[int], new: list[int]) -> None:
    assert list(class_range(n, classes="base")) == base
    assert list(class_range(n, classes="new")) == new
    assert list(class_range(n, classes="all")) == base + new


# -------------------------------------------------------------------------------------------------------- pickles


class Datum:
    """Dassl's class as in its pickles."""

    def __init__(self, impath: str, label: int, classname: str) -> None:
        self._impath, self._label, self._domain, self._classname = impath, label, 0, classname


@pytest.fixture
def dassl(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes Datums that pickle as Dassl's own; its module does not exist when they are read."""
    names = ["dassl", "dassl.data", "dassl.data.datasets", "dassl.data.datasets.base_dataset"]
    modules: dict[str, Any] = {name: types.ModuleType(name) for name in names}
    modules[names[-1]].Datum = Datum
    monkeypatch.setattr(Datum, "__module__", names[-1])

    def write(path: Path, value: Any, *, protocol: int = pickle.HIGHEST_PROTOCOL) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        sys.modules.update(modules)
        try:
            path.write_bytes(pickle.dumps(value, protocol=protocol))
        finally:
            for name in names:
                del sys.modules[name]

    return write


def items(*paths: str) -> list[Datum]:
    labels = [next(i for i, name in enumerate(NAMES) if name in path) for path in paths]
    return [Datum(path, label, NAMES[label]) for path, label in zip(paths, labels, strict=True)]


def read(folder: Path, *, shots: int = 1) -> list[int]:
    return fewshot.pickled(split(3), class_names=NAMES, folder=str(folder), shots=shots, seed=1).tolist()


def test_a_pickle_is_read_without_dassl(tmp_path: Path, dassl: Callable[..., None]) -> None:
    listed = items("train/cat/02.png", "train/ant/01.png", "train/bee/00.png")
    dassl(tmp_path / "shot_1-seed_1.pkl", {"train": listed, "val": []})
    assert "dassl" not in sys.modules
    assert read(tmp_path) == [1, 3, 8]


@pytest.mark.parametrize("prefix", ["/home/someone/data/mine/train/", "", "train/"])
def test_paths_are_compared_from_the_end(tmp_path: Path, dassl: Callable[..., None], prefix: str) -> None:
    listed = items(f"{prefix}ant/01.png", f"{prefix}bee/00.png", f"{prefix}cat/02.png")
    dassl(tmp_path / "shot_1-seed_1.pkl", {"train": listed})
    assert read(tmp_path) == [1, 3, 8]


def test_few_shot_images_may_come_from_pickles(tmp_path: Path, dassl: Callable[..., None]) -> None:
    for name in NAMES:
        for split_name, count in (("train", 3), ("test", 1)):
            for i in range(count):
                draw_image(tmp_path / "set" / split_name / name / f"{i:02d}.png")
    for seed, listed in enumerate(
        (["ant/01.png", "bee/00.png", "cat/02.png"], ["ant/01.png", "bee/01.png", "cat/01.png"])
    ):
        dassl(tmp_path / f"shot_1-seed_{seed}.pkl", {"train": items(*(f"train/{path}" for path in listed))})
    root = str(tmp_path / "set")
    section = DatasetParams(
        role="source", layout="imagefolder", root=root, watch=root, template="{}", fewshot_pickles=str(tmp_path)
    )
    built = manifest.build(folder.read(root), name="mine", params=section, shots=1, seeds=[0, 1])
    rows = {row["path"]: row["seeds"] for row in built.table.to_pylist() if row["split"] == "train"}
    assert rows == {
        "train/ant/01.png": [0, 1],
        "train/bee/00.png": [0],
        "train/bee/01.png": [1],
        "train/cat/01.png": [1],
        "train/cat/02.png": [0],
    }
    assert built.attributes["fewshot_source"] == str(tmp_path)


class Hostile:
    """Runs a command when unpickled without restrictions."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch hacked",)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            Hostile(),
            r"is refused \(it names (posix|nt).system\); expected a dict whose 'train' is a list of Dassl's Datum",
        ),
        ({"train": [Path("x")]}, r"is refused \(it names pathlib"),
        ({"train": [np.int64(1)]}, r"is refused \(it names numpy"),
        ({"train": [("a.png", 0, "ant")]}, r"is refused \('tuple' object has no attribute '_impath'\)"),
        ({"test": []}, r"is refused \('train'\)"),
        ([], r"is refused \(list indices"),
    ],
)
def test_other_objects_in_a_pickle_are_refused_and_nothing_runs(
    tmp_path: Path, in_tmp: Path, value: object, text: str
) -> None:
    (tmp_path / "shot_1-seed_1.pkl").write_bytes(pickle.dumps(value))
    with pytest.raises(DataError, match=text):
        read(tmp_path)
    assert not Path("hacked").exists()


def test_arguments_to_the_admitted_class_are_refused(tmp_path: Path) -> None:
    call = b"cdassl.data.datasets.base_dataset\nDatum\n(S'x'\ntR."
    (tmp_path / "shot_1-seed_1.pkl").write_bytes(call)
    with pytest.raises(DataError, match=r"is refused \(_Datum\(\) takes no arguments\)"):
        read(tmp_path)


def test_a_truncated_or_empty_pickle(tmp_path: Path, dassl: Callable[..., None]) -> None:
    path = tmp_path / "shot_1-seed_1.pkl"
    dassl(path, {"train": items("train/ant/01.png")})
    for data in (path.read_bytes()[:-9], b"", b"<html>"):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"shot_1-seed_1.pkl is refused"):
            read(tmp_path)


def test_a_missing_pickle(tmp_path: Path) -> None:
    with pytest.raises(
        MissingError, match=r"shot_1-seed_1.pkl does not exist; copy CoOp's few-shot splits there, or set"
    ):
        read(tmp_path)


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        (["train/ant/77.png"], r"1 of 1 images are not training images here: 'train/ant/77.png'"),
        (["01.png ant"], r"are not training images here"),
        (["train/ant/01.png", "train/bee/01.png"], r"class 'cat' has 0 images, expected 1"),
        (["train/ant/01.png", "train/ant/02.png", "train/bee/01.png"], r"class 'ant' has 2 images, expected 1"),
    ],
)
def test_a_pickle_of_other_images(tmp_path: Path, dassl: Callable[..., None], paths: list[str], text: str) -> None:
    dassl(tmp_path / "shot_1-seed_1.pkl", {"train": items(*paths)})
    with pytest.raises(DataError, match=text):
        read(tmp_path)


def test_a_pickle_with_another_class_order(tmp_path: Path, dassl: Callable[..., None]) -> None:
    dassl(tmp_path / "shot_1-seed_1.pkl", {"train": [Datum("train/bee/01.png", 0, "bee")]})
    with pytest.raises(
        DataError, match=r"has label 0 \('bee'\), here it is 1 \('bee'\); use splits made for this class order"
    ):
        read(tmp_path)
