"""The soups of the paper's authors by name, and their counts: every figure that is printed is one of the logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from project import ROOT
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.base.errors import MismatchError, MissingError, ParamsError
from wsoup.core.soup import Soup
from wsoup.paper.soups import NAMES, counts, gains, named

FIRST = "here however trend begun acknowledge originally poor known impressive thanks"
COUNTS_OF_WORD = {"ImageNet": (34693, 33555, 34212), "DTD": (762, 737, 743), "ImageNetA": (3765, 3543, 3689)}
"""By hand from authors_evaluation_log.csv, seed 1: the word soup, the class name, the 80 templates."""


def log() -> dict[tuple[str, int, str], tuple[int, int]]:
    """(method, seed, dataset) -> correct, images; read with no help of wsoup."""
    lines = (ROOT / "data/paper/authors_evaluation_log.csv").read_text().splitlines()[1:]
    cells = [line.split(",") for line in lines]
    return {(method, int(seed), name): (int(right), int(n)) for method, seed, name, n, right in cells}


def test_the_texts_are_those_that_the_authors_evaluated():
    """Seed 1 unless another is named: 8 words; 14, 17 and 10 descriptors; bare, in their order."""
    soup = wsoup.Soup.load("paper:word")
    assert type(soup) is wsoup.Soup
    assert (soup.kind, soup.seed, soup.template, len(soup.texts)) == ("chains", 1, "a photo of a {}.", 8)
    assert soup.texts[0] == FIRST
    assert soup.templates()[0] == f"a photo of a {{}}, {FIRST}."
    sizes = {name: len(named(name).members) for name in NAMES}
    assert sizes == {
        "paper:word": 8, "paper:word-seed2": 8, "paper:word-seed3": 8, "paper:word-all": 24,
        "paper:descriptor": 14, "paper:descriptor-seed2": 17, "paper:descriptor-seed3": 10, "paper:descriptor-all": 41,
    }  # fmt: skip
    lines = (ROOT / "data/paper/authors_evaluated_texts.csv").read_text().splitlines()[1:]
    for kind in ("word", "descriptor"):
        theirs = [re.sub(r'^[a-z]+,\d,\d+,"?|\."?$', "", line) for line in lines if line.startswith(kind)]
        assert named(f"paper:{kind}-all").texts == theirs
    assert named("paper:word-seed1") == named("paper:word")
    assert named("paper:word-all").seed is None


def test_a_file_of_one_says_where_it_is_from(tmp_path):
    soup = wsoup.Soup.load("paper:descriptor-seed2")
    soup.save(tmp_path / "theirs.json")
    assert wsoup.Soup.load(tmp_path / "theirs.json") == soup
    written = json.loads((tmp_path / "theirs.json").read_text())
    assert written["encoder"] == {"model": "ViT-B-16", "pretrained": "openai", "quick_gelu": True}
    assert written["preprocessing"] == {"interpolation": "bilinear"}
    about = written["about"]
    assert set(about) == {"selected on", "texts", "counts", "licence"}
    assert about["selected on"] == "ImageNet, 16 images per class, seed 2"
    assert "github.com/Chris210634/word_soups" in about["texts"]
    assert "68.84 %" in about["counts"], "34418 of 50000 of ImageNet"
    assert "MIT licence does not cover" in about["licence"]


def test_the_figures_in_a_file_are_those_of_the_log():
    """Means of places over datasets, from integer counts, of this soup and of the class name alone."""
    of_log = log()
    datasets = list(dict.fromkeys(name for _, _, name in of_log))
    for kind in ("word", "descriptor"):
        for seed in (1, 2, 3):
            said = named(f"paper:{kind}-seed{seed}").about["counts"]
            for method in (f"{kind}-soup", "ZS", "ensemble"):
                shares = [100 * right / n for right, n in (of_log[method, seed, name] for name in datasets)]
                means = (shares[0], sum(shares[1:11]) / 10, sum(shares[11:]) / 4)
                assert ", ".join(f"{mean:.2f}" for mean in means) in said.replace(" %", "")
        assert "nobody has counted" in named(f"paper:{kind}-all").about["counts"]


def test_gains_over_both_rivals_have_intervals_of_datasets_resampled():
    """By hand: ten differences in points, their mean, and Student's t with nine degrees of freedom."""
    of_log = log()
    xd = [row for row in counts("paper:descriptor") if row.role == "xd"]
    points = []
    for row in xd:
        name = row.title.replace("-", "")
        (ours, n_images), (theirs, _) = of_log["descriptor-soup", 1, name], of_log["ensemble", 1, name]
        points.append(100 * (ours - theirs) / n_images)
    half = 2.2622 * np.std(points, ddof=1) / np.sqrt(10)
    low, high = np.mean(points) - half, np.mean(points) + half
    others, shifts = gains(counts("paper:descriptor"))
    assert others.endswith(f"over the 80 templates {np.mean(points):+.2f} [{low:+.2f}, {high:+.2f}]")
    assert others.startswith("10 others, with datasets resampled: over the class name +1.17 [+0.32, +2.03], ")
    assert shifts.startswith("4 shifts, ")
    assert gains(counts("paper:word-all")) == [], "nobody has counted it"


def test_counts_stand_beside_class_name_and_templates():
    of_log = log()
    for kind in ("word", "descriptor"):
        for seed in (1, 2, 3):
            rows = counts(f"paper:{kind}-seed{seed}")
            assert len(rows) == 15
            for row in rows:
                name = row.title.replace("-", "")
                assert (row.soup, row.n_images) == of_log[f"{kind}-soup", seed, name]
                assert (row.class_name, row.n_images) == of_log["ZS", seed, name]
                assert (row.templates, row.n_images) == of_log["ensemble", seed, name]
    shown = {row.title.replace("-", ""): (row.soup, row.class_name, row.templates) for row in counts("paper:word")}
    assert {name: shown[name] for name in COUNTS_OF_WORD} == COUNTS_OF_WORD
    assert counts("paper:word-all") == []


