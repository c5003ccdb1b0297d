"""The errors that a soup makes most often, from a confusion table by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report.page import worst_errors

NAMES = ["cat", "dog", "fox"]
#         label, before, after, images
COUNTS = [(0, 1, 0, 2), (0, 2, 1, 1), (0, 0, 0, 7), (1, 1, 2, 1), (1, 1, 1, 2), (1, 2, 2, 1), (2, 2, 2, 4)]


def test_errors_are_sorted_by_their_share_of_the_class(tmp_path):
    """2 of 4 dogs are taken for a fox, one of them also by the class name alone; 1 of 10 cats for a dog."""
    artifacts = Artifacts(tmp_path)
    keys = ("label", "before", "after", "n_images")
    lines = [{"dataset": "pets", **dict(zip(keys, line, strict=True))} for line in COUNTS]
    store.write_table(artifacts.results / "pretrained/confusion.parquet", pa.Table.from_pylist(lines))
    store.write_table(artifacts.manifest("pets"), pa.table({"label": [0]}), attributes={"class_names": NAMES})
    table = worst_errors(artifacts, params=SimpleNamespace(datasets={"pets": None}))
    assert [list(row.values()) for row in table.rows] == [
        ["dog", "fox", "pets", 2, 1, 4],
        ["cat", "dog", "pets", 1, 2, 10],
    ]
