"""Image features of a list of files by a model in memory; a long list goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock, Timeout
from PIL import Image
from torch import Tensor

from wsoup.api.arguments import Photos, Precision
from wsoup.api.model import at_work, device_of, in_memory
from wsoup.core.arguments import Flag, Label, Whole, at_the_door
from wsoup.core.disk.files import read_bytes
from wsoup.core.disk.shards import Owner
from wsoup.core.disk.store import cache_dir, fingerprint
from wsoup.core.errors import ChangedError, DataError, ModelError, WsoupError, one_line
from wsoup.images.decode import Picture
from wsoup.images.features import IMAGES_PER_SHARD, Embedded, ImageList, embed_images, encode_files
from wsoup.runtime.progress import counting
from wsoup.texts.tried import answered, check_has, tried
from wsoup.towers.encoder import Encoder

LABEL = "encode images"


@at_the_door
def encode_images(
    paths: Photos,
    *,
    model: Any,
    preprocess: Callable[[Image.Image], Tensor],
    batch_size: Whole = 64,
    precision: Precision = "fp32",
    on_bad_image: Literal["stop", "nan"] = "stop",
    resume: Label | None = None,
    progress: Flag = True,
) -> Tensor:
    """Features of image files, as the pipeline makes them: upright RGB, decoded ahead by processes of their own.

    Args:
        paths: N image files, images of Pillow, or both.
        model: with `encode_image`; it works in eval mode, where its weights are.
        preprocess: RGB image -> (3, H, W) float32, as `open_clip.create_model_and_transforms` gives it last.
        batch_size: images in one forward pass.
        precision: fp32, bf16, fp16 (autocast) or reference.
        on_bad_image: ``"stop"`` raises at the first file that cannot be decoded, ``"nan"`` makes its row NaN.
        resume: a name for the model as it is now, such as ``"my-model-v2"``: a list of more than 2,048 files then keeps
            what is finished under ``.cache/wsoup`` (``$WSOUP_CACHE``) until it is done, and the same call goes on there
            after an interruption; images of Pillow are encoded anew. Nobody but you knows whether the model's code is
            still the same: give another name when it is not. None keeps nothing.
        progress: whether a bar is drawn.

    Returns:
        (N, D) float32 on the CPU, L2-normalised, in the order of `paths`.

    Raises:
        DataError: no files, one that cannot be decoded (it is named, with the reason), or none that can.
        ModelError: the model has no `encode_image`.
    """
    pictures = {i: path for i, path in enumerate(paths) if isinstance(path, Image.Image)}
    places = [i for i in range(len(paths)) if i not in pictures]
    files = [str(paths[i]) for i in places]
    how: Any = {"batch_size": batch_size, "on_bad_image": "stop" if on_bad_image == "stop" else "skip"}
    with at_work(model, bars=progress), _its_own_door():
        pixels = _tried_pixels(preprocess)
        about = {"probe": fingerprint([[list(x.shape), x.double().flatten().tolist()] for x in pixels])}
        check_has(model, "encode_image")
        answered("model.encode_image", lambda: model.encode_image(pixels[0][None].to(device_of(model))), n=1)
        encoder = in_memory(model, preprocess=preprocess, preprocessing=about, precision=precision)
        embedded = None
        if resume is not None and len(files) > IMAGES_PER_SHARD:
            embedded = _resumable(encoder, files, how=how, called=resume)
        with counting(label=LABEL, total=len(paths), initial=0 if embedded is None else len(files), unit="image"):
            if embedded is None:
                embedded = encode_files({LABEL: encoder}, paths=files, digests=None, **how)
            opened = [Picture(image, f"paths[{i}]") for i, image in pictures.items()]
            shown = encode_files({LABEL: encoder}, paths=opened, digests=None, **how)
        bad = [embedded.skipped[i] for i in sorted(embedded.skipped)] + list(shown.skipped.values())
        made = [part.features[LABEL] for part in (embedded, shown) if LABEL in part.features]
        if not made:
            raise DataError(one_line(f"none of the {len(paths)} images could be decoded; the first: {bad[0]}"))
    features = np.full((len(paths), made[0].shape[1]), np.nan, dtype=np.float32)
    rows = [*(places[i] for i in embedded.positions), *([*pictures][i] for i in shown.positions)]
    features[rows] = np.concatenate(made)
    return torch.from_numpy(features)


@contextmanager
def _its_own_door() -> Iterator[None]:
    """Errors of images name what a caller of `encode_images` can do, not a key of params.yaml."""
    try:
        yield
    except ChangedError as error:
        raise ChangedError(f"{str(error).partition(';')[0]}; call encode_images again") from None
    except DataError as error:
        raise DataError(str(error).replace("set embed.on_bad_image: skip", 'pass on_bad_image="nan"')) from None


def _resumable(encoder: Encoder, files: list[str], *, how: dict[str, Any], called: str) -> Embedded | None:
    """In shards, that belong to these files, this model and this preprocessing; removed when all are done.

    None where another process is at the same: the first to end would remove what the other still needs.
    """
    digests = _digests(files)
    about = fingerprint([called, encoder.id, encoder.preprocessing, digests, files, how])
    lock = FileLock(cache_dir() / "locks" / f"encode_images-{about}.lock", timeout=0)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        with lock:
            owner = Owner.of(Path(__file__), name=f"encode_images/{about}")
            images = ImageList("", files, digests)
            (embedded,) = embed_images(
                {LABEL: encoder}, lists=[images], label=LABEL, owner=owner, images_per_shard=IMAGES_PER_SHARD, **how
            )
            shutil.rmtree(owner.folder, ignore_errors=True)
            return embedded
    except Timeout:
        print(f"{LABEL}: another process encodes this list; this one keeps nothing for a next start", file=sys.stderr)
        return None


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
