"""What distinguishes encoders, whatever their names and origins."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import load_file, save_file

from wsoup.base.errors import MismatchError
from wsoup.disk import store
from wsoup.params.inputs import EncoderParams
from wsoup.towers.encoder import load_encoder
from wsoup.towers.identity import config_digest, weights_digest

CPU = torch.device("cpu")


def load(files: dict[str, str], **changed: object):
    return load_encoder(EncoderParams(**{**files, **changed}), device=CPU)


@pytest.fixture
def other_config(tiny_encoder_files, tmp_path):
    """The tiny model's config with changed text settings under the same name; restored afterwards."""

    def write(**text: object) -> str:
        config = json.loads(Path(tiny_encoder_files["config"]).read_text())
        config["text_cfg"].update(text)
        (tmp_path / "tiny-clip.json").write_text(json.dumps(config))
        return str(tmp_path / "tiny-clip.json")

    yield write
    open_clip.add_model_config(tiny_encoder_files["config"])


@pytest.mark.parametrize("setting", [{"heads": 4}, {"no_causal_mask": True}, {"pool_type": "last"}])
def test_the_same_weights_with_another_config_are_another_encoder(
    tiny_encoder, tiny_encoder_files, other_config, setting
):
    other = load(tiny_encoder_files, config=other_config(**setting))
    texts = ["a cat"]
    assert not torch.allclose(other.encode_texts(texts), tiny_encoder.encode_texts(texts), atol=1e-4)
    assert {key for key in other.id if other.id[key] != tiny_encoder.id[key]} == {"config"}
    with pytest.raises(MismatchError, match=r"with another encoder \(config: '[0-9a-f]{16}', expected '[0-9a-f]{16}'"):
        store.check_encoder(tiny_encoder.id, expected=other.id, where="features.zarr")


def test_other_weights_under_the_same_name_are_another_encoder(tiny_encoder, tiny_encoder_files, tmp_path):
    weights = load_file(tiny_encoder_files["pretrained"])
    weights["logit_scale"] += 1
    save_file(weights, tmp_path / "tiny.safetensors")
    other = load(tiny_encoder_files, pretrained=str(tmp_path / "tiny.safetensors"))
    assert {key for key in other.id if other.id[key] != tiny_encoder.id[key]} == {"weights"}


def test_a_copy_in_another_file_format_is_the_same_encoder(tiny_encoder, tiny_encoder_files, tmp_path):
    """What was loaded counts, not the file or the preprocessing."""
    torch.save(load_file(tiny_encoder_files["pretrained"]), tmp_path / "tiny.pt")
    again = load(tiny_encoder_files, pretrained=str(tmp_path / "tiny.pt"), image_mean=(0.5, 0.5, 0.5))
    assert {key for key in again.id if again.id[key] != tiny_encoder.id[key]} == {"pretrained"}


def test_using_a_model_does_not_change_its_digests(tiny_encoder):
    model = copy.deepcopy(tiny_encoder.model)
    with torch.no_grad():
        model.encode_image(torch.zeros(1, 3, 16, 16))
    model.train().requires_grad_(True)
    assert config_digest(model, tokenizer=tiny_encoder.tokenizer) == tiny_encoder.id["config"]
    assert weights_digest(model) == tiny_encoder.id["weights"]


def test_another_tokenizer_is_another_config(tiny_encoder):
    cased = open_clip.SimpleTokenizer(context_length=77, clean="whitespace")
    assert config_digest(tiny_encoder.model, tokenizer=cased) != tiny_encoder.id["config"]


def test_dtypes_and_shapes_count_if_bytes_are_equal():
    halves = torch.nn.Linear(2, 2, bias=False)
    halves.weight = torch.nn.Parameter(torch.zeros(2, 2))
    wide, narrow = torch.nn.Linear(4, 1, bias=False), torch.nn.Linear(2, 4, bias=False).half()
    wide.weight, narrow.weight = torch.nn.Parameter(torch.zeros(1, 4)), torch.nn.Parameter(torch.zeros(4, 2).half())
    assert len({weights_digest(module) for module in (halves, wide, narrow)}) == 3
