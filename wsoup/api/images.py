"""Image features of a list of files by a model in memory; a long list goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wsoup.api.arguments import Files, Precision
from wsoup.api.model import as_module, at_work, device_of, image_encoder
from wsoup.core.arguments import Flag, Whole, at_the_door
from wsoup.core.errors import DataError, ModelError, WsoupError, one_line
from wsoup.disk.files import read_bytes
from wsoup.disk.shards import Owner
from wsoup.disk.store import fingerprint
from wsoup.images.features import IMAGES_PER_SHARD, Embedded, ImageList, embed_images, encode_files
from wsoup.runtime.progress import counting
from wsoup.texts.tried import answered, check_has, tried
from wsoup.towers.encoder import Encoder

LABEL = "encode images"


@at_the_door
def encode_images(
    paths: Files,
    *,
    model: Any,
    preprocess: Callable[[Image.Image], Tensor],
    batch_size: Whole = 64,
    precision: Precision = "fp32",
    on_bad_image: Literal["stop", "nan"] = "stop",
    progress: Flag = True,
) -> Tensor:
    """Features of image files, as the pipeline makes them: upright RGB, decoded ahead by processes of their own.

    A list of more than 2,048 files keeps what is finished under ``.cache/wsoup`` (``$WSOUP_CACHE``) until it is done:
    after an interruption the same call goes on there.

    Args:
        paths: N image files.
        model: with `encode_image`; it works in eval mode, where its weights are.
        preprocess: RGB image -> (3, H, W) float32, as `open_clip.create_model_and_transforms` gives it last.
        batch_size: images in one forward pass.
        precision: fp32, bf16, fp16 (autocast) or reference.
        on_bad_image: ``"stop"`` raises at the first file that cannot be decoded, ``"nan"`` makes its row NaN.
        progress: whether a bar is drawn.

    Returns:
        (N, D) float32 on the CPU, L2-normalised, in the order of `paths`.

    Raises:
        DataError: no files, one that cannot be decoded (it is named, with the reason), or none that can.
        ModelError: the model has no `encode_image`.
    """
    files = [os.fspath(path) for path in paths]
    how: Any = {"batch_size": batch_size, "on_bad_image": "stop" if on_bad_image == "stop" else "skip"}
    with at_work(model, bars=progress):
        pixels = _tried_pixels(preprocess)
        about = {"probe": fingerprint([[list(x.shape), x.double().flatten().tolist()] for x in pixels])}
        check_has(model, "encode_image")
        answered("model.encode_image", lambda: model.encode_image(pixels[0][None].to(device_of(model))), n=1)
        encoder = image_encoder(model, preprocess, preprocessing=about, precision=precision)
        if len(files) > IMAGES_PER_SHARD and next(as_module(model).parameters(), None) is not None:
            embedded = _resumable(encoder, files, how=how)
        else:
            with counting(label=LABEL, total=len(files), initial=0, unit="image"):
                embedded = encode_files({LABEL: encoder}, paths=files, digests=None, **how)
    if LABEL not in embedded.features:
        raise DataError(one_line(f"none of the {len(files)} images could be decoded; the first: {embedded.skipped[0]}"))
    features = np.full((len(files), embedded.features[LABEL].shape[1]), np.nan, dtype=np.float32)
    features[embedded.positions] = embedded.features[LABEL]
    return torch.from_numpy(features)


def _resumable(encoder: Encoder, files: list[str], *, how: dict[str, Any]) -> Embedded:
    """In shards, that belong to these files, this model and this preprocessing; removed when all are done."""
    digests = _digests(files)
    about = [encoder.id, encoder.preprocessing, digests, files, how]
    owner = Owner.of(Path(__file__), name=f"encode_images/{fingerprint(about)}")
    images = ImageList("", files, digests)
    (embedded,) = embed_images({LABEL: encoder}, lists=[images], label=LABEL, owner=owner, **how)
    shutil.rmtree(owner.folder, ignore_errors=True)
    return embedded


def _digests(files: list[str]) -> list[str | None]:
    """SHA-256 of each file in hex, None where it cannot be read; hashing and reading release the interpreter's lock."""

    def digest(path: str) -> str | None:
        try:
            return hashlib.sha256(read_bytes(path)).hexdigest()
        except WsoupError:
            return None

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(digest, files))


def _tried_pixels(preprocess: Callable[[Image.Image], Tensor]) -> list[Tensor]:
    """What a preprocessing makes of two images, (3, H, W) each: it tells one callable from another."""
    grey = np.arange(40 * 60, dtype=np.uint32).reshape(40, 60)
    pixels = np.stack([grey % 251, grey % 83 * 3, grey // 10], axis=2).astype(np.uint8)
    images = [Image.fromarray(values) for values in (pixels, pixels.transpose(1, 0, 2).copy())]
    made = [tried("preprocess", partial(preprocess, image)) for image in images]
    for tensor in made:
        if not isinstance(tensor, Tensor) or tensor.dim() != 3 or tensor.is_meta or tensor.is_complex():
            what = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ModelError(f"preprocess gives {what} for an image; expected a tensor (3, H, W)")
    return made
