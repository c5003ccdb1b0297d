"""`wsoup verify published`: of a run whose images are embedded, and alone, with figures counted by plain loops."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from project import call_stage, miniature_params, write_miniature, write_params
from run_cli import run
from yaml_in_c import safe_load

from wsoup.base import project

TEMPLATES = {"other": "mnist", "dim": "stl10"}
"""Datasets of the miniature -> the templates with which their figures are made."""


def plain_figure(encoder: Any, folder: Path, templates: list[str]) -> float:
    """Accuracy in per cent of images by class, one at a time, through the model's own functions."""
    names = sorted(path.name for path in folder.iterdir())
    classes = []
    for name in names:
        texts = encoder.encode_texts([template.replace("{c}", name) for template in templates])
        classes.append(torch.nn.functional.normalize(texts.mean(dim=0), dim=0))
    right = []
    for file in sorted(folder.glob("*/*")):
        with Image.open(file) as image, torch.inference_mode():
            pixels = encoder.preprocess(image.convert("RGB"))[None]
            feature = torch.nn.functional.normalize(encoder.model.encode_image(pixels)[0], dim=0)
        right.append(names[int((torch.stack(classes) @ feature).argmax())] == file.parent.name)
    return sum(right) / len(right)


def publish(encoder: Any, figures: dict[str, float]) -> None:
    """Write the folder's own data/published: these figures of the encoder, and no others."""
    folder = Path("data/published")
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["dataset,column,templates,n_images,n_classes,metric"]
    for name, templates in TEMPLATES.items():
        names = [path.name for path in Path(name, "test").iterdir()]
        n_images = len([*Path(name, "test").glob("*/*")])
        rows.append(f"{name},{name},{templates},{n_images},{len(names)},accuracy")
    (folder / "datasets.csv").write_text("\n".join(rows) + "\n")
    about = {"name": encoder["model"], "pretrained": Path(encoder["pretrained"]).name, "params (M)": 1, "FLOPs (B)": 1}
    line = about | {"Average perf. on 38 datasets": 0.5} | figures
    with open(folder / "openclip_results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(line))
        writer.writeheader()
        writer.writerow(line)


@pytest.fixture
def figures(in_tmp: Path, tiny_encoder_files: dict[str, str], tiny_encoder: Any) -> dict[str, float]:
    """The miniature with its images embedded, and the right figures."""
    import json

    write_miniature(in_tmp, encoder=tiny_encoder_files)
    params = miniature_params(tiny_encoder_files)
    write_params(in_tmp, params)
    for name in TEMPLATES:
        call_stage("prepare", name)
        call_stage("embed", name)
    every = json.loads(project.file("data/published/templates.json").read_text())
    right = {name: plain_figure(tiny_encoder, Path(name, "test"), every[key]) for name, key in TEMPLATES.items()}
    publish(tiny_encoder_files, right)
    return right


def test_a_run_agrees_with_the_right_figures_and_a_wrong_one_is_an_error(figures, tiny_encoder_files):
    code, printed, errors = run("verify", "published")
    assert (code, errors) == (0, "")
    assert printed.endswith("2 of 2 figures agree\n")
    assert "not compared" not in printed
    publish(tiny_encoder_files, figures | {"dim": figures["dim"] + 0.2})
    code, printed, _ = run("verify", "published")
    assert code == 1
    assert "dim, accuracy: theirs" in printed
    assert "1 of 2 figures agree\nthis usually means: dim alone: " in printed


def test_alone_it_encodes_the_folders_that_have_figures(figures, tiny_encoder_files):
    options = ["--config", tiny_encoder_files["config"], "--pretrained", tiny_encoder_files["pretrained"]]
    code, printed, errors = run("verify", "published", "--data-root", ".", *options)
    assert code == 0, errors
    assert printed.endswith("2 of 2 figures agree\n")
    for path in sorted(Path("dim/test").glob("*/*"))[:1]:
        path.unlink()
    code, printed, _ = run("verify", "published", "--data-root", ".", *options)
    assert code == 0
    assert "not compared: dim: 11 test images instead of 12\n" in printed
    assert printed.endswith("1 of 1 figures agree\n")


def test_what_is_missing_is_said_with_the_next_step(figures, tiny_encoder_files, in_tmp):
    (in_tmp / "artifacts/embeddings").rename(in_tmp / "artifacts/elsewhere")
    code, _, errors = run("verify", "published")
    assert code == 1
    assert errors == "error: no test images are embedded; run `dvc repro embed@other embed@dim`\n"
    (in_tmp / "empty").mkdir()
    options = ["--config", tiny_encoder_files["config"], "--pretrained", tiny_encoder_files["pretrained"]]
    code, _, errors = run("verify", "published", "--data-root", "empty", *options)
    note, error = errors.splitlines()
    assert note.startswith("tiny-clip: its images are prepared with open_clip's defaults")
    assert (code, error[:50]) == (1, "error: empty holds no dataset that has a published")
    code, _, errors = run("verify", "published", "--data-root", "nowhere")
    assert (code, errors) == (1, "error: nowhere does not exist or is not a folder; correct --data-root\n")
    (in_tmp / "params.yaml").rename(in_tmp / "other.yaml")
    code, _, errors = run("verify", "published")
    assert (code, errors[:56]) == (1, "error: params.yaml does not exist: go to a run's folder,")


def test_what_is_said_of_a_local_models_images_can_be_given(figures, tiny_encoder_files):
    options = ["--config", tiny_encoder_files["config"], "--pretrained", tiny_encoder_files["pretrained"]]
    _, _, errors = run("verify", "published", "--data-root", ".", *options)
    offered = set(re.findall(r"--[a-z-]+", errors))
    assert offered == {"--image-mean", "--image-std", "--interpolation"}
    given = ["--image-mean", ".9,.1,.1", "--image-std", ".1,.9,.9", "--interpolation", "bilinear"]
    publish(tiny_encoder_files, dict.fromkeys(figures, 10.0))
    code, printed, errors = run("verify", "published", "--data-root", ".", *options, *given)
    assert code == 1
    assert "open_clip's defaults" not in errors
    assert "images: --image-mean (0.9, 0.1, 0.1), --image-std (0.1, 0.9, 0.9), --interpolation bilinear" in printed


def test_an_encoder_without_figures_is_told_where_they_are(figures, tiny_encoder_files):
    publish(tiny_encoder_files | {"model": "another"}, figures)
    code, _, errors = run("verify", "published")
    assert code == 1
    assert "has no published figures; `wsoup models` lists those that have" in errors
    options = ["--config", tiny_encoder_files["config"], "--pretrained", tiny_encoder_files["pretrained"]]
    code, _, errors = run("verify", "published", "--data-root", ".", *options)
    assert code == 1
    assert "has no published figures" in errors, "said before images are encoded"


def test_other_preprocessing_is_named_first(figures, tiny_encoder_files, in_tmp):
    params = safe_load(Path("params.yaml").read_text())
    params["encoder"] |= {"interpolation": "bilinear", "image_mean": [0.9, 0.1, 0.1], "image_std": [0.1, 0.9, 0.9]}
    write_params(in_tmp, params)
    for name in TEMPLATES:
        call_stage("embed", name)
    publish(tiny_encoder_files, dict.fromkeys(figures, 10.0))
    code, printed, _ = run("verify", "published")
    assert code == 1
    given = "encoder.image_mean: (0.9, 0.1, 0.1), encoder.image_std: (0.1, 0.9, 0.9), encoder.interpolation: bilinear"
    assert f"2 figures agree\nthis usually means: images: {given}" in printed
