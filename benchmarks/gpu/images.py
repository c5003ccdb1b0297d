"""Throughput of the image tower, with pixels on the device, and of image files, as stage `embed` encodes them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.files import DRAWN, draw_files, times
from benchmarks.gpu.bench import Bench
from benchmarks.timing import Clock
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels
from wsoup.images.workers import decoding_workers
from wsoup.towers.encoder import Encoder


@torch.no_grad()
def plain_images(encoder: Encoder, pixels: Tensor) -> Tensor:
    with encoder.autocast():
        return F.normalize(encoder.model.encode_image(pixels).float(), dim=-1)  # type: ignore[operator]


def images(bench: Bench, *, peaks: dict[str, float]) -> list[str]:
    """Throughput of the image tower, with pixels on the device."""
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


def files(bench: Bench) -> list[str]:
    """Files a second as stage `embed` encodes them, in shards with one pool, and how long the first batch takes."""
    precision = "bf16"
    lines = ["| | the first batch after | files/s | after the first batch | the plain loop | ratio |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder, bench.at(precision) as encoder:
        drawn = [str(file) for file in draw_files(Path(folder), count=min(max(bench.size.files), DRAWN))]
        sample, clock = drawn[: bench.size.images], Clock(bench.device)
        pixels = torch.stack([encoder.preprocess(load_rgb(path)) for path in sample])
        plain_images(encoder, pixels.to(encoder.device))
        plain = clock.lap() / len(sample)
        for count in bench.size.files:
            paths = [drawn[i % len(drawn)] for i in range(count)]
            first, whole = times(encoder, paths, batch_size=bench.size.images)
            at_once = encoder.images_at_once(bench.size.images)
            later = f"{(count - at_once) / (whole - first):,.0f}" if count > at_once else ""
            lines.append(
                f"| {precision}, {count:,} files, {decoding_workers()} processes | {first:.2f} s "
                f"| {count / whole:,.0f} | {later} | {1 / plain:,.0f} | {plain * count / whole:.1f} x |"
            )
    return lines
