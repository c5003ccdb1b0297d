"""Facts about loading a model: what it is, what it does to an image, and what is said when it cannot be loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from wsoup import towers
from wsoup.encoder_id import config_digest, weights_digest
from wsoup.errors import DataError, MissingError, ModelError
from wsoup.images.features import embed_images
from wsoup.params.encoder import EncoderParams
from wsoup.runtime.shards import Owner
from wsoup.store import sha256_file
from wsoup.towers import choose_device, load_encoder

OWNER = Owner("embed@test", code={}, packages={})


def test_an_encoder_says_what_it_is(tiny_encoder):
    assert tiny_encoder.id == {
        "model": "tiny-clip",
        "pretrained": "tiny.safetensors",
        "config": config_digest(tiny_encoder.model, tokenizer=tiny_encoder.tokenizer),
        "weights": weights_digest(tiny_encoder.model),
        "quick_gelu": False,
        "precision": "fp32",
    }
    assert tiny_encoder.preprocessing["interpolation"] == "bicubic"


def test_mean_std_and_interpolation_come_from_params(tiny_encoder_files):
    changed = {
        **tiny_encoder_files,
        "image_mean": (0.5, 0.5, 0.5),
        "image_std": (0.25,) * 3,
        "interpolation": "bilinear",
    }
    encoder = load_encoder(EncoderParams(**changed), device=torch.device("cpu"))
    grey = Image.new("RGB", (16, 16), (191, 191, 191))
    assert float(encoder.preprocess(grey).mean()) == pytest.approx((191 / 255 - 0.5) / 0.25, abs=1e-5)
    assert encoder.preprocessing["interpolation"] == "bilinear"


def test_features_are_unit_vectors_of_the_models_own(tiny_encoder):
    pixels = torch.rand(3, 3, 16, 16)
    features = tiny_encoder.encode_images(pixels)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(tiny_encoder.model.encode_image(pixels), dim=-1)
    assert torch.equal(features, expected)
    texts = tiny_encoder.encode_texts(["a cat", "a dog"])
    assert torch.allclose(texts.norm(dim=-1), torch.ones(2), atol=1e-6)


def test_a_batch_too_large_for_memory_is_halved(tiny_encoder, monkeypatch):
    pixels, model = torch.rand(5, 3, 16, 16), tiny_encoder.model
    expected = tiny_encoder.encode_images(pixels)
    whole = model.encode_image

    def small_memory(batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > 2:
            raise torch.OutOfMemoryError("no room")
        return whole(batch)

    monkeypatch.setattr(model, "encode_image", small_memory)
    assert torch.allclose(tiny_encoder.encode_images(pixels), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "expected"),
    [
        ({"model": "ViT-B-61", "config": None}, ModelError, "'ViT-B-61' is not an open_clip model"),
        ({"pretrained": None}, ModelError, "encoder.pretrained is null"),
        ({"pretrained": "no/such.safetensors"}, MissingError, "weights file no/such.safetensors does not exist"),
        ({"config": "no/such.json"}, MissingError, "no/such.json does not exist"),
        ({"model": "other"}, ModelError, "the config's file name without .json: 'tiny-clip', not 'other'"),
        ({"model": "RN50", "config": None}, ModelError, "cannot be loaded"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_line(tiny_encoder_files, change, error, expected):
    with pytest.raises(error) as raised:
        load_encoder(EncoderParams(**{**tiny_encoder_files, **change}), device=torch.device("cpu"))
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_config_that_is_none_is_said(tiny_encoder_files, tmp_path):
    (tmp_path / "tiny-clip.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(ModelError, match="is not an open_clip model config"):
        load_encoder(EncoderParams(**{**tiny_encoder_files, "config": str(tmp_path / "tiny-clip.json")}))


def test_a_device_that_is_not_there_is_said():
    with pytest.raises(ModelError, match="device 'nonsense' cannot be used"):
        choose_device("nonsense")


def test_open_clips_own_tables():
    assert len(towers.imagenet_class_names()) == 1000
    assert [template("cat") for template in towers.ensemble_templates()][:1] == ["a bad photo of a cat."]
    assert len(towers.ensemble_templates()) == 80


@pytest.fixture
def five_images(in_tmp: Path) -> list[str]:
    for i in range(5):
        Image.fromarray(np.full((16, 16, 3), 40 * i, dtype=np.uint8)).save(f"{i}.png")
    return [f"{i}.png" for i in range(5)]


def embed(encoder, paths, **changed):
    if "digests" not in changed:
        changed["digests"] = [sha256_file(path) for path in paths]
    options = {"root": ".", "batch_size": 2, "on_bad_image": "stop", "label": "test", "owner": OWNER}
    return embed_images(encoder, paths=paths, **{**options, **changed})


def test_embedding_keeps_order_and_goes_on_after_a_kill(five_images, tiny_encoder, monkeypatch):
    whole = embed(tiny_encoder, five_images)
    monkeypatch.setattr("wsoup.images.features.IMAGES_PER_SHARD", 2)
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    with monkeypatch.context() as broken:  # the third image cannot be read: the first shard stays
        broken.setattr("wsoup.images.decode.load_rgb", lambda path, digest: _refuse(path, "2.png"))
        with pytest.raises(DataError):
            embed(tiny_encoder, five_images)
    (first,) = Path("elsewhere").rglob("*.part")
    time_ns = first.stat().st_mtime_ns
    again = embed(tiny_encoder, five_images)
    assert first.stat().st_mtime_ns == time_ns
    assert np.allclose(again.features, whole.features, atol=1e-6)
    assert again.positions.tolist() == [0, 1, 2, 3, 4]


def _refuse(path: str, name: str) -> Image.Image:
    from wsoup.images import decode

    if path.endswith(name):
        raise DataError(f"{path} is broken")
    with Image.open(path) as image:
        return decode._to_rgb(image)


def test_skipped_images_are_listed(five_images, tiny_encoder):
    Path("3.png").write_bytes(b"broken")
    found = embed(tiny_encoder, five_images, on_bad_image="skip")
    assert found.positions.tolist() == [0, 1, 2, 4]
    assert list(found.skipped) == [3]
    assert "3.png is not an image" in found.skipped[3]
    with pytest.raises(DataError, match=r"3\.png"):
        embed(tiny_encoder, five_images)


def test_a_changed_image_is_an_error_even_where_bad_ones_are_skipped(five_images, tiny_encoder):
    digests = [sha256_file(path) for path in five_images]
    Path("3.png").write_bytes(Path("4.png").read_bytes())
    with pytest.raises(DataError, match=r"3\.png changed since it was listed; run `dvc repro --force"):
        embed(tiny_encoder, five_images, digests=digests, on_bad_image="skip")
    Path("3.png").unlink()
    with pytest.raises(DataError, match=r"3\.png is gone since it was listed"):
        embed(tiny_encoder, five_images, digests=digests, on_bad_image="skip")


@pytest.mark.parametrize("name", ["two\nlines.png", "line\u2028separator.png", "tab\t.png"])
def test_a_skipped_image_may_have_any_name(in_tmp, five_images, tiny_encoder, name):
    Path(name).write_bytes(b"broken")
    found = embed(tiny_encoder, [name, *five_images], on_bad_image="skip")
    assert list(found.skipped) == [0]
    assert len(found.skipped[0].splitlines()) == 1
    assert "is not an image" in found.skipped[0]


def test_nothing_decodable_is_an_error(in_tmp, tiny_encoder):
    Path("x.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="none of the 1 images could be decoded"):
        embed(tiny_encoder, ["x.png"], on_bad_image="skip")
