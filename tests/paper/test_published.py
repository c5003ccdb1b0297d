"""Published figures: which line is of which encoder, which dataset is meant, and that the files fit each other."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.paper import published
from wsoup.paper.published import dataset_of, datasets, encoders, names_of, of_encoder, templates_of
from wsoup.towers.models import ensemble_templates


def test_the_files_fit_each_other():
    known = datasets()
    with open(project.file("data/published/openclip_results.csv"), encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(encoders()) == len(lines) == 121
    assert {each.column for each in known.values()} < {*lines[0]}
    templates = json.loads(project.file("data/published/templates.json").read_text(encoding="utf-8"))
    assert {each.templates for each in known.values()} == {*templates}
    for each in known.values():
        assert len(names_of(each)) in (0, each.n_classes)
        assert all(template.count("{}") == 1 for template in templates_of(each))
    means = {name for name, each in known.items() if each.metric == "mean_per_class"}
    assert means == {"caltech101", "oxford_pets", "oxford_flowers", "fgvc_aircraft"}


def test_the_templates_of_imagenet_are_open_clips():
    assert templates_of(datasets()["imagenet"]) == [fill("{}") for fill in ensemble_templates()]


@pytest.mark.parametrize(
    ("model", "pretrained", "quick_gelu", "line", "imagenet", "twin"),
    [
        ("ViT-B-16", "openai", True, "ViT-B-16", 68.34, None),
        ("ViT-B-16-quickgelu", "openai", True, "ViT-B-16", 68.34, None),
        ("ViT-B-32", "openai", True, "ViT-B-32-quickgelu", 63.32, None),
        ("ViT-B-32", "laion400m_e32", True, "ViT-B-32-quickgelu", 62.93, 60.24),
        ("ViT-B-32-quickgelu", "laion400m_e32", True, "ViT-B-32-quickgelu", 62.93, 60.24),
        ("ViT-B-32", "laion400m_e32", False, "ViT-B-32", 60.24, 62.93),
        ("ViT-B-16", "laion2b_s34b_b88k", False, "ViT-B-16", 70.23, None),
    ],
)
def test_the_line_of_an_encoder_goes_by_its_activation(model, pretrained, quick_gelu, line, imagenet, twin):
    """open_clip publishes some weights by two names, one with the activation that they were not trained with."""
    ours, other = of_encoder(model, pretrained, quick_gelu=quick_gelu)
    assert ours is not None
    assert (ours.model, round(ours.accuracy["imagenet"], 2)) == (line, imagenet)
    assert twin == (None if other is None else round(other.accuracy["imagenet"], 2))


def test_an_encoder_without_figures_has_none():
    assert of_encoder("toy-clip", "toy-clip.safetensors", quick_gelu=False) == (None, None)


@pytest.mark.parametrize(
    ("name", "layout", "expected"),
    [
        ("imagenet", "coop:imagenet", "imagenet"),
        ("imagenet_a", "coop:imagenet_a", "imagenet_a"),
        ("laion", "laion:/images", "imagenet"),
        ("mine", "coop:oxford_pets", "oxford_pets"),
        ("pets", "imagefolder", "oxford_pets"),
        ("CIFAR-100", "huggingface", "cifar100"),
        ("flowers", "imagefolder", "oxford_flowers"),
        ("ucf101", "coop:ucf101", None),
        ("garden", "imagefolder", None),
    ],
)
def test_the_dataset_of_a_section(name, layout, expected):
    known = dataset_of(name, layout=layout)
    assert expected == (None if known is None else known.name)


def test_test_images_are_known_by_their_numbers():
    known = datasets()["food101"]
    assert known.differs(n_images=25_250, n_classes=101) == ""
    assert known.differs(n_images=30_300, n_classes=101) == "30,300 test images instead of 25,250"
    assert known.differs(n_images=30_300, n_classes=50) == "50 classes instead of 101"


def test_a_line_of_ones_own_counts_and_a_wrong_one_is_named(in_tmp):
    own = published.FOLDER / "openclip_results.csv"
    own.parent.mkdir(parents=True)
    text = project.file(str(own)).read_text(encoding="utf-8")
    cells = text.splitlines()[1].split(",")
    own.write_text(text + ",".join(["mine", "weights.pt", *cells[2:]]) + "\n")
    ours, _ = of_encoder("mine", "weights.pt", quick_gelu=False)
    assert ours is not None
    assert ours.accuracy["imagenet"] == pytest.approx(84.37)
    Path(own).write_text(text + ",".join(["mine", "weights.pt", "many", *cells[3:]]) + "\n")
    with pytest.raises(DataError, match=r"openclip_results\.csv, line 123: ValueError could not convert string to fl"):
        encoders()
