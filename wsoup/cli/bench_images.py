"""Image files to features, beside the loop that decodes a batch and then encodes it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.cli.bench_common import Clock, Result, about, cosine_distance, page_faults, random_encoder
from wsoup.core.flops import FlopCounter
from wsoup.images.decode import batches, load_rgb
from wsoup.pipeline.machine import drawn_images
from wsoup.towers.encoder import Encoder

FILES = 256
"""Files at most; more images are these again."""


def bench_images(
    name: str, *, count: int, device: torch.device, precision: str = "fp32", batch_size: int = 64
) -> Result:
    """Time decoding, preprocessing and encoding of `count` drawn JPEG files of 500 x 375, beside the plain loop.

    The plain loop decodes a batch and then encodes it, in one process; ours decodes the next batch meanwhile, in
    worker processes once there are enough images to pay for starting them.
    """
    encoder = random_encoder(name, device=device, precision=precision)
    with tempfile.TemporaryDirectory() as folder:
        files = drawn_images(Path(folder), count=min(count, FILES))
        paths = [files[i % len(files)] for i in range(count)]
        clock, faults = Clock(device), page_faults()
        at_once = encoder.images_at_once(batch_size)
        decoded = batches(paths, transform=encoder.preprocess, batch_size=at_once, on_bad_image="stop")
        ours = torch.cat([encoder.encode_images(batch.pixels) for batch in decoded])
        ours_s, faults = clock.lap(), page_faults() - faults
        sample = paths[: max(1, min(count, 2 * batch_size))]
        starts = range(0, len(sample), batch_size)
        plain = torch.cat([_encode_plainly(encoder, sample[start : start + batch_size]) for start in starts])
        plain_s = clock.lap() / len(sample)
        with FlopCounter() as counter:
            _encode_plainly(encoder, sample[:1])
    row = {
        "images": count,
        "ours": ours_s / count,
        "plain": plain_s,
        "ratio": plain_s * count / ours_s,
        "images_per_s": count / ours_s,
        "page_faults_per_image": round(faults / count),
        "flops_per_s": counter.flops * count / ours_s,
        "cosine_distance": cosine_distance(ours[: len(sample)], plain),
    }
    return {"bench": "images", **about(encoder), "rows": [row]}


@torch.no_grad()
def _encode_plainly(encoder: Encoder, paths: Sequence[str]) -> Tensor:
    """Decode, then encode with the model as open_clip built it."""
    pixels = torch.stack([encoder.preprocess(load_rgb(path)) for path in paths])
    with encoder.autocast():
        features = encoder.model.encode_image(pixels.to(encoder.device))  # type: ignore[operator]
    return F.normalize(features.float(), dim=-1)
