"""The runs of `wsoup base-to-new`: which datasets are divided, what is said of the others, and what DVC edits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.utils.hydra import apply_overrides
from project import miniature_params, write_miniature
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import ParamsError
from wsoup.pipeline.halves import divided, hours_of, literal
from wsoup.pipeline.params import parse_params


@pytest.fixture
def raw(in_tmp: Path, tiny_encoder_files: dict[str, str]) -> dict[str, Any]:
    """The miniature's params: photo has four classes and training images, the other two have neither."""
    write_miniature(in_tmp, encoder=tiny_encoder_files)
    return miniature_params(tiny_encoder_files)


def divide(raw: dict[str, Any], wanted: list[str] | None = None) -> tuple[list[Any], list[str]]:
    return divided(raw, datasets=raw["datasets"], wanted=wanted)


def edited(raw: dict[str, Any], edits: list[str]) -> dict[str, Any]:
    """params.yaml as DVC makes it."""
    Path("params.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
    apply_overrides("params.yaml", edits)
    return safe_load(Path("params.yaml").read_text())


def test_a_dataset_is_source_with_its_base_classes_and_target_with_its_new_ones(raw):
    (run,), _ = divide(raw)
    made = edited(raw, run.edits)
    photo = {"layout": "imagefolder", "root": "photo", "watch": "photo", "template": "a photo of a {}."}
    assert made["source"] == "photo"
    assert made["datasets"] == {
        "photo": {**photo, "role": "source", "classes": "base"},
        "photo_new": {**photo, "role": "xd", "classes": "new"},
    }
    assert {key: value for key, value in made.items() if key not in ("source", "datasets")} == {
        key: value for key, value in raw.items() if key not in ("source", "datasets")
    }
    assert parse_params(made, origin="made") == run.params


def test_each_of_the_others_is_left_out_with_its_reason(raw):
    raw["datasets"]["again"] = raw["datasets"]["photo"] | {"role": "xd", "template": "{}"}
    raw["datasets"]["gone"] = raw["datasets"]["dim"] | {"root": "gone", "watch": "gone"}
    runs, left_out = divide(raw)
    assert [run.dataset for run in runs] == ["photo"]
    assert left_out[0] == "other: has 2 classes; two halves need 4"
    assert left_out[1].startswith("dim: has no training images; test_fraction: 0.5 in its section divides a folder")
    assert left_out[2] == "again: has the images of photo"
    assert left_out[3].startswith("gone: ")
    assert "gone" in left_out[3]


def test_a_target_that_can_be_divided_is_a_source_in_its_own_run(raw):
    raw["datasets"]["dim"]["test_fraction"] = 0.5
    runs, _ = divide(raw)
    assert [run.dataset for run in runs] == ["photo", "dim"]
    assert edited(raw, runs[1].edits)["source"] == "dim"
    (run,), left_out = divide(raw, ["dim"])
    assert (run.dataset, left_out) == ("dim", [])
    with pytest.raises(
        ParamsError, match=r"^--datasets: there is no dataset 'cars'; expected some of photo, other, dim$"
    ):
        divide(raw, ["cars"])


@pytest.mark.parametrize(
    "text",
    [
        "it's a {}.",
        'a "{}"',
        "back\\slash {}",
        "{} at the end\\",
        "\\'{}\\'",
        "{}, a: [b] {c}, #d = e",
        "ein süßer {} 犬",
        " {} ",
        "$5 for a {}",
    ],
)
def test_every_value_comes_through_dvc_as_it_is(raw, text):
    raw["datasets"]["photo"]["template"] = text.replace("{c}", "c")
    raw["datasets"]["photo"]["gpt_names"] = {"red": text}
    (run,), _ = divide(raw)
    made = edited(raw, run.edits)["datasets"]
    assert made["photo"]["template"] == made["photo_new"]["template"] == text.replace("{c}", "c")
    assert made["photo"]["gpt_names"] == {"red": text}


def test_interpolations_of_dvc_are_text(raw):
    edits = ["~datasets", f"+datasets.x={literal('a ${y} b')}", f"+datasets.z={literal([1, 0.5, None, True])}"]
    assert edited(raw, edits)["datasets"] == {"x": "a ${y} b", "z": [1, 0.5, None, True]}


@pytest.mark.parametrize("name", ["2photos", "süß"])
def test_a_name_that_dvc_cannot_write_is_left_out_with_a_cure(raw, name):
    raw["datasets"][name] = raw["datasets"].pop("photo")
    runs, left_out = divide(raw)
    assert runs == []
    assert left_out[-1].startswith(f"{name}: datasets.{name}.role: DVC's --set-param cannot write '{name}'; it takes a")
    assert left_out[-1].endswith("rename it in params.yaml")


def test_new_classes_do_not_need_the_draws_of_training_images(raw):
    raw["datasets"]["photo"]["fewshot_pickles"] = "pickles"
    (run,), _ = divide(raw)
    made = edited(raw, run.edits)["datasets"]
    assert made["photo"]["fewshot_pickles"] == "pickles"
    assert "fewshot_pickles" not in made["photo_new"]


def test_a_run_takes_longer_with_more_images(raw):
    shutil.copy(Path(__file__).parents[2] / "dvc.yaml", "dvc.yaml")
    write_image_folder(Path("large"), splits={"train": 5, "test": 40}, classes=COLOURS)
    raw["datasets"]["large"] = raw["datasets"]["photo"] | {"role": "xd", "root": "large", "watch": "large"}
    small, large = divide(raw)[0]
    assert 0 < hours_of(small) < hours_of(large)
