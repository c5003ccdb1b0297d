"""Classes that a soup moved, from hand-written flips."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.report.gallery import moved_classes

NAMES = ["cat", "dog", "fox", "St. Bernard Jr."]
#         label, before, after, images
COUNTS = [(0, 1, 0, 2), (0, 2, 0, 1), (0, 0, 0, 7), (1, 1, 2, 1), (1, 1, 1, 2), (1, 3, 3, 1), (3, 3, 3, 4)]


@pytest.fixture
def artifacts(tmp_path):
    artifacts = Artifacts(tmp_path)
    keys = ("label", "before", "after", "n_images")
    lines = [{"dataset": "pets", **dict(zip(keys, line, strict=True))} for line in COUNTS]
    store.write_table(artifacts.results / "pretrained/confusion.parquet", pa.Table.from_pylist(lines))
    store.write_table(artifacts.manifest("pets"), pa.table({"label": [0]}), attributes={"class_names": NAMES})
    return artifacts


def test_gains_by_class_and_its_confusions_before_and_after(artifacts):
    (shown,) = moved_classes(artifacts, params=SimpleNamespace(datasets={"pets": SimpleNamespace(role="xd")}))
    cat, dog = shown["classes"]
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
    (shown,) = moved_classes(artifacts, params=SimpleNamespace(datasets={"pets": SimpleNamespace(role="xd")}))
    assert shown["moves"][0] == {"label": "cat", "other": "dog", "count": -2}
    assert {"label": "dog", "other": "fox", "count": 1} in shown["moves"]


def test_confusions_of_the_most_moved_classes_count_all_their_images(artifacts):
    (shown,) = moved_classes(artifacts, params=SimpleNamespace(datasets={"pets": SimpleNamespace(role="xd")}))
    confusion = shown["confusion"]
    assert confusion["columns"] == ["cat", "dog", "fox", "St. Bernard Jr.", "others"]
    cat, dog = confusion["rows"]
    assert [(cell["before"], cell["after"]) for cell in cat["cells"]] == [(7, 10), (2, 0), (1, 0), (0, 0), (0, 0)]
    assert [cell["better"] for cell in cat["cells"]] == [0.3, 0.2, 0.1, 0, 0]
    assert [(cell["before"], cell["after"]) for cell in dog["cells"]] == [(0, 0), (3, 2), (0, 1), (1, 1), (0, 0)]
    assert [cell["better"] < 0 for cell in dog["cells"]] == [False, True, True, False, False]
