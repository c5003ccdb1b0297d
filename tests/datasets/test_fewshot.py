"""The training images of a seed: few-shot draws, CoOp's pickles, base and new classes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wsoup.base.errors import DataError, MismatchError
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
