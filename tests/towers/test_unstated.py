"""Local weights whose preprocessing nobody states are used with open_clip's defaults, and that is said."""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import pytest
from open_clip import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
from safetensors.torch import save_file
from tower_cases import CONFIG

from wsoup.api.encoders import EncoderOptions
from wsoup.params.inputs import EncoderParams
from wsoup.towers.unstated import unstated

OPENAI = "mean 0.4815,0.4578,0.4082, std 0.2686,0.2613,0.2758"
HALF = (0.5, 0.5, 0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config of open_clip, the hub's config around it, and weights."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "unstated-clip.json").write_text(json.dumps(CONFIG))
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG}))
    open_clip.add_model_config(folder / "unstated-clip.json")
    weights = open_clip.create_model("unstated-clip").state_dict()
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    save_file(tensors, folder / "open_clip_model.safetensors")
    return folder


def said(capsys: pytest.CaptureFixture[str], **options: object) -> str:
    """What loading an encoder of these options says on stderr."""
    encoder = EncoderOptions(**options)  # type: ignore[arg-type]
    encoder.load(device="cpu", origin="a test", defaults={})
    return capsys.readouterr().err


def test_what_is_used_and_how_to_state_it_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"config": str(folder / "unstated-clip.json"), "pretrained": str(folder / "open_clip_model.safetensors")}
    line = said(capsys, **files)
    assert line.count("\n") == 1
    assert f"unstated-clip: its images are prepared with open_clip's defaults ({OPENAI}, interpolation bicubic)" in line
    assert "--image-mean, --image-std, --interpolation, or in params.yaml encoder.image_mean, " in line


def test_only_what_is_not_stated_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"config": str(folder / "unstated-clip.json"), "pretrained": str(folder / "open_clip_model.safetensors")}
    line = said(capsys, **files, image_mean=HALF, image_std=HALF)
    assert "open_clip's defaults (interpolation bicubic)" in line
    assert "(--interpolation, or in params.yaml encoder.interpolation)" in line
    assert said(capsys, **files, image_mean=HALF, image_std=HALF, interpolation="bilinear") == ""


def test_the_config_of_a_local_folder_may_state_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = f"local-dir:{folder}"
    assert OPENAI in said(capsys, model=model)
    stated = {"mean": HALF, "std": HALF, "interpolation": "bicubic"}
    config = folder / "open_clip_config.json"
    config.write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": stated}))
    assert said(capsys, model=model) == ""


def test_the_toy_worlds_model_is_trained_as_it_is_used() -> None:
    """data/toy/pretrain.py takes open_clip's mean and std; its pictures have the model's size."""
    section = {"model": "toy-clip", "precision": "fp32", "watch": "data/nothing_to_watch.txt"}
    used = {"mean": OPENAI_DATASET_MEAN, "std": OPENAI_DATASET_STD, "interpolation": "bicubic"}
    for toy in ("data/toy/encoder/toy-clip.safetensors", "/a/copy of it/data/toy/encoder/toy-clip.safetensors"):
        assert unstated(EncoderParams(pretrained=toy, **section), used) == ""
    for other in ("data/toy/encoder/mine.safetensors", "toy-clip.safetensors", "encoder/toy-clip.safetensors"):
        assert OPENAI in unstated(EncoderParams(pretrained=other, **section), used)
