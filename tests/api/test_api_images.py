"""Facts about `wsoup.encode_images`: the pipeline's features, bad files named, and a long list goes on after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.core.errors import DataError, ModelError, ParamsError
from wsoup.images import features as image_features
from wsoup.images.decode import load_rgb


@pytest.fixture
def files(in_tmp) -> list[str]:
    root = write_image_folder(in_tmp / "photo", splits={"train": 2}, classes=COLOURS)
    return sorted(str(path) for path in root.rglob("*.png"))


def encode(paths, encoder, **changed):
    given = {"model": encoder.model, "preprocess": encoder.preprocess, "batch_size": 3, "progress": False}
    return wsoup.encode_images(paths, **{**given, **changed})


def test_features_are_the_encoders_own_in_the_order_asked_for(files, tiny_encoder):
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in files])
    torch.testing.assert_close(encode(files, tiny_encoder), tiny_encoder.encode_images(pixels), atol=1e-6, rtol=0)
    again = encode([Path(path) for path in reversed(files)], tiny_encoder)
    torch.testing.assert_close(again, encode(files, tiny_encoder).flip(0), atol=1e-6, rtol=0)
    assert not again.is_inference()


def test_a_short_list_leaves_nothing_behind(files, tiny_encoder):
    encode(files, tiny_encoder)
    assert not Path(".cache").exists()


def test_a_long_list_goes_on_where_it_was(files, tiny_encoder, monkeypatch):
    expected = encode(files, tiny_encoder)
    for module in ("wsoup.api.images", "wsoup.images.features"):
        monkeypatch.setattr(f"{module}.IMAGES_PER_SHARD", 3)
    calls, encode_files = [], image_features.encode_files

    def dying(encoders, **how):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(how["paths"])
        return encode_files(encoders, **how)

    monkeypatch.setattr(image_features, "encode_files", dying)
    with pytest.raises(KeyboardInterrupt):
        encode(files, tiny_encoder)
    calls.clear()
    assert torch.equal(encode(files, tiny_encoder), expected)
    assert calls == [files[6:]]
    assert not list(Path(".cache").rglob("*.part"))


def test_another_preprocessing_starts_anew(files, tiny_encoder, monkeypatch):
    for module in ("wsoup.api.images", "wsoup.images.features"):
        monkeypatch.setattr(f"{module}.IMAGES_PER_SHARD", 3)
    monkeypatch.setattr("wsoup.api.images.shutil.rmtree", lambda *_, **__: None)  # as if killed just before
    plain = encode(files, tiny_encoder)
    darker = encode(files, tiny_encoder, preprocess=lambda image: tiny_encoder.preprocess(image) - 1)
    assert not torch.allclose(plain, darker)


def test_a_bad_file_is_named_or_becomes_nan(files, tiny_encoder):
    Path(files[1]).write_bytes(b"broken")
    with pytest.raises(DataError, match=r"01\.png is not an image"):
        encode(files, tiny_encoder)
    features = encode([*files, "lost.png"], tiny_encoder, on_bad_image="nan")
    assert features.isnan().any(dim=1).nonzero()[:, 0].tolist() == [1, len(files)]
    with pytest.raises(DataError, match=r"none of the 1 images could be decoded; the first: .*01\.png is not an image"):
        encode([files[1]], tiny_encoder, on_bad_image="nan")


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"paths": "a.png"}, DataError, "paths is one string, 'a.png'; expected a list"),
        ({"paths": []}, DataError, "paths is empty"),
        ({"model": object()}, ModelError, "model is object, which has no encode_image"),
        ({"on_bad_image": "skip"}, ParamsError, "on_bad_image is 'skip'; expected 'stop' or 'nan'"),
        ({"preprocess": Image.Image.copy}, ModelError, "preprocess gives Image for an image; expected a tensor"),
    ],
)
def test_arguments_are_checked_at_the_door(files, tiny_encoder, changed, error, text):
    with pytest.raises(error, match=text):
        encode(**{"paths": files, "encoder": tiny_encoder, **changed})
