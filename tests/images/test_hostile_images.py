"""Damaged files of every format that Pillow writes: each decodes, or gives a DataError of one line that names it.

Files of formats that are not decoded at all (EPS, DDS, ...) are among them: they arrive under the name of another.
"""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from corrupt import corrupted
from PIL import Image

from wsoup.base.errors import DataError
from wsoup.images.decode import FORMATS as DECODED
from wsoup.images.decode import load_rgb

FORMATS = (
    *("JPEG", "MPO", "PNG", "WEBP", "AVIF", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000"),
    *("BLP", "DDS", "EPS", "ICNS", "ICO", "MSP", "PCX", "QOI", "SGI", "SPIDER", "TGA", "XBM"),
)
MODES = {"JPEG": "CMYK", "GIF": "P", "TIFF": "I;16", "PNG": "LA", "MSP": "1", "XBM": "1", "BLP": "P", "SPIDER": "F"}
"""A second kind of file for some formats; for others the only one."""
ONE_MODE = ("MSP", "XBM", "BLP", "SPIDER")
SEEDS = 60
FAILED_ONCE = [
    *(("AVIF", seed) for seed in (56, 85, 103)),
    *(("BLP", seed) for seed in (26, 32, 80)),
    *(("DDS", seed) for seed in (74, 106, 116, 118)),
]
"""(format, seed) of files that once raised something else than DataError."""


@lru_cache
def whole(kind: str) -> list[bytes]:
    """Undamaged files of one format, with EXIF where it supports that."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 40, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    found = []
    for mode in dict.fromkeys([MODES.get(kind, "RGB")] if kind in ONE_MODE else ["RGB", MODES.get(kind, "RGB")]):
        grey = Image.fromarray(np.asarray(noise.convert("L")).astype(np.uint16) * 257)
        image = grey if mode == "I;16" else noise.convert(mode)
        data = io.BytesIO()
        more = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
        holds_exif = kind in ("JPEG", "MPO", "PNG", "WEBP", "AVIF", "TIFF")
        image.save(data, kind, **more, **({"exif": exif} if holds_exif else {}))
        found.append(data.getvalue())
    return found


def decodes_or_is_named(path: Path, data: bytes) -> bool:
    """Whether the bytes decode; fails the test unless they do, or give a DataError of one line with the path."""
    path.write_bytes(data)
    text = problem(path)
    if text is not None:
        assert str(path) in text
        assert text.isprintable()
        assert len(text) < 500 + len(str(path))
    return text is None


def problem(path: Path) -> str | None:
    try:
        assert load_rgb(path).mode == "RGB"
    except DataError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", FORMATS)
def test_a_sample_of_damaged_files(tmp_path, kind):
    for data in whole(kind):
        for seed in range(6):
            decodes_or_is_named(tmp_path / "x.jpg", corrupted(data, seed=seed))


@pytest.mark.parametrize(("kind", "seed"), FAILED_ONCE)
def test_files_that_once_raised_another_error(tmp_path, kind, seed):
    decodes_or_is_named(tmp_path / "x.jpg", corrupted(whole(kind)[0], seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, SEEDS))
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(tmp_path, kind, seed):
    for data in whole(kind):
        for further in range(5):
            decodes_or_is_named(tmp_path / "x.jpg", corrupted(data, seed=seed + 1000 * further))


@pytest.mark.parametrize("kind", FORMATS)
def test_undamaged_files_of_known_formats_decode(tmp_path, kind):
    for data in whole(kind):
        assert decodes_or_is_named(tmp_path / "x.jpg", data) == (kind in DECODED)
