"""Image files to features, beside the loop that decodes a batch and then encodes it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from torchvision.transforms import v2

from wsoup.bench.common import Clock, Result, about, cosine_distance, page_faults
from wsoup.images.decode import batches, load_rgb
from wsoup.towers import encoder as towers


def bench_images(
    name: str,
    *,
    count: int,
    device: torch.device,
    dtype: torch.dtype | None = None,
    batch_size: int = 64,
    workers: int | None = None,
) -> Result:
    """Time decoding, preprocessing and encoding of `count` drawn JPEG files of 500 x 375, beside the plain loop.

    The plain loop decodes a batch and then encodes it, in one process; ours decodes the next batch meanwhile, in
    worker processes once there are enough images to pay for starting them.
    """
    found, tokenizer = towers.random_model(name, seed=0)
    model = found.to(device)
    transform = _preprocess(model)
    encoder = towers.Encoder(model, tokenizer, transform, transform, {}, {}, device, dtype)
    with tempfile.TemporaryDirectory() as folder:
        files = _drawn_images(Path(folder), count=min(count, 256))
        paths = [files[i % len(files)] for i in range(count)]
        clock, faults = Clock(device), page_faults()
        at_once = encoder.images_at_once(batch_size)
        ahead = batches(paths, transform=transform, batch_size=at_once, on_bad_image="stop", workers=workers)
        ours = torch.cat([encoder.encode_images(batch.pixels) for batch in ahead])
        ours_s, faults = clock.lap(), page_faults() - faults
        sample = paths[: max(1, min(count, 2 * batch_size))]
        parts = []
        for start in range(0, len(sample), batch_size):
            pixels = torch.stack([transform(load_rgb(path)) for path in sample[start : start + batch_size]])
            parts.append(_encode_images(model, pixels, device=device, dtype=dtype))
        plain_s = clock.lap() / len(sample)
        flops = _image_flops(model, pixels[:1].to(device))
    row = {
        "images": count,
        "ours": ours_s / count,
        "plain": plain_s,
        "ratio": plain_s * count / ours_s,
        "images_per_s": count / ours_s,
        "page_faults_per_image": faults / count,
        "flops_per_s": flops * count / ours_s,
        "cosine_distance": cosine_distance(ours[: len(sample)], torch.cat(parts)),
    }
    return {"bench": "images", **about(name, classes=0, device=device, encoder=None), "rows": [row]}


def _preprocess(model: nn.Module) -> Callable[[Image.Image], Tensor]:
    size = model.visual.image_size  # type: ignore[union-attr]
    side = int(size[0] if isinstance(size, tuple) else size)  # type: ignore[arg-type]
    return v2.Compose(
        [v2.Resize(side, interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(side), _to_tensor]
    )  # fmt: skip


def _to_tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1


def _drawn_images(folder: Path, *, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    files = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        files.append(str(folder / f"{i:04d}.jpg"))
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(files[-1], quality=90)
    return files


@torch.no_grad()
def _encode_images(model: nn.Module, pixels: Tensor, *, device: torch.device, dtype: torch.dtype | None) -> Tensor:
    with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
        features = model.encode_image(pixels.to(device, non_blocking=True))  # type: ignore[operator]
    return F.normalize(features.float(), dim=-1)


@torch.no_grad()
def _image_flops(model: nn.Module, pixels: Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        model.encode_image(pixels)  # type: ignore[operator]
    return counter.get_total_flops()
