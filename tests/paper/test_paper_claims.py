"""The paper's claims beside the numbers of a finished run."""

from __future__ import annotations

import pyarrow as pa

from wsoup.disk import store
from wsoup.paper.claims import better_descriptors


def test_descriptors_better_than_the_class_name_are_counted_without_ties(tmp_path):
    """Of the first seed: 9 and 7 are more than 5; a tie with it and the counts of another seed do not matter."""
    counts = {"": 5, "sharp": 9, "old": 2, "new": 7, "tie": 5}
    texts = [*counts, *counts]
    lines = pa.table({"text": texts, "seed": [1] * 5 + [2] * 5, "n_correct": [*counts.values(), 0, 9, 9, 9, 9]})
    store.write_table(tmp_path / "descriptors.parquet", lines)
    said = better_descriptors(tmp_path / "descriptors.parquet")
    assert said == "Descriptors better than none: paper about 1200 of 4227, ours 2 of 4"
    assert "is missing" in better_descriptors(tmp_path / "words.parquet")
