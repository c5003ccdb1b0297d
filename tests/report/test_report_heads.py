"""Tables of heads and adaptations, from hand-written counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.evaluate.bits import pack_right
from wsoup.report.heads import adapted_table, heads_table
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
    about = {"soup": "word", "parameters": 68, "left_out": [["gda", 9, 10], ["gda", 8, 10], ["ridge", 10, 10]]}
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
        *("mine", "gda/ridge", "word soup", 68),
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
    with pytest.raises(MissingError, match="evaluate_head@other"):
        heads_table(results, heads=["other"], roles=ROLES, confidence=0.95)


def adapted(tmp_path, *, after: dict[int, list[int]]) -> dict:
    """One pile of 4 of 8 images per seed; the texts get the first two right."""
    shared = {"dataset": "pets", "regime": "fifth"}
    key = [
        {**shared, "seed": k, "images": [k, 3, 5, 7], "labels": [0, 1, 0, 1], "role": "xd", "n_all": 8} for k in after
    ]
    lines = [{**shared, "seed": k, "before": [0, 1, 1, 0], "after": a, "adapted": k / 2} for k, a in after.items()]
    store.write_table(tmp_path / "piles/labels.parquet", pa.Table.from_pylist(key))
    about = {"kind": "em", "soup": "class_name"}
    store.write_table(tmp_path / "adapted/em.parquet", pa.Table.from_pylist(lines), attributes=about)
    (row,) = adapted_table(tmp_path, adaptations=["em"], confidence=0.95).rows
    return dict(row)


def test_accuracies_are_means_over_piles(tmp_path):
    """50 % before; 4 and 3 of 4 after."""
    row = adapted(tmp_path, after={1: [0, 1, 0, 1], 2: [0, 1, 0, 0]})
    assert (row["texts alone"], row["adapted"], row["gain"], row["pets"]) == pytest.approx((50, 87.5, 37.5, 37.5))
    assert (row["regime"], row["role"], row["texts"]) == ("a fifth of the classes", "XD", "class name only")
    assert (row["left alone"], row["piles"], row["worse piles"]) == (25.0, 2, 0)


def test_piles_worse_by_more_than_chance_are_counted(tmp_path):
    """Two lost and none gained is z = 1.41; the other pile gained both."""
    assert adapted(tmp_path, after={1: [1, 0, 1, 0], 2: [0, 1, 0, 1]})["worse piles"] == 0
    key = store.read_table(tmp_path / "piles/labels.parquet").to_pylist()
    long = [{**line, "images": list(range(8)), "labels": [0] * 8} for line in key]
    lost = [
        {**{k: line[k] for k in ("dataset", "regime", "seed")}, "before": [0] * 8, "after": [1] * 8, "adapted": 1.0}
        for line in key
    ]
    store.write_table(tmp_path / "piles/labels.parquet", pa.Table.from_pylist(long))
    about = {"kind": "em", "soup": "class_name"}
    store.write_table(tmp_path / "adapted/em.parquet", pa.Table.from_pylist(lost), attributes=about)
    (row,) = adapted_table(tmp_path, adaptations=["em"], confidence=0.95).rows
    assert (row["worse piles"], row["gain"], row["verdict"]) == (2, -100.0, "worse")
