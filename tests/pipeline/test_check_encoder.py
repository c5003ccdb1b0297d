"""The encoder part of `wsoup check`, and models whose names say where their weights are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
from project import ROOT, miniature_params
from run_cli import run
from small_world import COLOURS, TINY_CONFIG, write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import ModelError
from wsoup.disk import code as installed
from wsoup.params.inputs import EncoderParams
from wsoup.pipeline import packages
from wsoup.pipeline.checks import downloads
from wsoup.pipeline.checks.encoder import encoder as check_encoder
from wsoup.pipeline.checks.finding import Finding
from wsoup.pipeline.checks.findings_cache import cached_findings, encoder_inputs
from wsoup.pipeline.params import parse_params
from wsoup.towers.encoder import load_encoder

CE = {
    "tune": {"kind": "last_blocks", "blocks": 1, "prompt_tokens": 3},
    "loss": {"kind": "cross_entropy"},
    "soup": "class_name",
    "learning_rate": 1e-4,
    "prompt_factor": 10,
}


COOP = {**CE, "tune": {"kind": "prompt", "tokens": 3}}


def checked(encoder, *, methods=()):
    raw = safe_load((ROOT / "params.yaml").read_text())
    raw["encoder"] = {"precision": "fp32", "watch": encoder.get("config", "x"), **encoder}
    raw["finetune"]["methods"] = {name: COOP if name == "coop" else CE for name in methods}
    del raw["report"]["method"]
    found = [*check_encoder(parse_params(raw, origin="test"))]
    return {kind: [each.text for each in found if each.kind == kind] for kind in ("fact", "warning", "error")}


def test_a_good_encoder_is_described(tiny_encoder_files):
    finding = checked(tiny_encoder_files, methods=["ce"])
    assert finding["error"] == []
    assert finding["warning"] == []
    assert finding["fact"] == [
        "tiny-clip: 1 million parameters",
        "images: VisionTransformer, 16 x 16 pixels",
        "tiny-clip: its images are prepared with open_clip's defaults (mean 0.4815,0.4578,0.4082, std 0.2686,0.2613,"
        "0.2758), since nothing states the model's own; if it was trained with others, it gets fewer images right: "
        "state them (--image-mean, --image-std, or in params.yaml encoder.image_mean, encoder.image_std)",
        "texts: fast (compared with encode_text on first use); activation GELU",
        "finetuning: the methods can train it",
    ]


def test_no_weights_are_an_error(tiny_encoder_files):
    assert "encoder.pretrained is null" in checked(tiny_encoder_files | {"pretrained": None})["error"][0]


def test_for_a_misspelt_model_or_tag_the_nearest_is_suggested():
    finding = checked({"model": "ViT-B-32-quickgel", "pretrained": "openai"})
    assert (
        "encoder.model 'ViT-B-32-quickgel' is not an open_clip model; did you mean 'ViT-B-32-quickgelu'?"
        in finding["error"]
    )
    finding = checked({"model": "ViT-S-32-alt", "pretrained": "openai"})
    assert finding["error"] == ["encoder.pretrained: ViT-S-32-alt has no tag 'openai'; it has none"]


def test_a_local_model_without_its_config_is_told_which_key(tiny_encoder_files):
    weights = tiny_encoder_files["pretrained"]
    finding = checked({"model": "tiny-other", "pretrained": weights, "watch": weights})
    assert any("for a model of your own set encoder.config" in text for text in finding["error"])


def test_weights_that_are_still_to_be_downloaded_are_said(tmp_path, monkeypatch):
    """A warning, because a network may bring them; and none where the hub's cache has them, or a file is named."""
    monkeypatch.setattr(downloads, "OF_OPEN_CLIP", tmp_path / "clip")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name: None)
    warned = checked({"model": "RN50", "pretrained": "openai"})["warning"]
    assert "the weights of RN50 / openai are not on this machine" in warned[0]
    (tmp_path / "clip").mkdir()
    (tmp_path / "clip/RN50.pt").touch()
    assert not any(
        "not on this machine" in text for text in checked({"model": "RN50", "pretrained": "openai"})["warning"]
    )


def test_models_that_finetuning_refuses_are_named_before_a_run(tmp_path):
    config = {**TINY_CONFIG, "vision_cfg": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8}}
    (tmp_path / "tiny-resnet.json").write_text(json.dumps(config))
    given = {"model": "tiny-resnet", "config": str(tmp_path / "tiny-resnet.json"), "pretrained": None}
    finding = checked(given, methods=["ce"])
    assert any("finetune.methods: finetuning needs towers of open_clip's Vision" in p for p in finding["error"])
    assert not any("finetun" in text for text in checked(given)["error"])


@pytest.fixture
def local_dir(tmp_path, tiny_encoder_files) -> Path:
    """A model folder as `push_to_hf_hub` writes it."""
    folder = tmp_path / "model"
    folder.mkdir()
    mean = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic"}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": TINY_CONFIG, "preprocess_cfg": mean}))
    shutil.copy(tiny_encoder_files["pretrained"], folder / "open_clip_model.safetensors")
    return folder


def test_a_model_folder_needs_no_pretrained(local_dir, tiny_encoder):
    params = EncoderParams(model=f"local-dir:{local_dir}", precision="fp32", watch=str(local_dir))
    encoder = load_encoder(params, device=torch.device("cpu"))
    assert encoder.id["weights"] == tiny_encoder.id["weights"]
    assert encoder.id["pretrained"] is None
    assert encoder.preprocessing["mean"] == [0.5] * 3
    assert checked({"model": params.model})["error"] == []


