"""Decoding of image files, robust to bad ones.

Every file becomes an upright 8-bit RGB image: EXIF rotation is applied, palettes and CMYK are converted, 16-bit grey is
scaled to 8 bits, transparency is laid over white. Its content says what format it has, not its name. The error for a
file that cannot be decoded names it and the reason, whatever the decoder raised. Nothing here needs torch, so that a
page with thumbnails does not wait for it.
"""

import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

from wsoup.base.errors import ChangedError, DataError, MissingError, WsoupError
from wsoup.datasets.photo_files import SUFFIXES_OF
from wsoup.disk.files import read_bytes, reason_of, shown

FORMATS = tuple(SUFFIXES_OF)
MAX_ASPECT = 200
"""Long side over short side. Models resize the short side to their own size S, so a resized image has at most
``200 * S * S`` pixels; a line of 60,000 x 1 would become one of 13 million x 224."""
CHANGED = "run `dvc repro --force --single-item prepare@DATASET` for its dataset, then `dvc repro`"
"""Next step for an image that is not the one that was listed."""
ORIENTATION = 0x0112
"""EXIF's tag of how a camera was held."""
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> the transposition that undoes it."""


class BadImageError(DataError):
    """An image that cannot be decoded; `args[0]` is the problem alone, without the next step of a pipeline's user."""

    def __str__(self) -> str:
        return f"{self.args[0]}; replace or remove it, or set embed.on_bad_image: skip"


class Picture(NamedTuple):
    """An image in memory, and its name in messages."""

    image: Image.Image
    name: str

    def __str__(self) -> str:
        return self.name


def load_rgb(
    path: str | Path | Picture, *, digest: str | None = None, as_stored: bool = False, side: int | None = None
) -> Image.Image:
    """Decode an image file, a row of an Arrow file, or an open picture as upright 8-bit RGB.

    Args:
        path: the file (see `wsoup.disk.files.read_bytes`), or a picture.
        digest: SHA-256 in hex that the file had when it was listed; None accepts any.
        as_stored: neither rotate it nor lay transparency over white, as the authors' loader (samplers.py:176).
        side: pixels of both sides that are enough: the decoder of a larger JPEG file may give a half, a quarter or an
            eighth of it, down to these. None for the whole picture.

    Raises:
        ChangedError: the file's digest is not `digest`, or the file is gone.
        DataError: missing, empty, truncated, not an image, pixel values without a known range, a line rather than a
            picture (MAX_ASPECT), or so large that it looks like a decompression bomb.
    """
    name = shown(str(path))
    try:
        with warnings.catch_warnings(), _whole_files():
            # Pillow warns of large or odd files that it decodes nevertheless.
            warnings.simplefilter("ignore")
            if isinstance(path, Picture):
                return _upright(path.image, name=name, as_stored=as_stored)
            data = _read(str(path), name=name, digest=digest)
            with Image.open(io.BytesIO(data), formats=_formats()) as image:
                if side is not None:
                    # Another mode than its own would change colours. Only JPEG files do anything here.
                    image.draft(None, (side, side))
                return _upright(image, name=name, as_stored=as_stored)
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise BadImageError(f"{name} is not an image of a known format ({known}), {len(data):,} bytes") from None
    except WsoupError:
        raise
    except Exception as error:  # a damaged file may make a decoder raise anything
        raise BadImageError(f"{name} cannot be decoded ({reason_of(error)})") from None


@contextmanager
def _whole_files() -> Iterator[None]:
    """A truncated file is an error, whatever others have set in Pillow."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _read(path: str, *, name: str, digest: str | None) -> bytes:
    """The bytes of a file, checked against the digest that it had when it was listed."""
    try:
        data = read_bytes(path)
    except MissingError as error:
        if digest is not None:
            raise ChangedError(f"{name} is gone since it was listed; {CHANGED}") from None
        raise BadImageError(str(error)) from None
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise ChangedError(f"{name} changed since it was listed; {CHANGED}")
    return data


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    """The FORMATS that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _upright(image: Image.Image, *, name: str, as_stored: bool) -> Image.Image:
    """Upright 8-bit RGB; the aspect is checked before the pixels are decoded."""
    width, height = image.size
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise BadImageError(
            f"{name} has {width} x {height} pixels, more than {MAX_ASPECT} times as long as wide, which no model can "
            "resize"
        )
    image.load()
    transposition = None
    if not as_stored:
        # `ImageOps.exif_transpose` would fail where another tag than the orientation is broken.
        orientation = image.getexif().get(ORIENTATION, 1)
        transposition = UPRIGHT.get(orientation)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = _scaled(image, name=name)
    is_transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    if is_transparent and not as_stored:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        image = Image.alpha_composite(white, layer)
    rgb = image.convert("RGB")
    # Conversions make new images without EXIF, so the rotation was read above and comes last.
    if transposition is None:
        return rgb
    return rgb.transpose(transposition)


def _scaled(image: Image.Image, *, name: str) -> Image.Image:
    """8-bit grey from 16 bits. The format says which value is white, never the brightest pixel.

    Raises:
        DataError: 32-bit integers and floats, whose range is in no file.
    """
    # Pillow also opens PNG and PPM of 16 bits in its mode of 32-bit integers.
    is_wide = image.mode == "I" and image.format not in ("PNG", "PPM")
    if image.mode == "F" or is_wide:
        kind = "float" if image.mode == "F" else "32-bit integer"
        raise BadImageError(f"{name} holds {kind} pixels, whose white value is undefined: save it with 8 or 16 bits")
    # A TIFF of 12 bits keeps its values in a 16-bit mode.
    bits = getattr(image, "tag_v2", {}).get(258)
    top = 4095 if bits == (12,) else 65535
    values = np.asarray(image).astype(np.uint32)
    grey = (values * 255 // top).clip(0, 255)
    return Image.fromarray(grey.astype(np.uint8))
