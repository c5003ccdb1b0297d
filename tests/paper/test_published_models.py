"""`wsoup models`: rows of published encoders, which are best for their cost, and the figure on the page of docs."""

from __future__ import annotations

import csv
import io

from processes import ROOT
from run_cli import run

from wsoup.paper.published import PublishedEncoder, encoders
from wsoup.paper.published_models import front, points, rows
from wsoup.report.svg import write_points


def encoder(name: str, *, flops: float, imagenet: float, tag: str = "openai") -> PublishedEncoder:
    return PublishedEncoder(name, tag, 100.0, flops, 50.0, {"imagenet": imagenet})


KNOWN = [
    encoder("large", flops=100, imagenet=75.0, tag="laion2b"),
    encoder("small", flops=10, imagenet=60.0),
    encoder("middle", flops=20, imagenet=60.4),
    encoder("as_small", flops=10, imagenet=55.0, tag="v1"),
]


def test_the_best_for_their_cost_are_better_than_all_cheaper_ones():
    assert [each.model for each in front(KNOWN)] == ["small", "large"], "middle is better by less than half a point"


def test_a_row_says_whether_the_weights_are_here():
    listed = rows(KNOWN, here={"small / openai"})
    assert [row["downloaded"] for row in listed] == ["no", "yes", "no", "no"]
    assert listed[0] == {
        "model": "large",
        "pretrained": "laion2b",
        "parameters_millions": 100.0,
        "gflops": 100,
        "imagenet": 75.0,
        "average_of_38": 50.0,
        "downloaded": "no",
    }


def test_points_have_where_weights_were_trained_and_the_best_have_names():
    assert [(point["family"], point["label"]) for point in points(KNOWN)] == [
        ("LAION", "large / laion2b"),
        ("OpenAI", "small / openai"),
        ("OpenAI", ""),
        ("others", ""),
    ]


def test_every_encoder_is_a_row_and_a_part_of_a_name_chooses():
    code, printed, _ = run("models")
    assert code == 0
    every = list(csv.DictReader(io.StringIO(printed)))
    assert len(every) == 121
    assert printed.startswith("model,pretrained,parameters_millions,gflops,imagenet,average_of_38,downloaded\n")
    code, printed, _ = run("models", "b-16 / OPENAI")
    assert [(row["model"], row["imagenet"]) for row in csv.DictReader(io.StringIO(printed))] == [("ViT-B-16", "68.34")]
    code, printed, _ = run("models", "ViT-B")
    listed = {row["model"] for row in csv.DictReader(io.StringIO(printed))}
    assert {"ViT-B-16", "ViT-B-32"} < listed
    assert not any("bigG" in model for model in listed)
    code, printed, errors = run("models", "resnet-1000")
    assert (code, printed) == (1, "")
    assert errors == "error: no published encoder has 'resnet-1000' in its name or tag; `wsoup models` lists all\n"


def test_the_figure_on_the_page_is_that_of_the_file(tmp_path):
    drawn = write_points(tmp_path / "models.svg", points(encoders()), name="models")
    assert drawn.read_text(encoding="utf-8") == (ROOT / "docs/models.svg").read_text(encoding="utf-8")
