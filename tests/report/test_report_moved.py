"""Classes that a soup moved, from flips written down by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from wsoup import store
from wsoup.artifacts import Artifacts
from wsoup.report.moved import moved_classes

NAMES = ["cat", "dog", "fox"]
#        label, before, after
FLIPS = [(0, 1, 0), (0, 1, 0), (0, 2, 0), (1, 1, 2)]


@pytest.fixture
def artifacts(tmp_path):
    made = Artifacts(tmp_path)
    lines = [{"dataset": "pets", "row": 0, "label": y, "before": a, "after": b} for y, a, b in FLIPS]
    store.write_table(made.results / "pretrained/flips.parquet", pa.Table.from_pylist(lines))
    labels = pa.table({"label": [0] * 10 + [1] * 4 + [0], "split": ["test"] * 14 + ["train"]})
    store.write_table(made.manifest("pets"), labels, attributes={"class_names": NAMES})
    return made


def test_gains_by_class_and_what_its_images_were_and_are_taken_for(artifacts):
    (found,) = moved_classes(artifacts, params=SimpleNamespace(datasets={"pets": SimpleNamespace(role="xd")}))
    cat, dog = found["classes"]
    assert cat == {
        "name": "cat",
        "images": 10,
        "right": 3,
        "wrong": 0,
        "gain": 30.0,
        "taken": "dog (2), fox (1)",
        "takes": "",
    }
    assert (dog["name"], dog["gain"], dog["takes"]) == ("dog", -25.0, "fox (1)")


def test_confusions_that_changed_most_come_first(artifacts):
    (found,) = moved_classes(artifacts, params=SimpleNamespace(datasets={"pets": SimpleNamespace(role="xd")}))
    assert found["moves"][0] == {"label": "cat", "other": "dog", "count": -2}
    assert {"label": "dog", "other": "fox", "count": 1} in found["moves"]
