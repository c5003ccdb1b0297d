"""Decoding: unusual files become upright RGB, bad ones give one clear line."""

from __future__ import annotations

import hashlib
import io
import os
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from wsoup.base.errors import ChangedError, DataError, ParamsError
from wsoup.images.batches import batches
from wsoup.images.decode import load_rgb
from wsoup.images.workers import decoding_workers


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


def test_exif_rotation_is_applied(tmp_path):
    image = Image.new("RGB", (4, 2), "black")
    exif = image.getexif()
    exif[0x0112] = 6  # stored lying on its side
    image.save(tmp_path / "x.jpg", exif=exif)
    assert load_rgb(tmp_path / "x.jpg").size == (2, 4)
    assert load_rgb(tmp_path / "x.jpg", as_stored=True).size == (4, 2), "as the authors' loader"


def png_bytes() -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((40, 40), 90).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "JPEG2000), 0 bytes"),
        (b"<!DOCTYPE html><html></html>", "is not an image of a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n", "is not an image of a known"),
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


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    Image.new("RGB", (40, 40)).save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match="decompression bomb"):
        load_rgb(tmp_path / "x.png")


@pytest.fixture
def five_files(tmp_path):
    """Five images; number 2 is broken."""
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for i, path in enumerate(paths):
        Image.new("RGB", (4, 4), (10 * i, 0, 0)).save(path)
    paths[2].write_bytes(b"broken")
    return [str(path) for path in paths]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_keep_order_and_list_what_they_skip(five_files, workers, monkeypatch):
    monkeypatch.setattr("wsoup.images.one_pool.FEW_IMAGES", 0)
    options = {"batch_size": 2, "on_bad_image": "skip", "workers": workers}
    decoded = list(batches(five_files, transform=to_tensor, **options))
    assert [b.positions for b in decoded] == [[0, 1], [3], [4]]
    assert [float(p) for b in decoded for p in b.pixels[:, 0, 0, 0]] == [0, 10, 30, 40]
    assert [list(b.bad) for b in decoded] == [[], [2], []]


# -------------------------------------------------------------------------------------------------- hostile files


def test_a_changed_image_is_an_error_even_if_bad_ones_are_skipped(five_files):
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in five_files]
    options = {"transform": to_tensor, "batch_size": 2, "digests": digests, "on_bad_image": "skip"}
    assert sum(len(batch.positions) for batch in batches(five_files, **options)) == 4
    Image.new("RGB", (4, 4), "red").save(five_files[3])
    with pytest.raises(ChangedError, match=r"3\.png changed since it was listed; run `dvc repro --force"):
        list(batches(five_files, **options))
    Path(five_files[3]).unlink()
    with pytest.raises(ChangedError, match=r"3\.png is gone since it was listed"):
        list(batches(five_files, **options))


@pytest.mark.parametrize(
    ("values", "expected"),
    [(np.uint16(200), 0), (np.uint16(65535), 255), (np.uint16(257), 1), (np.uint16(32768), 127)],
)
def test_a_dark_16_bit_image_stays_dark(tmp_path, values, expected):
    for name in ("x.png", "x.tif", "x.pgm"):
        Image.fromarray(np.full((2, 2), values)).save(tmp_path / name)
        assert load_rgb(tmp_path / name).getpixel((0, 0)) == (expected, expected, expected)


@pytest.mark.parametrize(("mode", "kind"), [("F", "float"), ("I", "32-bit integer")])
def test_pixels_without_a_known_range_are_refused(tmp_path, mode, kind):
    Image.new(mode, (2, 2), 1).save(tmp_path / "x.tif")
    with pytest.raises(DataError, match=rf"x.tif holds {kind} pixels, whose white value is undefined"):
        load_rgb(tmp_path / "x.tif")


@pytest.mark.parametrize("size", [(60_000, 1), (1, 201)])
def test_a_line_is_refused_before_it_is_resized(tmp_path, size):
    Image.new("L", size).save(tmp_path / "x.png")
    with pytest.raises(DataError, match=rf"has {size[0]} x {size[1]} pixels, more than 200 times as long as wide"):
        load_rgb(tmp_path / "x.png")


