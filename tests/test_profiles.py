"""`wsoup profile`: a params.yaml that loads, with every value that the user gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from miniature import build_coop
from PIL import Image

from wsoup import profiles
from wsoup.datasets import layouts, manifest
from wsoup.datasets.paper import PAPER
from wsoup.errors import DataError, MissingError, ParamsError
from wsoup.params.whole import Params, parse_params
from wsoup.report.halves import pair_of_halves

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
    soup = params.soups["word"]
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


# ---------------------------------------------------------------------------------------------------- base to new


def halves_of(params: Params) -> tuple[str, str] | None:
    return pair_of_halves(params.datasets)


def test_the_toy_world_in_halves_is_the_demo_but_for_its_datasets() -> None:
    text = profiles.base_to_new()
    params, demo = loaded(text), loaded((profiles.FOLDER / "demo.yaml").read_text())
    assert (params.source, halves_of(params)) == ("shapes_base", ("shapes_base", "shapes_new"))
    assert list(params.datasets) == ["shapes_base", "shapes_new"]
    assert {dataset.root for dataset in params.datasets.values()} == {demo.datasets["shapes"].root}
    assert params.model_dump(exclude={"source", "datasets"}) == demo.model_dump(exclude={"source", "datasets"})
    assert "\n# Base-to-new generalisation on shapes (" in text[:200]
    assert "\nsource: shapes_base        # the dataset that" in text
    assert "\ndatasets:                  # role: source | xd" in text


def test_a_dataset_of_the_paper_in_halves_keeps_all_else_of_the_paper() -> None:
    params = loaded(profiles.base_to_new("dtd", data_root="/data", gpt_descriptors="/gpt"))
    paper = loaded(profiles.paper(data_root="/data", gpt_descriptors="/gpt"))
    assert halves_of(params) == ("dtd_base", "dtd_new")
    new = params.datasets["dtd_new"]
    assert (new.layout, new.root, new.template) == ("coop:dtd", "/data", "a photo of a {} texture.")
    assert new.gpt_descriptors == "/gpt/descriptors_dtd.json"
    assert params.model_dump(exclude={"source", "datasets"}) == paper.model_dump(exclude={"source", "datasets"})
    assert list(params.finetune.methods) == ["ce", "ce_diverse", "coop", "coop_diverse"]
    assert halves_of(paper) is None


def test_every_dataset_of_the_paper_with_training_images_has_halves(tmp_path: Path) -> None:
    root = str(build_coop(tmp_path))
    for name in (name for name, found in PAPER.items() if found.role != "dg"):
        names = []
        for key, section in loaded(profiles.base_to_new(name, data_root=root)).datasets.items():
            listing = layouts.read(key, params=section, imagenet_names=lambda: list("abc"))
            names.append(manifest.select(listing, params=section, shots=2, seeds=[1])[1])
        assert [len(half) for half in names] == [2, 1], name
        assert not set(names[0]) & set(names[1]), name


def test_what_cannot_be_halved_is_said_in_one_line() -> None:
    for name in ("imagenet_a", "mnist"):
        with pytest.raises(
            ParamsError, match=rf"--dataset '{name}' is none of the paper's datasets with training imag"
        ):
            profiles.base_to_new(name, data_root="/data")
    with pytest.raises(ParamsError, match=r"--dataset dtd needs --data-root, the folder that holds CoOp's folders"):
        profiles.base_to_new("dtd")
    with pytest.raises(ParamsError, match=r"--data-root and --gpt-descriptors need --dataset"):
        profiles.base_to_new(data_root="/data")


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
        with pytest.raises(ParamsError, match=r"wsoup profile own: datasets.set.template: .* must hold exactly one"):
            profiles.own(images=str(root), encoder=TAG, template=template)
    with pytest.raises(MissingError, match=r"weights file none.safetensors does not exist; give --pretrained a tag"):
        profiles.own(images=str(root), encoder=TAG | {"pretrained": "none.safetensors"})
    with pytest.raises(ParamsError, match=r"encoder has no 'mean'; known are model, pretrained"):
        profiles.own(images=str(root), encoder=TAG | {"mean": 0.5})
