"""Half of a dataset's classes: disjoint, with the shots that all classes together would have."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from small_world import write_image_folder

from wsoup.base.errors import DataError, ParamsError
from wsoup.datasets import manifest
from wsoup.datasets.halves import half
from wsoup.datasets.listing import Listing, Split
from wsoup.params.inputs import DatasetParams
from wsoup.params.section import parse

FIVE = {name: (10 * i, 50, 90) for i, name in enumerate(["ant", "bee", "cat", "dog", "elk"])}


def listed(names: list[str], labels: list[int]) -> Listing:
    paths = [f"{names[label]}/{i}.png" for i, label in enumerate(labels)]
    return Listing("pets", names, {"test": Split(paths, np.array(labels))}, "pets")


def section(root: Path, *, role: str, **keys: object) -> DatasetParams:
    raw = {"role": role, "watch": str(root), "template": "a {}.", **keys}
    return parse(DatasetParams, raw, origin="params.yaml")


@pytest.fixture
def five(tmp_path: Path) -> Path:
    return write_image_folder(tmp_path / "five", splits={"train": 3, "test": 2}, classes=FIVE)


def test_of_five_classes_three_are_base_and_two_new():
    every = listed(["ant", "bee", "cat", "dog", "elk"], [4, 0, 2, 3, 1, 3])
    base, new = half(every, which="base"), half(every, which="new")
    assert base.class_names == ["ant", "bee", "cat"]
    assert base.splits["test"].paths == ["ant/1.png", "cat/2.png", "bee/4.png"]
    assert base.splits["test"].labels.tolist() == [0, 2, 1]
    assert new.class_names == ["dog", "elk"]
    assert new.splits["test"].paths == ["elk/0.png", "dog/3.png", "dog/5.png"]
    assert new.splits["test"].labels.tolist() == [1, 0, 0]


def test_one_class_has_no_half():
    with pytest.raises(DataError, match="classes: new needs two classes or more, and there is 1"):
        half(listed(["ant"], [0]), which="new")


def test_a_manifest_of_each_half_and_shots_as_of_all_classes(five: Path):
    def built(role: str, **keys: object) -> manifest.Manifest:
        params = section(five, role=role, **keys)
        listing = manifest.read_listing("five", params=params)
        return manifest.build(listing, name="five", params=params, shots=2, seeds=[1, 2])

    every, base, new = built("source"), built("source", classes="base"), built("xd", classes="new")
    assert (base.attributes["class_names"], new.attributes["class_names"]) == (["ant", "bee", "cat"], ["dog", "elk"])
    rows = {name: made.table.to_pylist() for name, made in {"all": every, "base": base, "new": new}.items()}
    assert [row for row in rows["all"] if row["label"] < 3] == rows["base"]  # with the seeds that draw each image
    of_new = [row["path"] for row in rows["all"] if row["label"] >= 3 and row["split"] == "test"]
    assert [row["path"] for row in rows["new"]] == of_new
    assert {row["label"] for row in rows["new"]} == {0, 1}


def test_a_class_without_test_images_does_not_move_the_border(five: Path):
    for image in (five / "test" / "ant").iterdir():
        image.unlink()
    base = manifest.read_listing("base", params=section(five, role="source", classes="base"))
    new = manifest.read_listing("new", params=section(five, role="xd", classes="new"))
    assert not {*base.class_names} & {*new.class_names}
    assert new.class_names == ["dog", "elk"]


def test_coops_pickles_list_all_classes(five: Path, tmp_path: Path, monkeypatch):
    datum = type("Datum", (), {"__module__": "dassl.data.datasets.base_dataset"})
    for name in ("dassl", "dassl.data", "dassl.data.datasets", "dassl.data.datasets.base_dataset"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules[datum.__module__], "Datum", datum, raising=False)
    drawn = []
    for label, name in enumerate(FIVE):
        item = datum()
        item.__dict__.update(_impath=f"/x/train/{name}/01.png", _label=label, _domain=0, _classname=name)
        drawn.append(item)
    (tmp_path / "shot_1-seed_1.pkl").write_bytes(pickle.dumps({"train": drawn}))
    for which, names in (("base", ["ant", "bee", "cat"]), ("new", ["dog", "elk"])):
        params = section(five, role="source", classes=which, fewshot_pickles=str(tmp_path))
        table, _ = manifest.select(manifest.read_listing("five", params=params), params=params, shots=1, seeds=[1])
        train = [row["path"] for row in table.to_pylist() if row["split"] == "train"]
        assert train == [f"train/{name}/01.png" for name in names]


def test_another_word_is_refused(five: Path):
    with pytest.raises(ParamsError, match=r"classes.*'old'"):
        section(five, role="xd", classes="old")
