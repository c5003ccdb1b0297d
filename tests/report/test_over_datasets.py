"""From base to new classes over several datasets: means and both kinds of H by hand, the page and the figure."""

from __future__ import annotations

import pytest

from wsoup.report.over_datasets import (
    MEAN,
    MEAN_OF_H,
    Halves,
    csv_rows,
    markdown,
    means,
    points,
    published,
    published_name,
    read_halves,
)
from wsoup.report.record import Record
from wsoup.report.svg import write_points

TABLE = """method,m,base,base (std),new,new (std),H,H (std)
CLIP ZS,1.0,60.0,0.0,30.0,0.0,40.0,0.0
coop + Word soup score mean,8.0,90.0,1.0,10.0,1.0,18.0,1.0
ridge + Word soup,8.0,95.0,1.0,,,,
"""
PARAMS = {
    "encoder": {"model": "ViT-B-16", "pretrained": "openai"},
    "fewshot": {"shots": 16},
    "datasets": {"pets": {"layout": "coop:oxford_pets"}},
    "report": {"mode": "paper"},
    "soups": {"word": {}},
    "finetune": {"methods": {"coop": {"soup": "word"}, "ce": {"soup": "class_name"}}},
}
ELEVEN = ["imagenet", "caltech101", "oxford_pets", "stanford_cars", "oxford_flowers", "food101", "fgvc_aircraft"]
ELEVEN += ["sun397", "dtd", "eurosat", "ucf101"]


def record(**changes: object) -> Record:
    return Record(answer=[], params={**PARAMS, **changes}, soup="word", mode="paper", members=[], rows={})


@pytest.fixture
def by_dataset() -> dict[str, list[Halves]]:
    plain = TABLE.replace("CLIP ZS", "Class name only").replace("60.0", "80.0").replace("30.0", "80.0")
    return {
        "pets": read_halves("pets", TABLE, seeds=3),
        "mine": read_halves("mine", plain.replace("40.0", "80.0") + "Word soup,8.0,1,0,1,0,1,0\n", seeds=3),
    }


def test_rows_have_one_name_whatever_the_dataset(by_dataset):
    assert len(by_dataset["pets"]) == 2, "a head knows no new classes"
    assert by_dataset["pets"][0] == Halves("pets", "Class name only", 1.0, 60.0, 30.0, 40.0, 3)


def test_h_of_the_means_and_mean_of_h_by_hand(by_dataset):
    """60 and 30 have 40, 80 and 80 have 80. Of the means 70 and 55 it is 61.6, the mean of H is 60."""
    plain, tuned = means(by_dataset)
    assert (plain.base, plain.new, plain.mean_of_h) == (70.0, 55.0, 60.0)
    assert plain.h == pytest.approx(2 * 70 * 55 / 125)
    assert tuned.method == "coop + Word soup score mean", "a row that one dataset lacks has no mean"


def test_rows_of_the_csv_say_which_h_they_have(by_dataset):
    rows = csv_rows(by_dataset)
    assert list(rows[0]) == ["dataset", "method", "texts", "base", "new", "h", "seeds"]
    assert [row["dataset"] for row in rows] == ["pets"] * 2 + ["mine"] * 3 + [MEAN, MEAN_OF_H] * 2
    assert [row["h"] for row in rows[5:7]] == [61.6, 60.0]
    alone = csv_rows({"pets": by_dataset["pets"]})
    assert [row["dataset"] for row in alone] == ["pets"] * 2


def test_the_page_has_means_first_then_each_dataset(by_dataset):
    page = markdown(by_dataset, beside={})
    assert page.startswith("# From base to new classes: means over 2 datasets\n")
    assert "| Class name only | 1 | 70.00 | 55.00 | 61.60 | 60.00 |" in page
    assert "as in CoCoOp" in page
    assert "# From base to new classes: pets\n\n| method | texts | base | new | H |" in page
    assert "| Class name only | 1 | 60.00 | 30.00 | 40.00 |" in page
    assert "published" not in page.lower()
    assert "means over" not in markdown({"pets": by_dataset["pets"]}, beside={}).splitlines()[0]


def test_published_figures_stand_beside_runs_of_their_protocol_alone(by_dataset):
    page = markdown(by_dataset, beside={"pets": "oxford_pets"})
    assert "| CoCoOp, published |  | 95.20 | 97.69 | 96.43 |" in page
    assert "80.47" not in page, "the means are of eleven datasets"
    assert page.count("CLIP, published") == 1
    assert published_name(record(), dataset="pets") == "oxford_pets"
    assert published_name(record(datasets={"dtd": {"layout": "coop"}}), dataset="dtd") == "dtd"
    assert published_name(record(fewshot={"shots": 4}), dataset="pets") is None
    assert published_name(record(encoder={"model": "ViT-B-32", "pretrained": "openai"}), dataset="pets") is None
    assert published_name(record(datasets={"pets": {"root": "pets"}}), dataset="pets") is None
    assert published_name(record(datasets={"r": {"layout": "coop:imagenet_r"}}), dataset="r") is None


def test_published_means_stand_beside_all_eleven_datasets_alone(by_dataset):
    eleven = dict.fromkeys(ELEVEN, by_dataset["pets"])
    page = markdown(eleven, beside={name: name for name in ELEVEN})
    assert "| CoCoOp, published |  | 80.47 | 71.69 | 75.83 |  |" in page
    assert "muzairkhattak/PromptSRC" in page
    assert page.count("CLIP, published") == 12
    assert "80.47" not in markdown(eleven, beside={name: name for name in ELEVEN[1:]})


def test_published_h_and_means_are_those_of_the_published_figures():
    """What a later paper quotes by dataset has the means that the authors print."""
    figures: dict[tuple[str, str], list[float]] = {}
    for line in published():
        base, new, h = (float(line[column]) for column in ("base", "new", "h"))
        assert 2 * base * new / (base + new) == pytest.approx(h, abs=0.012)
        assert line["source"]
        figures[line["method"], line["dataset"]] = [base, new]
    for method in ("CLIP", "CoOp", "CoCoOp", "MaPLe", "PromptSRC"):
        of_method = [figures.pop((method, dataset)) for dataset in ELEVEN]
        mean = [sum(column) / 11 for column in zip(*of_method, strict=True)]
        assert mean == pytest.approx(figures.pop((method, "all")), abs=0.006)
    assert not figures


def test_a_file_of_means_alone_is_read_as_before(in_tmp):
    path = in_tmp / "data/published/base_to_new.csv"
    path.parent.mkdir(parents=True)
    path.write_text("method,base,new,h,source\nMine,60,30,40,my page\n")
    assert published() == [
        {"dataset": "all", "method": "Mine", "base": "60", "new": "30", "h": "40", "source": "my page"}
    ]


def test_the_figure_has_the_rows_that_a_run_is_judged_by(by_dataset, tmp_path):
    drawn = points(by_dataset, record=record())
    assert {point["method"] for point in drawn} == {"Class name only", "coop + Word soup score mean"}
    assert {point["classes"] for point in drawn} == {"base", "new", "H"}
    svg = write_points(tmp_path / "x.svg", drawn, name="base_to_new").read_text(encoding="utf-8")
    assert ">pets<" in svg
