"""The published figure in the line of the templates: on the answer, on the page, and before the run."""

from __future__ import annotations

from types import SimpleNamespace

from report_made import results
from yaml_in_c import safe_load

from wsoup.pipeline.checks.published import figure_of
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.paper import Paper
from wsoup.report import main_table
from wsoup.report.published_beside import beside_templates, figures, in_words
from wsoup.report.record import Record

OPENAI = {"model": "ViT-B-16", "pretrained": "openai"}
DATASETS = {name: {"layout": f"coop:{name}"} for name in ("imagenet", "imagenet_a", "oxford_pets", "food101", "ucf101")}
IMAGES = {"imagenet": 50_000, "imagenet_a": 7_500, "oxford_pets": 3_669, "food101": 30_300, "ucf101": 3_783}


def test_figures_are_those_of_the_80_templates_on_the_same_images():
    """Pets' figure is of another template and a mean over classes; a part of ImageNet is another test set."""
    assert {name: round(figure, 2) for name, figure in figures(OPENAI, datasets=DATASETS, images=IMAGES).items()} == {
        "imagenet": 68.34,
        "imagenet_a": 49.95,
    }
    assert figures(OPENAI, datasets=DATASETS, images={**IMAGES, "imagenet": 10_000}).keys() == {"imagenet_a"}
    assert figures({"model": "mine", "pretrained": "weights.pt"}, datasets=DATASETS, images=IMAGES) == {}


def test_they_stand_in_the_line_of_the_templates():
    params = {"encoder": OPENAI, "datasets": DATASETS}
    record = Record(answer=[], params=params, soup="word", mode="centroid", members=[], rows={}, images=IMAGES)
    lines = [f"{row:<24}{figure:>10}" for row, figure in (("per cent", "source"), ("80 templates", "68.42"))]
    head, last = beside_templates(lines, record=record)
    assert head == lines[0]
    assert last == f"{lines[1]}  published (open_clip): imagenet 68.34, imagenet_a 49.95"
    assert beside_templates([head], record=record) == [
        head,
        "80 templates, published (open_clip): imagenet 68.34, imagenet_a 49.95",
    ]
    elsewhere = Record(**{**record.model_dump(), "images": {}})
    assert beside_templates(lines, record=elsewhere) == lines


def test_they_stand_in_the_row_of_the_page():
    run = SimpleNamespace(
        results=results(),
        params=SimpleNamespace(datasets={name: SimpleNamespace(layout=f"coop:{name}") for name in ("imagenet", "dtd")}),
    )
    assert main_table._published(run) == "", "its facts say 100 images"
    run.results.facts["imagenet"]["n_images"] = 50_000
    assert main_table._published(run) == in_words({"imagenet": 68.34}) == "published (open_clip): imagenet 68.34"


def test_before_the_run_check_says_which_datasets_have_one():
    params = parse_params(safe_load(Paper("/data").text()), origin="paper")

    def said(name: str, n_images: int, n_classes: int) -> list[str]:
        return list(figure_of(name, params=params, n_images=n_images, n_classes=n_classes))

    assert said("oxford_pets", 3_669, 37) == [
        "published figure: 88.86 % (mean over classes, ViT-B-16 / openai); `wsoup verify published` compares it"
    ]
    assert said("food101", 30_300, 101) == [
        "its published figure, 88.72 % (accuracy, ViT-B-16 / openai), is of other images: 30,300 test images instead "
        "of 25,250"
    ]
    assert said("ucf101", 3_783, 101) == []
