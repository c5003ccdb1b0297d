"""`wsoup profile`: a params.yaml that loads, with every value that the user gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from wsoup import profiles
from wsoup.datasets.paper import PAPER
from wsoup.errors import DataError, MissingError, ParamsError
from wsoup.params import Params, parse_params

COLOURS = ("blue", "green", "red")
TAG = {"model": "ViT-B-32", "pretrained": "openai"}


def write_image_folder(root: Path, *, splits: dict[str, int], classes: tuple[str, ...]) -> Path:
    for split, count in splits.items():
        for name in classes:
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (4, 4)).save(root / split / name / f"{i}.png")
    return root


def loaded(text: str) -> Params:
    return parse_params(yaml.safe_load(text), origin="params.yaml")


# ---------------------------------------------------------------------------------------------------------- paper


def test_the_paper_needs_no_data() -> None:
    params = loaded(profiles.paper(data_root="/data"))
    assert list(params.datasets) == list(PAPER)
    assert (params.source, params.seeds, params.fewshot.shots) == ("imagenet", [1, 2, 3], 16)
    assert (params.encoder.model, params.encoder.pretrained) == ("ViT-B-16", "openai")
    soup = params.word_soup
    assert (soup.k0, soup.k1, soup.patience, soup.m) == (250, 1000, 250, 8)


def test_dvc_watches_small_files_never_the_images() -> None:
    datasets = loaded(profiles.paper(data_root="/data")).datasets
    assert datasets["imagenet"].watch == "/data/imagenet/classnames.txt"
    assert datasets["caltech101"].watch == "/data/caltech-101/split_zhou_Caltech101.json"
    assert all(Path(dataset.watch).suffix in (".txt", ".json") for dataset in datasets.values())


def test_gpt_descriptors_come_from_one_folder() -> None:
    params = loaded(profiles.paper(data_root="/data", gpt_descriptors="/gpt"))
    assert params.datasets["sun397"].gpt_descriptors == "/gpt/descriptors_sun.json"
    assert params.datasets["imagenet_a"].gpt_descriptors == "/gpt/descriptors_imagenet.json"
    assert params.candidates.descriptors.paths == ["/gpt/descriptors_imagenet.json"]


def test_odd_folder_names_survive() -> None:
    root = "/my data: {all}, #1"
    params = loaded(profiles.paper(data_root=root, gpt_descriptors=root))
    assert {dataset.root for dataset in params.datasets.values()} == {root}
    assert params.candidates.descriptors.paths == [f"{root}/descriptors_imagenet.json"]


# ------------------------------------------------------------------------------------------------------------ own


def test_a_folder_of_train_and_test_is_the_source(tmp_path: Path) -> None:
    root = write_image_folder(tmp_path / "my pets", splits={"train": 5, "test": 2}, classes=COLOURS)
    params = loaded(profiles.own(images=str(root), encoder=TAG))
    assert params.source == "my_pets"
    assert params.datasets["my_pets"].root == str(root)
    assert params.fewshot.shots == 5
    assert params.encoder.watch == "data/nothing_to_watch.txt"
    assert params.finetune.methods == {}


def test_other_folders_are_targets_by_their_classes(tmp_path: Path) -> None:
    write_image_folder(tmp_path / "photo", splits={"train": 20, "test": 1}, classes=COLOURS)
    write_image_folder(tmp_path / "art", splits={"test": 1}, classes=COLOURS)
    write_image_folder(tmp_path / "other", splits={"test": 1}, classes=("one", "two"))
    params = loaded(profiles.own(images=str(tmp_path), encoder=TAG, template="{c}, a colour."))
    assert {name: dataset.role for name, dataset in params.datasets.items()} == {
        "photo": "source",
        "art": "dg",
        "other": "xd",
    }
    assert params.fewshot.shots == 16
    assert all(dataset.verify and dataset.watch == dataset.root for dataset in params.datasets.values())
    assert params.datasets["art"].template == "{c}, a colour."


def test_local_weights_are_watched_with_their_config(tmp_path: Path, tiny_encoder_files: dict[str, str]) -> None:
    root = write_image_folder(tmp_path / "set", splits={"train": 2, "test": 1}, classes=COLOURS)
    given: dict[str, Any] = {key: tiny_encoder_files[key] for key in ("model", "pretrained", "config")}
    params = loaded(profiles.own(images=str(root), encoder=given | {"image_mean": [0.5, 0.5, 0.5]}))
    assert params.encoder.watch == str(Path(given["pretrained"]).parent)
    assert params.encoder.image_mean == (0.5, 0.5, 0.5)
    alone = loaded(profiles.own(images=str(root), encoder=TAG | {"pretrained": given["pretrained"]}))
    assert alone.encoder.watch == given["pretrained"]


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"nowhere does not exist or is no folder"):
        profiles.own(images=str(tmp_path / "nowhere"), encoder=TAG)


def test_no_training_images_or_two_sources(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_image_folder(tmp_path / name, splits={"test": 1}, classes=COLOURS)
    with pytest.raises(DataError, match=r"or folders of which exactly one has train/ \(found none\)"):
        profiles.own(images=str(tmp_path), encoder=TAG)
    for name in ("a", "b"):
        write_image_folder(tmp_path / name, splits={"train": 1}, classes=COLOURS)
    with pytest.raises(DataError, match=r"exactly one has train/ \(found 2: a, b\)"):
        profiles.own(images=str(tmp_path), encoder=TAG)


def test_a_template_or_weights_file_that_will_not_do(tmp_path: Path) -> None:
    root = write_image_folder(tmp_path / "set", splits={"train": 2, "test": 1}, classes=COLOURS)
    for template in ("a photo.", "a {} and a {}."):
        with pytest.raises(ParamsError, match=r"wsoup profile own: datasets.set: template .* must hold exactly one"):
            profiles.own(images=str(root), encoder=TAG, template=template)
    with pytest.raises(MissingError, match=r"weights file none.safetensors does not exist; give --pretrained a tag"):
        profiles.own(images=str(root), encoder=TAG | {"pretrained": "none.safetensors"})
    with pytest.raises(ParamsError, match=r"encoder has no 'mean'; known are model, pretrained"):
        profiles.own(images=str(root), encoder=TAG | {"mean": 0.5})
