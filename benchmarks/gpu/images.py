"""Throughput of the image tower, with pixels copied to the device, and of image files."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gpu.bench import Bench
from wsoup.cli.throughput import bench_images
from wsoup.core.flops import FlopCounter
from wsoup.images.decode import decoding_workers
from wsoup.towers.encoder import Encoder


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
    with FlopCounter() as counter:
        plain_images(bench.encoder, pixels[:1])
    torch.backends.mha.set_fastpath_enabled(fused)
    exact = None
    for precision in bench.precisions:
        with bench.at(precision) as encoder:
            features = encoder.encode_images(pixels)
            exact = features if exact is None else exact
            taken, peak = bench.seconds(lambda: encoder.encode_images(pixels)), bench.peak()
            plain = bench.seconds(lambda: plain_images(encoder, pixels))
            share = counter.flops * len(pixels) / taken / peaks[precision]
            lines.append(
                f"| {precision} | {len(pixels) / taken:,.0f} | {len(pixels) / plain:,.0f} | {plain / taken:.2f} x "
                f"| {share:.0%} | {peak} | {(features - exact).norm(dim=-1).max().item():.0e} |"
            )
    return lines


def files(bench: Bench) -> list[str]:
    """Throughput of JPEG files of 500 x 375 as in stage embed: other processes decode while the device encodes."""
    precision, count = "bf16", bench.size.files
    lines = ["| | files/s | the plain loop | ratio |", "|---|---:|---:|---:|"]
    result = bench_images(
        bench.size.model,
        count=count,
        device=bench.device,
        precision=precision,
        batch_size=bench.size.images,
    )
    (row,) = result["rows"]
    lines.append(
        f"| {precision}, {count} files, {decoding_workers()} processes | {row['images_per_s']:,.0f} "
        f"| {1 / row['plain']:,.0f} | {row['ratio']:.1f} x |"
    )
    return lines
