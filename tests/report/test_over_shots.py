"""Runs with other numbers of shots: rows and points by hand, and the figure that is drawn of them."""

from __future__ import annotations

from wsoup.report.over_shots import every_row, points
from wsoup.report.record import Record
from wsoup.report.svg import write_points

PARAMS = {
    "report": {"mode": "paper"},
    "soups": {"top": {}, "word": {}, "word_curve": {}},
    "finetune": {"methods": {"coop": {"soup": "class_name"}, "mine": {"soup": "word"}}},
    "heads": {"ridge": {"soup": "word"}},
}


def record(word: float) -> Record:
    rows = {
        "pretrained": {
            "class_name": {"source": 50.0, "xd": 40.0},
            "word_soup": {"source": 1.0},
            "word_soup_score_mean": {"source": word, "source (std)": 0.5, "dg": 30.0},
        },
        "mine": {"word_soup_score_mean": {"source": 70.0}},
        "ridge": {"word_soup": {"source": 80.0}},
    }
    return Record(answer=[], params=PARAMS, soup="word", mode="paper", members=[], rows=rows)


RECORDS = {1: record(55.0), 4: record(60.0)}


def test_every_row_of_every_run_has_its_places():
    rows = every_row(RECORDS)
    assert rows[:2] == [
        {"shots": 1, "variant": "pretrained", "row": "class_name", "source": 50.0, "xd": 40.0, "dg": ""},
        {"shots": 1, "variant": "pretrained", "row": "word_soup", "source": 1.0, "xd": "", "dg": ""},
    ]
    assert len(rows) == 10


def test_the_figure_has_soups_as_they_are_judged_and_what_was_trained():
    drawn = [(p["shots"], p["place"], p["row"], p["accuracy"], p["std"]) for p in points(RECORDS)]
    assert drawn[:6] == [
        (1, "source", "class name", 50.0, 0.0),
        (1, "XD mean", "class name", 40.0, 0.0),
        (1, "source", "word soup", 55.0, 0.5),
        (1, "DG mean", "word soup", 30.0, 0.0),
        (1, "source", "mine, finetuned", 70.0, 0.0),
        (1, "source", "head ridge", 80.0, 0.0),
    ]
    assert len(drawn) == 12


def test_the_figure_is_drawn(tmp_path):
    drawn = write_points(tmp_path / "shots.svg", points(RECORDS), name="shots").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    for text in ("word soup", "head ridge", "XD mean", "shots"):
        assert f">{text}<" in drawn
