"""Decoding and preprocessing of image files, robust to bad ones.

Every file becomes an upright 8-bit RGB image: EXIF rotation is applied, palettes and CMYK are converted, 16-bit grey is
scaled to 8, transparency is laid over white. A file that cannot be decoded is named, with the reason, whatever the
decoder raised. Decoding runs in worker processes so that the next batch is ready while the model works on this one.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from wsoup.core.disk.files import read_bytes, reason_of, shown
from wsoup.core.errors import ChangedError, DataError, MissingError, ParamsError, WsoupError
from wsoup.images.workers import Decoded, ahead

FEW_IMAGES = 1024
"""Below this many images, starting worker processes takes longer than decoding."""
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "AVIF", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000")
"""What is decoded, by content and not by name; Pillow's other formats include EPS, which starts a PostScript
interpreter."""
MAX_ASPECT = 200
"""Long side over short side. Models resize the short side to their own size S, so a resized image has at most
``200 * S * S`` pixels: a line of 60,000 x 1 would become one of 13 million x 224."""
ORIENTATION = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> the turn that undoes it."""
REMEDY = "replace or remove it, or set embed.on_bad_image: skip"


class Picture(NamedTuple):
    """An image in memory, and what messages call it."""

    image: Image.Image
    name: str

    def __str__(self) -> str:
        return self.name


def load_rgb(path: str | Path | Picture, *, digest: str | None = None, as_stored: bool = False) -> Image.Image:
    """Decode one image file, one member of a tar or Arrow file, or what is open already, as upright 8-bit RGB.

    Args:
        path: the file (see `wsoup.core.disk.files.read_bytes`), or a picture.
        digest: SHA-256 in hex that its bytes had when it was listed; None takes them as they are.
        as_stored: neither turn it nor lay transparency over white, as the authors' loader (samplers.py:176).

    Raises:
        ChangedError: the bytes are not those of `digest`, or are gone.
        DataError: missing, empty, truncated, not an image, of a kind whose values have no known range, a line rather
            than a picture (MAX_ASPECT), or so large that it looks like a decompression bomb.
    """
    name, data = shown(str(path)), b""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large or odd files that decode all the same
            if isinstance(path, Picture):
                return _upright(path.image, name=name, as_stored=as_stored)
            data = _contents(str(path), name=name, digest=digest)
            with Image.open(io.BytesIO(data), formats=_formats()) as image:
                return _upright(image, name=name, as_stored=as_stored)
    except UnidentifiedImageError:
        kind = "an HTML page" if data.lstrip()[:1] == b"<" else f"not an image of a known format ({', '.join(FORMATS)})"
        raise DataError(f"{name} is {kind}; {REMEDY}") from None
    except Image.DecompressionBombError as error:
        raise DataError(f"{name} is too large to decode safely ({reason_of(error)}); shrink or remove it") from None
    except WsoupError:
        raise
    except Exception as error:  # decoders raise whatever a damaged file leads them into
        raise DataError(f"{name} cannot be decoded ({reason_of(error)}); {REMEDY}") from None


def _contents(path: str, *, name: str, digest: str | None) -> bytes:
    """The bytes of a file, which are those that it had when it was listed."""
    try:
        data = read_bytes(path)
    except MissingError as error:
        if digest is not None:
            raise _changed(name, how="is gone") from None
        raise DataError(f"{error}; {REMEDY}") from None
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise _changed(name, how="changed")
    if not data:
        raise DataError(f"{name} is empty (0 bytes); replace or remove it")
    return data