@pytest.mark.parametrize(
    "name", ["paper:words", "paper:", "paper:word-seed4", "paper:word-seed", "paper:Word", "paper:word-all.json"]
)
def test_a_name_that_the_paper_lacks_is_refused(name, in_tmp):
    with pytest.raises(
        MissingError, match=f"{name!r} is not a soup of the paper; they are paper:word, paper:word-seed2"
    ):
        wsoup.Soup.load(name)
    code, _, errors = run("soup", "show", name)
    assert (code, errors.count("\n")) == (1, 1)
    assert "is not a soup of the paper" in errors


def test_a_soup_is_not_saved_under_a_name_of_the_papers(in_tmp):
    with pytest.raises(ParamsError, match="paper:word is a soup of the paper, not a file; give another name"):
        wsoup.Soup.load("paper:word").save("paper:word")
    assert not list(Path().iterdir())


def test_another_encoder_than_the_papers_is_refused_where_one_is_required():
    with pytest.raises(MismatchError, match="paper:word was made with another encoder"):
        wsoup.Soup.load("paper:word", encoder={"model": "m", "pretrained": "p"})


# ----------------------------------------------------------------------------------------------------- commands


def test_show_prints_texts_and_the_authors_counts(in_tmp):
    code, printed, errors = run("soup", "show", "paper:word")
    assert (code, errors) == (0, "")
    assert FIRST in printed
    lines = [line.split() for line in printed.splitlines()]
    of = {cells[0]: cells for cells in lines if cells}
    assert of["ImageNet"][1:] == ["50000", "33555", "67.11", "%", "34212", "68.42", "%", "34693", "69.39", "%"]
    assert ["10", "others,", "mean", "65.02", "%", "65.31", "%", "66.83", "%"] in lines
    assert ["4", "shifts,", "mean", "57.22", "%", "59.36", "%", "59.80", "%"] in lines
    printed = run("soup", "show", "paper:word-all")[1]
    assert "nobody has counted" in printed
    assert "33555" not in printed


def test_export_writes_their_prompts(in_tmp):
    code, printed, errors = run("soup", "export", "paper:word", "--format", "text")
    assert (code, errors) == (0, "")
    assert printed.splitlines()[0] == f"a photo of a {{}}, {FIRST}."
    assert len(printed.splitlines()) == 8


def files_of(encoder: dict[str, str]) -> list[str]:
    stated = ["--image-mean", ".5,.5,.5", "--image-std", ".5,.5,.5", "--interpolation", "bicubic"]
    return ["--config", encoder["config"], "--pretrained", encoder["pretrained"], *stated]


def test_classify_needs_neither_labels_nor_a_search_and_names_another_encoder(in_tmp, tiny_encoder_files, tiny_encoder):
    write_image_folder(Path("new"), splits={"x": 1}, classes=COLOURS)
    arguments = ["classify", "new", "--soup", "paper:word", "--classes", ",".join(COLOURS)]
    code, printed, errors = run(*arguments, *files_of(tiny_encoder_files))
    assert code == 0, errors
    said = "paper:word was selected with ViT-B-16 / openai; it was not measured with tiny-clip / tiny.safetensors\n"
    assert errors.count(said) == 1
    assert len(printed.splitlines()) == 1 + len(COLOURS)
    files = ["soup", "export", "paper:word", "--format", "npz", "--classes", "red,blue", "--out", "found.npz"]
    code, _, errors = run(*files, *files_of(tiny_encoder_files))
    assert (code, errors) == (0, said)
    import numpy as np

    with np.load("found.npz") as exported:
        weights = torch.from_numpy(exported["classifier"])
    soup = wsoup.Soup.load("paper:word")
    ours = soup.classifier(class_names=["red", "blue"], model=tiny_encoder.model, tokenizer=tiny_encoder.tokenizer)
    torch.testing.assert_close(weights, ours, atol=1e-6, rtol=0)


def test_a_params_file_that_is_named_says_which_encoder_serves_it(in_tmp, tiny_encoder_files):
    write_image_folder(Path("new"), splits={"x": 1}, classes=COLOURS)
    Path("encoder.yaml").write_text(yaml.safe_dump({"encoder": tiny_encoder_files}))
    arguments = ["classify", "new", "--soup", "paper:word", "--classes", ",".join(COLOURS), "--params"]
    code, printed, errors = run(*arguments, "encoder.yaml")
    assert code == 0, errors
    assert "it was not measured with tiny-clip / tiny.safetensors\n" in errors
    assert len(printed.splitlines()) == 1 + len(COLOURS)
    code, _, errors = run(*arguments, "none.yaml")
    assert (code, errors.partition(";")[0]) == (1, "error: --params: there is no none.yaml")


def test_a_config_without_weights_is_refused_as_for_every_soup(in_tmp, tiny_encoder_files):
    write_image_folder(Path("new"), splits={"x": 1}, classes=COLOURS)
    arguments = ["classify", "new", "--soup", "paper:word", "--classes", "red,blue"]
    errors = run(*arguments, "--config", tiny_encoder_files["config"])[2]
    assert "is a model without weights; add --pretrained FILE" in errors


def test_a_soup_of_ones_own_has_nothing_to_say_about_itself(tmp_path):
    """So files of earlier versions and of the pipeline keep their bytes."""
    soup = Soup("chains", 1, "a photo of a {}.", {"model": "m", "pretrained": "p"}, named("paper:word").members)
    soup.save(tmp_path / "own.json")
    assert "about" not in json.loads((tmp_path / "own.json").read_text())
