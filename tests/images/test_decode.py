"""Facts about decoding: odd files become upright RGB, bad ones become one clear line."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from wsoup.errors import DataError
from wsoup.images.decode import batches, load_rgb


def to_tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image.resize((4, 4)), dtype=np.float32)).permute(2, 0, 1)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "CMYK", "1", "I;16"])
@pytest.mark.parametrize("size", [(1, 1), (5, 3)])
def test_every_mode_becomes_rgb(tmp_path, mode, size):
    suffix = {"CMYK": "jpg"}.get(mode, "png")
    Image.new(mode, size).save(tmp_path / f"x.{suffix}")
    image = load_rgb(tmp_path / f"x.{suffix}")
    assert image.mode == "RGB"
    assert image.size == size


def test_transparency_is_laid_over_white(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "x.png")
    assert load_rgb(tmp_path / "x.png").getpixel((0, 0)) == (255, 255, 255)


def test_sixteen_bit_greys_are_scaled(tmp_path):
    Image.fromarray(np.full((2, 2), 32768, dtype=np.uint16)).save(tmp_path / "x.png")
    assert load_rgb(tmp_path / "x.png").getpixel((0, 0)) == (127, 127, 127)


def test_exif_rotation_is_applied(tmp_path):
    image = Image.new("RGB", (4, 2), "black")
    exif = image.getexif()
    exif[0x0112] = 6  # stored lying on its side
    image.save(tmp_path / "x.jpg", exif=exif)
    assert load_rgb(tmp_path / "x.jpg").size == (2, 4)


def test_a_tar_member_is_an_image_too(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(buffer, format="PNG")
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        member = tarfile.TarInfo("a/000.png")
        member.size = buffer.tell()
        buffer.seek(0)
        tar.addfile(member, buffer)
    assert load_rgb(tmp_path / "0.tar/a/000.png").getpixel((0, 0)) == (255, 0, 0)


def png_bytes() -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((40, 40), 90).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty (0 bytes)"),
        (b"<!DOCTYPE html><html></html>", "is an HTML page"),
        (b"just some text", "is not an image that Pillow knows"),
        (png_bytes()[:300], "cannot be decoded"),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path, data, expected):
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        load_rgb(path)
    assert str(path) in str(error.value)
    assert expected in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        load_rgb(tmp_path / "x.jpg")


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    Image.new("RGB", (40, 40)).save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match="too large to decode safely"):
        load_rgb(tmp_path / "x.png")


@pytest.fixture
def five_files(tmp_path):
    """Five images of which number 2 is broken."""
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for i, path in enumerate(paths):
        Image.new("RGB", (4, 4), (10 * i, 0, 0)).save(path)
    paths[2].write_bytes(b"broken")
    return [str(path) for path in paths]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_keep_order_and_list_what_they_skip(five_files, workers, monkeypatch):
    monkeypatch.setattr("wsoup.images.decode.FEW_IMAGES", 0)
    found = list(batches(five_files, transform=to_tensor, batch_size=2, on_bad_image="skip", workers=workers))
    assert torch.cat([b.positions for b in found]).tolist() == [0, 1, 3, 4]
    assert [float(p) for b in found for p in b.pixels[:, 0, 0, 0]] == [0, 10, 30, 40]
    assert [list(b.bad) for b in found] == [[], [2], []]


def test_a_bad_image_stops_unless_told_to_skip(five_files):
    with pytest.raises(DataError, match=r"2\.png"):
        list(batches(five_files, transform=to_tensor, batch_size=2, on_bad_image="stop"))