def _changed(name: str, *, how: str) -> ChangedError:
    return ChangedError(
        f"{name} {how} since it was listed; run `dvc repro --force --single-item prepare@DATASET` for its dataset, "
        "then `dvc repro`"
    )


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    """Those of FORMATS that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _upright(image: Image.Image, *, name: str, as_stored: bool) -> Image.Image:
    """Upright 8-bit RGB. The shape is checked before anything is decoded, the mode before anything is scaled."""
    width, height = image.size
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise DataError(
            f"{name} has {width} x {height} pixels, more than {MAX_ASPECT} times as long as wide, which no model can "
            f"resize; {REMEDY}"
        )
    with _libtiff_silent(image.format):
        image.load()
    turn = None if as_stored else UPRIGHT.get(image.getexif().get(ORIENTATION, 1))
    deep = image.mode in ("I", "F") or image.mode.startswith("I;16")
    upright = _to_rgb(_scaled(image, name=name) if deep else image, as_stored=as_stored)
    return upright if turn is None else upright.transpose(turn)


_silencing = Lock()
"""Held while stderr leads nowhere: a second thread would take that for stderr, and put it back."""


@contextmanager
def _libtiff_silent(kind: str | None) -> Iterator[None]:
    """Within, what libtiff writes to stderr of a damaged file, past Python, is dropped: one line of ours names it."""
    if kind != "TIFF" or sys.stderr is None:
        yield
        return
    with _silencing:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nowhere)


def _silence_anew() -> None:
    """In a process that was forked while another thread held the lock: nobody here would give it back."""
    global _silencing
    _silencing = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_silence_anew)


def _scaled(image: Image.Image, *, name: str) -> Image.Image:
    """8-bit grey of a 16-bit one. The file's kind says what white is, never its brightest pixel.

    Raises:
        DataError: 32-bit integers and floats, whose range no file states.
    """
    if image.mode == "F" or (image.mode == "I" and image.format not in ("PNG", "PPM")):
        kind = "float" if image.mode == "F" else "32-bit integer"
        raise DataError(
            f"{name} holds {kind} pixels, and nothing says which value is white; save it with 8 or 16 bits, or set "
            "embed.on_bad_image: skip"
        )
    bits = getattr(image, "tag_v2", {}).get(258)  # a TIFF of 12 bits keeps its values in a 16-bit mode
    top = 4095 if bits == (12,) else 65535
    values = np.asarray(image).astype(np.uint32)
    return Image.fromarray((values * 255 // top).clip(0, 255).astype(np.uint8))


def _to_rgb(image: Image.Image, *, as_stored: bool) -> Image.Image:
    """RGB of an 8-bit image; transparency is laid over white."""
    if not as_stored and (image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info):
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


def _decode(
    paths: Sequence[str | Picture],
    digests: Sequence[str | None] | None,
    transform: Callable[[Image.Image], Tensor],
    batch_size: int,
    as_stored: bool,
    number: int,
) -> Decoded:
    """The preprocessed images of a batch, by its number; a bad file becomes its error."""
    pixels, errors = [], {}
    for i in range(number * batch_size, min((number + 1) * batch_size, len(paths))):
        try:
            image = load_rgb(paths[i], digest=digests[i] if digests else None, as_stored=as_stored)
            pixels.append(transform(image))
        except DataError as error:
            errors[i] = error
    return Decoded(torch.stack(pixels) if pixels else torch.empty(0, 3, 1, 1), errors)


@dataclass(frozen=True)
class Batch:
    """One batch: the pixels of its good images, which of the asked-for images they are, and the bad ones.

    Attributes:
        pixels: (B, 3, H, W) float32.
        positions: (B,) int64, positions in the list of paths.
        bad: error text by position.
    """

    pixels: Tensor
    positions: Tensor
    bad: dict[int, str]


def batches(
    paths: Sequence[str | Picture],
    *,
    transform: Callable[[Image.Image], Tensor],
    batch_size: int,
    digests: Sequence[str | None] | None = None,
    on_bad_image: str = "stop",
    workers: int | None = None,
    as_stored: bool = False,
    few: int = FEW_IMAGES,
) -> Iterator[Batch]:
    """Decode and preprocess images in order, ahead of their use.

    Args:
        paths: N image files, or pictures, which this process decodes.
        transform: RGB image -> (3, H, W) float32.
        batch_size: images in a batch, the last one may be smaller.
        digests: N content digests that the files had when they were listed, or None.
        on_bad_image: ``"stop"`` raises DataError at the first file that cannot be decoded; ``"skip"`` reports it in
            `Batch.bad` and goes on. A changed file is an error in any case.
        workers: decoding processes; None is `decoding_workers`.
        as_stored: see `load_rgb`.
        few: images that this process decodes itself, at most.

    Raises:
        ChangedError, DataError: as above.
        WsoupError: a decoding process was killed.
    """
    if workers is None:
        workers = decoding_workers()
    if len(paths) <= few or isinstance(paths[0], Picture):  # which its file, open here, may still be read for
        workers = 0
    n = -(-len(paths) // batch_size)
    decode = partial(_decode, paths, digests, transform, batch_size, as_stored)
    for number, (pixels, errors) in enumerate(ahead(decode, n=n, workers=workers)):
        for error in errors.values():
            if on_bad_image == "stop" or isinstance(error, ChangedError):
                raise error
        first = number * batch_size
        good = [i for i in range(first, min(first + batch_size, len(paths))) if i not in errors]
        yield Batch(pixels, torch.tensor(good, dtype=torch.int64), {i: str(error) for i, error in errors.items()})


def decoding_workers() -> int:
    """``$WSOUP_WORKERS``, else one per core but at most 16; no result depends on it."""
    text = os.environ.get("WSOUP_WORKERS", "")
    if not text:
        return min(16, os.cpu_count() or 1)
    if not text.isdecimal() or int(text) > 1024:
        raise ParamsError(f"WSOUP_WORKERS is {text[:40]!r}, expected a number of processes, 0 to 1024")
    return int(text)
