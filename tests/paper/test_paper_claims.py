"""The paper's claims beside the numbers of a finished run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.paper import claims
from wsoup.report.tables import Table

EFFICIENCY = [
    {"method": "CoOp 1 token", "stored": 512.0, "XD mean": 60.0, "DG mean": 50.0},
    {"method": "CoOp 3 tokens", "stored": 1536.0, "XD mean": 62.0, "DG mean": 51.0},
    {"method": "LoRA rank=1", "stored": 18432.0, "XD mean": 61.0},
    {"method": "Word Soup m=1", "stored": 12.0, "XD mean": 59.0, "DG mean": 49.0},
    {"method": "Word Soup m=2", "stored": 24.0, "XD mean": 61.5, "DG mean": 52.0},
    {"method": "Word Soup + CoOp m=4", "stored": 1600.0, "XD mean": 70.0, "DG mean": 60.0},
]


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> Path:
    """A table as stage `report` writes it."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    Table(name, "", columns, rows).write(folder)
    return folder / f"{name}.csv"


def test_descriptors_better_than_the_class_name_are_counted_without_ties(tmp_path):
    """Of the first seed: 9 and 7 are more than 5; a tie with it and the counts of another seed do not matter."""
    counts = {"": 5, "sharp": 9, "old": 2, "new": 7, "tie": 5}
    texts = [*counts, *counts]
    lines = pa.table({"text": texts, "seed": [1] * 5 + [2] * 5, "n_correct": [*counts.values(), 0, 9, 9, 9, 9]})
    store.write_table(tmp_path / "descriptors.parquet", lines)
    said = claims.better_descriptors(tmp_path / "descriptors.parquet")
    assert said == "Descriptors better than none: paper about 1200 of 4227, ours 2 of 4"
    assert "is missing" in claims.better_descriptors(tmp_path / "words.parquet")


def test_a_soup_of_two_is_compared_with_every_row_without_a_soup(tmp_path):
    """61.5 is more than 60 and 61 but not 62; on DG LoRA was not counted, and 52 is more than both others."""
    path = write(tmp_path, "parameter_efficiency", EFFICIENCY)
    assert claims.beaten_baselines(path) == (
        "A word soup of m = 2 beats all baselines: XD ours 61.50 beats 2 of 3 (best: CoOp 3 tokens, 62.00); "
        "DG ours 52.00 beats 2 of 2 (best: CoOp 3 tokens, 51.00)"
    )
    assert claims.fewer_parameters(path) == (
        "25 and 70 times fewer parameters: beside the 24 numbers of ours of m = 2, CoOp 1 token 21 times, "
        "CoOp 3 tokens 64 times as many"
    )
    path = write(tmp_path, "parameter_efficiency", EFFICIENCY[:3])
    assert "has no Word Soup m=2" in claims.beaten_baselines(path)
    assert "has no Word Soup m=2" in claims.fewer_parameters(path)


def test_gains_of_the_papers_last_row_stand_beside_its_differences(tmp_path):
    places = {"XD mean": 1.2, "XD mean (paper)": 1.61, "XD mean (diff)": -0.41, "XD mean low": 0.4, "XD mean high": 2.0}
    row = {"method": "Word soup score mean", "over": "GPT score mean", **places, "compared by": "images"}
    other = {"method": "Word soup", "over": "GPT score mean", **places, "compared by": "images"}
    without = {"method": "Word soup score mean", "over": "Waffle CLIP", "XD mean": -0.5, "XD mean low": -1.0}
    without |= {"XD mean high": 0.0, "compared by": "counts"}
    over_gpt, over_waffle = claims.gains(write(tmp_path, "gains", [row, other, without]))
    assert over_gpt == (
        "Word soup score mean, gain over GPT score mean: XD paper +1.61, ours +1.20 [+0.40, +2.00] (compared by images)"
    )
    assert over_waffle.endswith("gain over Waffle CLIP: XD ours -0.50 [-1.00, +0.00] (compared by counts)")


def test_memory_is_told_only_where_it_was_measured(tmp_path):
    rows: list[dict[str, object]] = [{"method": "coop", "device memory, MiB": "not measured on a CPU"}]
    assert claims.less_memory(write(tmp_path, "memory", rows)) == "Less GPU memory: not measured on a CPU"
    rows += [{"method": "ce", "device memory, MiB": 4000}, {"method": "search", "device memory, MiB": 900}]
    assert claims.less_memory(write(tmp_path, "memory", rows)) == "Less GPU memory: ce 4000 MiB, search 900 MiB"


def test_the_loss_is_told_at_the_tuned_point_and_both_initialisations(tmp_path):
    """Points on the way between them are left out."""
    about = {"method": "soft", "mean": "training images"}
    points = [{**about, "line": "to B, the soup", "place": place, "error": 20.0 + 8 * place} for place in (0, 0.5, 1)]
    points += [{**about, "line": "to A, random words", "place": place, "error": 20.0 + 30 * place} for place in (0, 1)]
    path = tmp_path / "landscape_lines.json"
    path.write_text(json.dumps(points))
    assert claims.landscape(path).endswith(
        "soft, training images: tuned 20.0, B, the soup 28.0, A, random words 50.0 % wrong"
    )
    path.write_text("[]")
    assert "params.yaml has no landscape.methods" in claims.landscape(path)


def test_a_folder_without_a_run_says_what_is_missing(tmp_path):
    said = list(claims.claims(Artifacts(tmp_path)))
    assert len(said) == 6
    assert all("not known" in line for line in said)