def test_an_image_with_broken_exif_is_still_rotated(tmp_path):
    """Only the orientation is read, so another tag may be broken."""
    broken_maker = b"Exif\0\0MM\0*\0\0\0\x08\0\x02\x01R\0\x02\0\0\0\x06\0\0\0&\x01\x12\0\x03\0\0\0\x01\0\x06"
    Image.new("RGB", (4, 2)).save(tmp_path / "x.jpg", exif=broken_maker + bytes(6) + b"maQer\0")
    assert load_rgb(tmp_path / "x.jpg").size == (2, 4)
    Image.new("RGB", (4, 2)).save(tmp_path / "x.jpg", exif=b"Exif\0\0MM\0*\0")
    assert load_rgb(tmp_path / "x.jpg").size == (4, 2)
    exif = Image.Exif()
    exif[0x0112] = 99
    Image.new("RGB", (4, 2)).save(tmp_path / "x.jpg", exif=exif)
    assert load_rgb(tmp_path / "x.jpg").size == (4, 2)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_every_orientation_is_applied_as_pillow_does(tmp_path, orientation, suffix):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / f"x.{suffix}", exif=exif)
    with Image.open(tmp_path / f"x.{suffix}") as image:
        assert load_rgb(tmp_path / f"x.{suffix}").tobytes() == ImageOps.exif_transpose(image).tobytes()


@pytest.mark.parametrize("name", ["two\nlines.jpg", "line\u2028separator.jpg", "bell\a.jpg"])
def test_an_error_is_one_line_whatever_the_name(tmp_path, name):
    (tmp_path / name).write_bytes(b"broken")
    with pytest.raises(DataError) as error:
        load_rgb(tmp_path / name)
    assert str(error.value).isprintable()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


ODD_FILES = [
    (lambda path: None, "does not exist"),
    (make_fifo, "is a FIFO"),
    (make_socket, "is a socket"),
    (lambda path: path.mkdir(), "is a folder"),
    (lambda path: path.symlink_to(path), "symbolic links"),
    (lambda path: path.symlink_to("/dev/zero"), "is a device"),
    (lambda path: path.symlink_to("nowhere"), "is a broken symbolic link"),
    (
        lambda path: os.truncate(path, 1 << 40) if path.touch() is None else None,
        "has 1,099,511,627,776 bytes",
    ),
]


@pytest.mark.parametrize(("make", "text"), ODD_FILES)
def test_what_is_not_a_regular_file_is_never_opened(tmp_path, make, text):
    make(tmp_path / "x.jpg")
    with pytest.raises(DataError, match=text) as error:
        load_rgb(tmp_path / "x.jpg")
    assert str(tmp_path / "x.jpg") in str(error.value)


def test_an_invalid_number_of_workers(monkeypatch):
    monkeypatch.setenv("WSOUP_WORKERS", "abc")
    with pytest.raises(ParamsError, match="WSOUP_WORKERS is 'abc', expected a number of processes"):
        decoding_workers()


def photo(path: Path, size: tuple[int, int], **options) -> Path:
    """A smooth picture, as a photograph is: red grows to the right, green downwards."""
    width, height = size
    red = np.linspace(0, 255, width)[None, :].repeat(height, axis=0)
    green = np.linspace(0, 255, height)[:, None].repeat(width, axis=1)
    pixels = np.stack([red, green, np.full_like(red, 90)], axis=2).astype(np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.mark.parametrize(
    ("side", "size"), [(None, (640, 480)), (400, (640, 480)), (240, (320, 240)), (100, (160, 120)), (1, (80, 60))]
)
def test_a_jpeg_is_decoded_as_small_as_is_enough(tmp_path, side, size):
    path = photo(tmp_path / "a.jpg", (640, 480), quality=95)
    small = load_rgb(path, side=side)
    assert small.size == size
    resized = load_rgb(path).resize(size, Image.Resampling.BOX)
    assert np.abs(np.asarray(small).astype(int) - np.asarray(resized).astype(int)).max() <= 4


def test_another_format_is_decoded_whole(tmp_path):
    assert load_rgb(photo(tmp_path / "a.png", (640, 480)), side=10).size == (640, 480)


def test_a_small_decoding_is_upright(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    path = photo(tmp_path / "a.jpg", (640, 480), exif=turned.tobytes(), quality=95)
    assert load_rgb(path, side=100).size == (120, 160)


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_a_small_decoding_has_the_colours_of_its_mode(tmp_path, mode):
    photo(tmp_path / "a.png", (640, 480))
    Image.open(tmp_path / "a.png").convert(mode).save(tmp_path / "a.jpg", quality=95)
    small, whole = load_rgb(tmp_path / "a.jpg", side=100), load_rgb(tmp_path / "a.jpg")
    difference = np.asarray(small).astype(int) - np.asarray(whole.resize(small.size, Image.Resampling.BOX)).astype(int)
    assert np.abs(difference).max() <= 4
