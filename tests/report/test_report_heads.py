"""The table of heads, from hand-written counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.evaluate.bits import pack_right
from wsoup.report.heads import heads_table
from wsoup.report.tables import page_tables

N = 200
ROLES = {"photo": "source", "sketch": "dg", "pets": "xd"}


def right_lines(method: str, shares: dict[str, float]) -> list[dict]:
    return [
        {
            "method": method,
            "mode": "centroid",
            "seed": seed,
            "dataset": name,
            "role": ROLES[name],
            "n_images": N,
            "right": pack_right(np.arange(N) < share * N),
        }
        for name, share in shares.items()
        for seed in (1, 2, 3)
    ]


@pytest.fixture
def results(tmp_path):
    """A head with 80 % on the source and 70 % on DG; the class name has 50 % and a soup 60 %."""
    everywhere = [("class_name", 0.5), ("word_soup", 0.6)]
    lines = [line for method, share in everywhere for line in right_lines(method, dict.fromkeys(ROLES, share))]
    store.write_table(tmp_path / "pretrained/right.parquet", pa.Table.from_pylist(lines))
    lines = right_lines("word_soup", {"photo": 0.8, "sketch": 0.7})
    about = {"soup": "word", "parameters": 64, "left_out": [["both", 9, 10], ["both", 8, 10], ["both", 10, 10]]}
    store.write_table(tmp_path / "heads/mine.parquet", pa.Table.from_pylist(lines), attributes=about)
    return tmp_path


def test_a_head_is_compared_with_the_class_name_and_its_texts_on_its_classes(results):
    table = heads_table(results, heads=["mine"], roles=ROLES, confidence=0.95)
    assert [(row["over"], row["role"], round(row["gain"], 6), row["verdict"]) for row in table.rows] == [
        ("class name only", "source", 30.0, "better"),
        ("class name only", "DG", 20.0, "better"),
        ("word soup", "source", 20.0, "better"),
        ("word soup", "DG", 10.0, "better"),
    ]
    row = table.rows[0]
    assert (row["head"], row["kind"], row["texts"], row["stored"], row["left out"]) == (
        *("mine", "both", "word soup", 64),
        90.0,
    )


def test_the_page_shows_all_rows_of_heads(results):
    table = heads_table(results, heads=["mine"], roles=ROLES, confidence=0.95)
    (shown,) = page_tables([table], source="photo")
    assert len(shown["rows"]) == 4
    assert not any(row["extra"] for row in shown["rows"])


def test_a_one_shot_head_has_no_left_out_accuracy(results):
    path = results / "heads/mine.parquet"
    about = {**store.table_attributes(path), "left_out": [["prototypes", 0, 0]] * 3}
    store.write_table(path, store.read_table(path), attributes=about)
    (first, *_) = heads_table(results, heads=["mine"], roles=ROLES, confidence=0.95).rows
    assert first["left out"] is None


def test_a_head_without_results_names_its_stage(results):
    with pytest.raises(MissingError, match="head@other"):
        heads_table(results, heads=["other"], roles=ROLES, confidence=0.95)
