"""Throughput of the image tower, with pixels copied to the device, and of image files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu.bench import Bench
from benchmarks.timing import Clock
from wsoup.images.batches import batches
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels
from wsoup.images.workers import decoding_workers
from wsoup.towers.encoder import Encoder

FILES = 256
"""Files drawn at most; further ones are the same again."""


@torch.no_grad()
def plain_images(encoder: Encoder, pixels: Tensor) -> Tensor:
    with encoder.autocast():
        return F.normalize(encoder.model.encode_image(pixels.to(encoder.device)).float(), dim=-1)  # type: ignore[operator]


def images(bench: Bench, *, peaks: dict[str, float]) -> list[str]:
    """Throughput of the image tower, with pixels copied to the device."""
    lines = [
        "| images | images/s | plain | ratio | share of peak | peak GiB | distance |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    pixels = bench.pixels(bench.size.images)
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its products are not counted
    with FlopCounterMode(display=False) as counter:
        plain_images(bench.encoder, pixels[:1])
    torch.backends.mha.set_fastpath_enabled(fused)
    exact = None
    for precision in bench.precisions:
        with bench.at(precision) as encoder:
            features = encode_pixels(encoder, pixels)
            exact = features if exact is None else exact
            taken, peak = bench.seconds(lambda: encode_pixels(encoder, pixels)), bench.peak()
            plain = bench.seconds(lambda: plain_images(encoder, pixels))
            share = counter.get_total_flops() * len(pixels) / taken / peaks[precision]
            lines.append(
                f"| {precision} | {len(pixels) / taken:,.0f} | {len(pixels) / plain:,.0f} | {plain / taken:.2f} x "
                f"| {share:.0%} | {peak} | {(features - exact).norm(dim=-1).max().item():.0e} |"
            )
    return lines


def draw_files(folder: Path, *, count: int) -> list[Path]:
    """JPEG files of 500 x 375, as large as most photos of the paper's datasets."""
    drawn = [folder / f"{i}.jpg" for i in range(count)]
    noise = torch.randint(256, (count, 12, 16, 3), generator=torch.Generator().manual_seed(0)).byte().numpy()
    for file, coarse in zip(drawn, noise, strict=True):
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return drawn


def files(bench: Bench) -> list[str]:
    """Throughput of JPEG files of 500 x 375 as in stage embed: other processes decode while the device encodes."""
    precision, count = "bf16", bench.size.files
    lines = ["| | files/s | the plain loop | ratio |", "|---|---:|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder, bench.at(precision) as encoder:
        drawn = draw_files(Path(folder), count=min(count, FILES))
        paths = [str(drawn[i % len(drawn)]) for i in range(count)]
        at_once, clock = encoder.images_at_once(bench.size.images), Clock(bench.device)
        for batch in batches(paths, transform=encoder.preprocess, batch_size=at_once, on_bad_image="stop"):
            encode_pixels(encoder, batch.pixels)
        ours, sample = clock.lap() / count, paths[: bench.size.images]
        plain_images(encoder, torch.stack([encoder.preprocess(load_rgb(path)) for path in sample]))
        plain = clock.lap() / len(sample)
    lines.append(
        f"| {precision}, {count} files, {decoding_workers()} processes | {1 / ours:,.0f} | {1 / plain:,.0f} "
        f"| {plain / ours:.1f} x |"
    )
    return lines
