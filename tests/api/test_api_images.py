"""`wsoup.encode_images`: the pipeline's features, and errors that name bad files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.base.errors import DataError, ModelError, ParamsError
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels


@pytest.fixture
def files(in_tmp) -> list[str]:
    root = write_image_folder(in_tmp / "photo", splits={"train": 2}, classes=COLOURS)
    return sorted(str(path) for path in root.rglob("*.png"))


def encode(paths, encoder, **changed):
    given = {"model": encoder.model, "preprocess": encoder.preprocess, "batch_size": 3, "progress": False}
    return wsoup.encode_images(paths, **{**given, **changed})


def test_features_equal_the_encoders_in_the_order_of_paths(files, tiny_encoder):
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in files])
    torch.testing.assert_close(encode(files, tiny_encoder), encode_pixels(tiny_encoder, pixels), atol=1e-6, rtol=0)
    again = encode([Path(path) for path in reversed(files)], tiny_encoder)
    torch.testing.assert_close(again, encode(files, tiny_encoder).flip(0), atol=1e-6, rtol=0)
    assert not again.is_inference()


def test_pillow_images_give_the_features_of_their_files(files, tiny_encoder):
    expected = encode(files, tiny_encoder)
    opened = [Image.open(path) for path in files]
    torch.testing.assert_close(encode(opened, tiny_encoder), expected, atol=1e-6, rtol=0)
    mixed = [path if i % 3 else image for i, (path, image) in enumerate(zip(files, opened, strict=True))]
    torch.testing.assert_close(encode(mixed, tiny_encoder), expected, atol=1e-6, rtol=0)
    clear = Image.new("RGBA", (40, 30), (0, 0, 0, 0))
    white = Image.new("L", (40, 30), 255)
    assert torch.equal(encode([clear], tiny_encoder), encode([white], tiny_encoder)), "transparency lies over white"


def test_an_unreadable_pillow_image_is_named_by_its_index(files, tiny_encoder):
    cut = Image.open(BytesIO(Path(files[0]).read_bytes()[:60]))
    given = [files[0], cut, Image.new("F", (9, 9))]
    with pytest.raises(DataError, match=r"^paths\[1\] cannot be decoded"):
        encode(given, tiny_encoder)
    features = encode(given, tiny_encoder, on_bad_image="nan")
    assert features.isnan().all(dim=1).tolist() == [False, True, True]
    with pytest.raises(DataError, match=r"none of the 2 images could be decoded; the first: paths\[0\] "):
        encode(given[1:], tiny_encoder, on_bad_image="nan")


def test_a_truncated_file_is_bad_whatever_others_set_in_pillow(files, tiny_encoder, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    noise = Image.effect_noise((200, 200), 90)
    noise.save("cut.jpg")
    Path("cut.jpg").write_bytes(Path("cut.jpg").read_bytes()[:9000])
    with pytest.raises(DataError, match=r"cut\.jpg cannot be decoded"):
        encode(["cut.jpg"], tiny_encoder)
    assert ImageFile.LOAD_TRUNCATED_IMAGES


def test_a_bad_file_raises_or_becomes_nan(files, tiny_encoder):
    Path(files[1]).write_bytes(b"broken")
    with pytest.raises(
        DataError, match=r'01\.png is not an image .*; replace or remove it, or pass on_bad_image="nan"$'
    ):
        encode(files, tiny_encoder)
    features = encode([*files, "lost.png"], tiny_encoder, on_bad_image="nan")
    assert features.isnan().any(dim=1).nonzero()[:, 0].tolist() == [1, len(files)]


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"paths": "a.png"}, ParamsError, "paths is 'a.png'; expected a list"),
        ({"paths": []}, ParamsError, r"paths is \[\]; .*expected a list of 1 or more"),
        ({"paths": [np.zeros((9, 9, 3))]}, ParamsError, r"paths.0 is array.*expected an image file.* Pillow image"),
        ({"model": len, "preprocess": torch.nn.Linear(1, 1)}, ModelError, "model is .* has no encode_image"),
        ({"paths": ["."]}, ParamsError, r"paths.0 is '\.'; expected an image file, one of sorted\("),
        ({"on_bad_image": "skip"}, ParamsError, "on_bad_image is 'skip'; expected one of stop, nan"),
        ({"preprocess": Image.Image.copy}, ModelError, "preprocess cannot do what this needs"),
    ],
)
def test_arguments_are_checked_before_any_work(files, tiny_encoder, changed, error, text):
    with pytest.raises(error, match=text):
        encode(**{"paths": files, "encoder": tiny_encoder, **changed})
