"""Loading a model: its id, its preprocessing, its features, and errors."""

from __future__ import annotations

import dataclasses
import random
import weakref

import open_clip
import pytest
import torch
from PIL import Image

from wsoup.base.errors import MissingError, ModelError
from wsoup.images.pixels import encode_pixels
from wsoup.params.inputs import EncoderParams
from wsoup.towers import models as towers
from wsoup.towers.encoder import check_device, choose_device, load_encoder
from wsoup.towers.identity import config_digest, weights_digest
from wsoup.towers.words import ByWord


def test_the_id_of_an_encoder(tiny_encoder):
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


def test_features_are_the_models_and_normalised(tiny_encoder):
    pixels = torch.rand(3, 3, 16, 16)
    features = encode_pixels(tiny_encoder, pixels)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(tiny_encoder.model.encode_image(pixels), dim=-1)
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-6)  # packed weights round differently
    texts = tiny_encoder.encode_texts(["a cat", "a dog"])
    assert torch.allclose(texts.norm(dim=-1), torch.ones(2), atol=1e-6)


def test_a_word_is_tokenised_once_and_so_is_a_text_that_needs_repair(monkeypatch):
    texts, cleaned = ["a photo of a cat,", "", " WHITE paws &amp; claws", "a" * 300], []
    tokenizer, theirs = towers.tokenizer_of("ViT-B-32"), open_clip.get_tokenizer("ViT-B-32")
    tokenizer.encode.encode.cache_clear()  # encoders of a process share it, and so the words that they have met
    monkeypatch.setattr(tokenizer, "clean_fn", lambda text: cleaned.append(text) or theirs.clean_fn(text))
    for some in (texts, texts[::-1], [*texts, *texts]):
        assert tokenizer(some).equal(theirs(some))
    assert cleaned == ["a", "photo", "of", "cat,", *texts[2:]]


@pytest.mark.parametrize("clean", ["lower", "whitespace", "canonicalize"])
def test_tokens_by_word_are_those_of_the_whole_text(clean):
    """Of any ASCII text, in which "&", "<" and control characters occur often, and of contractions and numbers."""
    theirs = open_clip.SimpleTokenizer(clean=clean)
    by_word = ByWord(theirs.encode)
    texts = ["it's 3pm, don't_stop  now.", "<start_of_text> a", "a&amp;b", "don't&#39;", "caf\u00e9", "a\tb\nc"]
    draw = random.Random(0)
    for _ in range(2000):
        often = draw.choices("aB9 '_-.,&<;#\t\n~!?()", k=9)
        seldom = [chr(draw.randrange(128)) for _ in range(3)]
        letters = draw.sample(often + seldom, k=12)
        texts.append("".join(letters))
    for text in texts:
        assert by_word(text) == theirs.encode(text), repr(text)


def test_a_batch_that_does_not_fit_into_memory_is_halved(tiny_encoder, monkeypatch):
    pixels, model = torch.rand(5, 3, 16, 16), tiny_encoder.model
    expected = encode_pixels(tiny_encoder, pixels)
    whole = model.encode_image

    held: list[weakref.ref] = []

    def small_memory(batch: torch.Tensor) -> torch.Tensor:
        assert not any(ref() is not None for ref in held), "the memory of a failed pass is free before the next one"
        activations = torch.zeros(len(batch))
        if len(batch) > 2:
            held.append(weakref.ref(activations))
            raise torch.OutOfMemoryError("no room")
        return whole(batch)

    monkeypatch.setattr(model, "encode_image", small_memory)
    encoder = dataclasses.replace(tiny_encoder)  # builds the fast model anew
    assert torch.allclose(encode_pixels(encoder, pixels), expected, atol=1e-6)
    assert len(held) == 2


@pytest.mark.parametrize(
    ("change", "error", "expected"),
    [
        ({"model": "ViT-B-61", "config": None}, ModelError, "'ViT-B-61' is not an open_clip model"),
        ({"pretrained": None}, ModelError, "encoder.pretrained is null"),
        ({"pretrained": "no/such.safetensors"}, MissingError, "weights file no/such.safetensors does not exist"),
        ({"config": "no/such.json"}, MissingError, "no/such.json does not exist"),
        ({"model": "other"}, ModelError, "the config's file name without .json: 'tiny-clip', not 'other'"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_a_one_line_error(tiny_encoder_files, change, error, expected):
    with pytest.raises(error) as raised:
        load_encoder(EncoderParams(**{**tiny_encoder_files, **change}), device=torch.device("cpu"))
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unknown_device_is_an_error():
    with pytest.raises(ModelError, match="device 'nonsense' cannot be used"):
        choose_device("nonsense")


def test_a_device_without_float64_is_refused_in_one_line():
    with pytest.raises(ModelError, match=r"device 'mps' has no float64.*--device cpu, or model.cpu"):
        check_device(torch.device("mps"))


def test_open_clips_own_tables():
    assert len(towers.imagenet_class_names()) == 1000
    assert [template("cat") for template in towers.ensemble_templates()][:1] == ["a bad photo of a cat."]
    assert len(towers.ensemble_templates()) == 80
