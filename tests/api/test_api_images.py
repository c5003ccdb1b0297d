"""`wsoup.encode_images`: the pipeline's features, and errors that name bad files."""

from __future__ import annotations

import copy
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile
from small_world import COLOURS, write_image_folder
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from torchvision.transforms import Compose, Normalize

import wsoup
from wsoup.base.errors import DataError, ModelError, ParamsError, WsoupError
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
        ({"paths": 3}, ParamsError, "paths is 3; expected a list"),
        ({"paths": []}, ParamsError, r"paths is \[\]; .*expected a list of 1 or more"),
        (
            {"paths": [np.zeros((9, 9, 3))]},
            ParamsError,
            r"paths\[0\] is <ndarray .*expected an image file.* Pillow image",
        ),
        ({"model": len, "preprocess": torch.nn.Linear(1, 1)}, ModelError, "model is .* has no encode_image"),
        ({"paths": ["."]}, ParamsError, r"paths\[0\] is '\.'; it is a folder; list its files: sorted\("),
        ({"on_bad_image": "skip"}, ParamsError, "on_bad_image is 'skip'; expected one of stop, nan"),
        ({"preprocess": Image.Image.copy}, ModelError, "preprocess cannot do what this needs"),
    ],
)
def test_arguments_are_checked_before_any_work(files, tiny_encoder, changed, error, text):
    with pytest.raises(error, match=text):
        encode(**{"paths": files, "encoder": tiny_encoder, **changed})


# ------------------------------------------------------------------------------------- what else notebooks have


class Labelled(Dataset):
    """Images with labels, as of torchvision."""

    def __init__(self, images: list) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple:
        return self.images[i], i


class Streamed(IterableDataset):
    """Images one after the other, whose number nobody knows."""

    def __init__(self, images: list) -> None:
        self.images = images

    def __iter__(self):
        return iter(self.images)


def as_dicts(batch: list) -> dict:
    return {"pixel_values": torch.stack([image for image, _ in batch]), "labels": [label for _, label in batch]}


@pytest.mark.parametrize(
    "kind",
    ["one picture", "generator", "tensor", "dataset", "dataset of pictures", "stream", "loader", "loader of dicts"],
)
def test_every_kind_of_images_gives_the_features_of_the_files(files, tiny_encoder, kind):
    pictures = [load_rgb(path) for path in files]
    pixels = [tiny_encoder.preprocess(picture) for picture in pictures]
    expected = encode(files, tiny_encoder)
    given = {
        "one picture": pictures[0],
        "generator": (picture for picture in pictures),
        "tensor": torch.stack(pixels),
        "dataset": Labelled(pixels),
        "dataset of pictures": Labelled(pictures),
        "stream": Streamed(pixels),
        "loader": DataLoader(Labelled(pixels), batch_size=4),
        "loader of dicts": DataLoader(Labelled(pixels), batch_size=4, collate_fn=as_dicts),
    }[kind]
    needs_no_preprocess = kind in ("tensor", "dataset", "stream", "loader", "loader of dicts")
    changed = {"preprocess": None} if needs_no_preprocess else {}
    features = encode(given, tiny_encoder, **changed)
    assert not features.is_inference()
    torch.testing.assert_close(features, expected[: len(features)], atol=1e-6, rtol=0)
    assert len(features) == (1 if kind == "one picture" else len(files))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: DataLoader(TensorDataset(torch.zeros(4, 3, 16, 16)), shuffle=True), "DataLoader that shuffles"),
        (lambda: TensorDataset(torch.arange(3)), r"paths gives a tensor \(\) of torch.int64; expected preprocessed"),
        (lambda: torch.zeros(3, 16, 16), r"paths gives a tensor \(3, 16, 16\) .*; expected preprocessed images \(B, 3"),
        (lambda: DataLoader(Labelled(["a.jpg"])), r"paths gives \('a.jpg',\); expected preprocessed images \(B, 3"),
        (lambda: Labelled([{"img": 1}]), r"paths gives \{'img': 1\}; expected preprocessed images \(3, H, W\)"),
        (lambda: Streamed([{"img": 1}]), "paths gives a dict of img; expected one of image, pixel_values, images"),
        (lambda: Streamed([]), "paths holds no images"),
        (lambda: TensorDataset(torch.full((2, 3, 16, 16), torch.nan)), r"paths\[0\]: its features are not finite"),
    ],
)
def test_what_torch_loads_must_be_images_in_order(tiny_encoder, given, message):
    with pytest.raises(WsoupError, match=message):
        encode(given(), tiny_encoder, preprocess=None)


def test_files_need_a_preprocess(files, tiny_encoder):
    for paths in (files, Labelled([load_rgb(path) for path in files])):
        with pytest.raises(ParamsError, match="preprocess is None"):
            encode(paths, tiny_encoder, preprocess=None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_encodes_images(files, tiny_encoder, dtype):
    model = copy.deepcopy(tiny_encoder.model).to(dtype)
    expected = encode(files, tiny_encoder)
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in files])
    for given in (files, pixels):
        features = encode(given, tiny_encoder, model=model)
        assert features.dtype == torch.float32
        torch.testing.assert_close(features, expected, atol=0.02, rtol=0)


def test_another_normalisation_than_the_models_is_said_once(files, tiny_encoder):
    own = tiny_encoder.preprocess
    other = Compose([*own.transforms[:-1], Normalize(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))])
    with pytest.warns(UserWarning, match=r"preprocess normalises with mean \[0.5, 0.5, 0.5\] and std") as said:
        encode(files, tiny_encoder, preprocess=other)
    assert len(said) == 1