def test_no_weights_are_never_random_ones(tiny_encoder_files):
    with pytest.raises(ModelError, match="which would mean random weights: name a tag"):
        load_encoder(EncoderParams.model_validate(tiny_encoder_files | {"pretrained": None}))


def test_a_tokenizer_that_needs_transformers_says_so(tmp_path):
    pytest.importorskip("torch")
    try:
        import transformers  # noqa: F401
    except ImportError:
        text = {"hf_tokenizer_name": "bert-base-uncased", **TINY_CONFIG["text_cfg"]}
        (tmp_path / "tiny-bert.json").write_text(json.dumps({**TINY_CONFIG, "text_cfg": text}))
        finding = checked({"model": "tiny-bert", "config": str(tmp_path / "tiny-bert.json"), "pretrained": None})
        assert "the tokenizer of tiny-bert cannot be loaded: transformers is not installed" in finding["error"][-1]
        assert "pip install datasets transformers" in finding["error"][-1]


def test_profile_own_writes_whole_paths_and_takes_a_local_model(in_tmp, tiny_encoder_files):
    write_image_folder(Path("photos"), splits={"train": 2, "test": 1}, classes=COLOURS)
    Path("clip").mkdir()
    for name in ("config", "pretrained"):
        shutil.copy(tiny_encoder_files[name], "clip")
    Path("data").mkdir()
    Path("data/photo_descriptors.txt").write_text("".join(f"which has {n} corners\n" for n in range(20)))
    options = ("--pretrained", "clip/tiny.safetensors", "--config", "clip/tiny-clip.json")
    options += ("--image-mean", ".5,.4,.3", "--image-std", ".2,.2,.2", "--interpolation", "bilinear")
    code, printed, errors = run("profile", "own", "--images", "photos", *options, "--out", "params.yaml")
    assert code == 0, errors
    assert printed == ""
    params = safe_load(Path("params.yaml").read_text())
    assert params["encoder"]["model"] == "tiny-clip"
    assert params["encoder"]["pretrained"] == str(in_tmp / "clip" / "tiny.safetensors")
    assert params["datasets"]["photos"]["watch"] == str(in_tmp / "photos")
    assert params["encoder"]["config"] == str(in_tmp / "clip" / "tiny-clip.json")
    assert params["encoder"]["watch"] == str(in_tmp / "clip")
    assert params["encoder"]["image_mean"] == [0.5, 0.4, 0.3]
    assert params["encoder"]["image_std"] == [0.2, 0.2, 0.2]
    assert params["encoder"]["interpolation"] == "bilinear"
    code, printed, errors = run("check")
    assert (code, printed) == (1, "")
    assert errors.startswith("error: there is no dvc.yaml here, so nothing can run params.yaml; `wsoup init FOLDER`")
    shutil.copy(ROOT / "dvc.yaml", ".")
    Path(packages.VERSIONS).write_text(packages.versions_yaml(installed.installed()))
    code, printed, errors = run("check")
    assert code == 0, printed + errors
    assert "\nencoder: tiny-clip: 1 million parameters\n" in printed
    code, _, errors = run("profile", "own", "--images", "photos", "--pretrained", "")
    assert code == 1, errors
    assert "--pretrained is empty, which would mean random weights" in errors
    for wrong, expected in (
        (["--model", "tiny-clip", "--pretrained", "clip/tiny.safetensors"], "give --config FILE"),
        (["--config", "clip/tiny-clip.json"], "is a model without weights; add --pretrained FILE"),
        (["--pretrained", "clip/tiny.safetensors"], "name its model, too"),
    ):
        code, printed, errors = run("profile", "own", "--images", "photos", *wrong)
        assert (code, printed) == (1, ""), wrong
        assert expected in errors
    Path("elsewhere").mkdir()
    shutil.copy("clip/tiny-clip.json", "elsewhere")
    apart = ("--pretrained", "clip/tiny.safetensors", "--config", "elsewhere/tiny-clip.json")
    errors = run("profile", "own", "--images", "photos", *apart)[2]
    assert "lie in different folders; put both into one, which DVC watches" in errors
    printed = run("profile", "own", "--images", "photos", "--model", "hf-hub:laion/CLIP-ViT-B-32")[1]
    assert safe_load(printed)["encoder"].get("pretrained") is None


def test_the_model_is_looked_at_again_only_when_something_changed(in_tmp, tiny_encoder_files):
    """What the last look found is kept with all that it depends on; what was wrong is not kept."""
    folder = in_tmp / "encoder"
    shutil.copytree(tiny_encoder_files["watch"], folder)
    config = folder / "tiny-clip.json"
    own = {"config": str(config), "pretrained": str(folder / "tiny.safetensors"), "watch": str(folder)}
    raw = miniature_params(tiny_encoder_files | own)
    params = parse_params(raw, origin="params.yaml")
    looks = []

    def look(kind):
        looks.append(kind)
        return [Finding(kind, "encoder", "a sentence")]

    def found(kind="fact"):
        return cached_findings("encoder", inputs=encoder_inputs(params), look=lambda: look(kind))

    assert found() == found() == [Finding("fact", "encoder", "a sentence")]
    assert len(looks) == 1
    config.write_text(config.read_text() + "\n")
    assert [finding.kind for finding in [*found("error"), *found("error")]] == ["error", "error"]
    assert len(looks) == 3
    assert [finding.kind for finding in [*found("warning"), *found("error")]] == ["warning", "warning"]
    Path(".cache/wsoup/check/encoder.checked").write_bytes(b"damaged")
    assert [finding.kind for finding in found()] == ["fact"]
