"""`wsoup.encode_images`: image features of files with a model in memory, resumed after an interruption if asked to."""

import hashlib
import os
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
from wsoup.base.arguments import Flag, Label, Whole, at_the_door
from wsoup.base.errors import ChangedError, DataError, ModelError, WsoupError, one_line
from wsoup.disk.members import read_bytes
from wsoup.disk.shards import Owner
from wsoup.disk.store import fingerprint, make_cache_dir
from wsoup.images.decode import BadImageError, ChangedImageError, Picture
from wsoup.images.features import IMAGES_PER_SHARD, Embedded, ImageList, embed_images, encode_files
from wsoup.runtime.progress import counting
from wsoup.texts.models import check_has, matrix_from, output_of
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
    """Features of image files, as in the pipeline: upright RGB, decoded in other processes while the model works.

    Args:
        paths: N image files, Pillow images, or both.
        model: with `encode_image`; it is used in eval mode, on its own device.
        preprocess: RGB image -> (3, H, W) float32, the last value of `open_clip.create_model_and_transforms`.
        batch_size: images in one forward pass.
        precision: fp32, bf16, fp16 (autocast) or reference.
        on_bad_image: ``"stop"`` raises at the first file that cannot be decoded, ``"nan"`` makes its row NaN.
        resume: a name for the current version of the model, such as ``"my-model-v2"``: with more than 2,048 files,
            finished shards are then kept under ``.cache/wsoup`` (``$WSOUP_CACHE``), and after an interruption the same
            call continues there; Pillow images are encoded again. Changes of the model's code are not noticed: choose
            another name after one. None keeps nothing.
        progress: whether to show a progress bar.

    Returns:
        (N, D) float32 on the CPU, L2-normalised, in the order of `paths`.

    Raises:
        DataError: no files, a file that cannot be decoded (with its name and the reason), or none that can.
        ModelError: the model has no `encode_image`.
    """
    pictures = {i: path for i, path in enumerate(paths) if isinstance(path, Image.Image)}
    positions = [i for i in range(len(paths)) if i not in pictures]
    files = [str(paths[i]) for i in positions]
    options: Any = {"batch_size": batch_size, "on_bad_image": "stop" if on_bad_image == "stop" else "skip"}
    with at_work(model, bars=progress), _own_next_steps():
        check_has(model, "encode_image")  # first, since model and preprocess may be swapped
        probes = _probe_pixels(preprocess)
        preprocessing = {"probe": fingerprint([[list(x.shape), x.double().flatten().tolist()] for x in probes])}
        matrix_from("model.encode_image", lambda: model.encode_image(probes[0][None].to(device_of(model))), n=1)
        encoder = in_memory(model, preprocess=preprocess, preprocessing=preprocessing, precision=precision)
        embedded = None
        if resume is not None and len(files) > IMAGES_PER_SHARD:
            embedded = _resumable(encoder, files, options=options, name=resume)
        with counting(label=LABEL, total=len(paths), initial=0 if embedded is None else len(files), unit="image"):
            if embedded is None:
                embedded = encode_files({LABEL: encoder}, paths=files, digests=None, **options)
            named = [Picture(image, f"paths[{i}]") for i, image in pictures.items()]
            opened = encode_files({LABEL: encoder}, paths=named, digests=None, **options)
    parts = [part.features[LABEL] for part in (embedded, opened) if LABEL in part.features]
    if not parts:
        first, *_ = [*embedded.skipped.values(), *opened.skipped.values()]
        raise DataError(one_line(f"none of the {len(paths)} images could be decoded; the first: {first}"))
    features = np.full((len(paths), parts[0].shape[1]), np.nan, dtype=np.float32)
    rows = [*(positions[i] for i in embedded.positions), *([*pictures][i] for i in opened.positions)]
    features[rows] = np.concatenate(parts)
    return torch.from_numpy(features)


@contextmanager
def _own_next_steps() -> Iterator[None]:
    """Give errors of images the next step of a caller of `encode_images`, instead of the pipeline's."""
    try:
        yield
    except ChangedImageError as error:
        raise ChangedError(f"{error.args[0]}; call encode_images again") from None
    except BadImageError as error:
        raise DataError(f'{error.args[0]}; replace or remove it, or pass on_bad_image="nan"') from None


def _resumable(encoder: Encoder, files: list[str], *, options: dict[str, Any], name: str) -> Embedded | None:
    """Encode in shards, which belong to these files, this model and this preprocessing; removed at the end.

    None if another process is encoding the same: the first to finish would remove shards that the other needs.
    """
    digests = _digests(files)
    key = fingerprint([name, encoder.id, encoder.preprocessing, digests, files, options])
    lock = FileLock(make_cache_dir() / "locks" / f"encode_images-{key}.lock", timeout=0)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        with lock:
            owner = Owner.of(Path(__file__), name=f"encode_images/{key}")
            lists = [ImageList("", files, digests)]
            (embedded,) = embed_images(
                {LABEL: encoder}, lists=lists, label=LABEL, owner=owner, images_per_shard=IMAGES_PER_SHARD, **options
            )
            owner.used.clear()  # nothing is kept: another list or a corrected model shall not find it
            owner.finished()
            return embedded
    except Timeout:
        print(f"{LABEL}: another process is encoding this list, so this one cannot be resumed", file=sys.stderr)
        return None


def _digests(files: list[str]) -> list[str | None]:
    """SHA-256 of each file in hex, None if unreadable; in threads, since reading and hashing release the GIL."""

    def digest(path: str) -> str | None:
        try:
            return hashlib.sha256(read_bytes(path)).hexdigest()
        except WsoupError:
            return None

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(digest, files))


def _probe_pixels(preprocess: Callable[[Image.Image], Tensor]) -> list[Tensor]:
    """Two drawn images, preprocessed, (3, H, W) each: they tell one preprocessing from another."""
    grey = np.arange(40 * 60, dtype=np.uint32).reshape(40, 60)
    pixels = np.stack([grey % 251, grey % 83 * 3, grey // 10], axis=2).astype(np.uint8)
    images = [Image.fromarray(values) for values in (pixels, pixels.transpose(1, 0, 2).copy())]
    outputs = [output_of("preprocess", partial(preprocess, image)) for image in images]
    for output in outputs:
        if not isinstance(output, Tensor) or output.dim() != 3 or output.is_meta or output.is_complex():
            kind = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ModelError(f"preprocess gives {kind} for an image; expected a tensor (3, H, W)")
    return outputs
