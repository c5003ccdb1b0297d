"""The paper's "gain over" rows: differences with intervals, by image where right images are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from report_made import CLASS_NAME, WORD_SOUP, both_seeds, paper_settings, results

from wsoup.disk import store
from wsoup.evaluate.right import pack_right
from wsoup.report.gains import gains, pairs
from wsoup.report.tables import Table, TableCells
from wsoup.statistics.noise import Verdict


def only(table: Table, method: str, over: str) -> TableCells:
    (line,) = [row for row in table.rows if (row["method"], row["over"]) == (method, over)]
    return line


def keep_right(folder, counts: dict[str, dict[str, tuple[int, int]]]) -> None:
    """The first images of each dataset are right, so that a row with more has all that one with fewer has."""
    lines: list[dict[str, Any]] = []
    for method, of_dataset in counts.items():
        for dataset, pair in of_dataset.items():
            for seed, n in zip((1, 2), pair, strict=True):
                where = {"method": method, "mode": "centroid", "dataset": dataset, "seed": seed, "n_images": 100}
                lines.append({**where, "right": pack_right(np.arange(100) < n)})
    store.write_table(folder / "pretrained/right.parquet", pa.Table.from_pylist(lines))


def test_a_gain_is_the_difference_of_means_beside_the_papers(tmp_path):
    """XD: (45 + 25 - 40 - 20) / 2 = 5 points. Source: 62 - 60 = 2; the paper has 69.2 - 67.1 = 2.1 on ImageNet."""
    table = gains(results(), folder=tmp_path, confidence=0.95)
    line = only(table, "Word soup", "CLIP ZS")
    assert [line["source"], line["XD mean"], line["DG mean"]] == pytest.approx([2, 5, 3])
    assert line["source (paper)"] == pytest.approx(2.1)
    assert line["source (diff)"] == pytest.approx(-0.1)
    assert line["compared by"] == "counts"
    assert len(table.rows) == 1, "rows that this run lacks have no gain"
    assert len(pairs()) == 4 * 6 + 4


def test_rows_whose_right_images_are_kept_are_compared_by_image(tmp_path):
    """With the same mean and a shorter interval; images of another size of soup are not taken for this one's."""
    by_count = only(gains(results(), folder=tmp_path, confidence=0.95), "Word soup", "CLIP ZS")
    keep_right(tmp_path, {"class_name": CLASS_NAME, "word_soup": WORD_SOUP})
    by_image = only(gains(results(), folder=tmp_path, confidence=0.95), "Word soup", "CLIP ZS")
    assert by_image["compared by"] == "images"
    for place in ("source", "XD mean", "DG mean"):
        assert by_image[place] == pytest.approx(by_count[place])
        assert by_image[f"{place} low"] > by_count[f"{place} low"]
        assert by_image[f"{place} high"] < by_count[f"{place} high"]
    keep_right(tmp_path, {"class_name": CLASS_NAME, "word_soup": {**WORD_SOUP, "dtd": (44, 45)}})
    again = only(gains(results(), folder=tmp_path, confidence=0.95), "Word soup", "CLIP ZS")
    assert again["compared by"] == "counts"
    assert again["XD mean low"] == by_count["XD mean low"]


def test_a_comparison_of_the_table_of_verdicts_has_its_interval_here_too(tmp_path):
    pair = (("pretrained", "word_soup"), ("pretrained", "class_name"))
    known = {(*pair, "xd"): Verdict(5.0, 1.5, 8.5, p=0.01, level=0.025, word="better")}
    line = only(gains(results(), folder=tmp_path, confidence=0.95, known=known), "Word soup", "CLIP ZS")
    assert [line["XD mean low"], line["XD mean high"]] == [1.5, 8.5]
    assert line["source low"] < 0 < line["source high"]


def test_a_row_that_is_not_comparable_marks_the_gain(tmp_path):
    table = gains(results(unlike=("imagenet",)), folder=tmp_path, confidence=0.95)
    assert "| Word soup | CLIP ZS | 2.00 (2.1, -0.10*) |" in table.as_markdown()


@pytest.mark.parametrize(
    ("changed", "marked"),
    [
        ({}, []),
        ({"soups__word__k0": 7}, ["CLIP ZS", "Ensemble"]),
        ({"datasets__food101__baseline_template": None}, ["Ensemble"]),
    ],
)
def test_one_row_that_is_not_comparable_is_enough_to_mark_a_gain(tmp_path, changed, marked):
    """Another k0 is of the soup, which is the first row; other templates are of the ensemble, which is the second."""
    lines = [*both_seeds("class_name", CLASS_NAME), *both_seeds("ensemble", CLASS_NAME)]
    lines += both_seeds("word_soup", WORD_SOUP, m=2, texts=2.0)
    table = gains(results(lines, settings=paper_settings(**changed)), folder=tmp_path, confidence=0.95)
    assert [row["over"] for row in table.rows if row["method"] == "Word soup"] == ["CLIP ZS", "Ensemble"]
    assert [row["over"] for row in table.rows if "source (mark)" in row] == marked


def test_a_model_finetuned_with_a_soup_is_compared_with_the_one_without(tmp_path):
    """few_shot.csv: Vanilla CoOp has 70.0 on ImageNet, with the word soup's score mean 70.2."""
    lines = both_seeds("class_name", {"imagenet": (60, 60)})
    lines += both_seeds("class_name", {"imagenet": (70, 70)}, variant="coop")
    lines += both_seeds("word_soup", {"imagenet": (72, 76)}, variant="coop_diverse", mode="score_mean")
    table = gains(results(lines, roles={"imagenet": "source"}), folder=tmp_path, confidence=0.95)
    line = only(table, "coop_diverse + Word soup score mean", "coop")
    assert line["source"] == pytest.approx(4.0)
    assert line["source (paper)"] == pytest.approx(0.2)
