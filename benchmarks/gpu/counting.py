"""Counting the correct images of candidates: all scores in float32, screened in bf16, and with likelihoods."""

from __future__ import annotations

from benchmarks.counting import bench_counting
from benchmarks.gpu.bench import Bench


def counting(bench: Bench) -> list[str]:
    """Time of a candidate by each way, for easy and hard images: lines of a table."""
    size = bench.size
    lines = [
        "| a candidate | correct | counted again | answers that differ | counts in float32 | screened | ratio "
        "| with likelihoods |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with bench.at("fp32"):
        result = bench_counting(
            bench.device,
            images=size.count_images,
            classes=size.classes,
            size=512,
            candidates=size.count_candidates,
            pairs=3,
        )
    for row in result["rows"]:
        times = [f"{1000 * row[key]:.2f} ms" for key in ("float32_s", "screened_s", "with_likelihood_s")]
        lines.append(
            f"| {size.count_images:,} images, spread {row['spread']} | {row['accuracy']:.0%} | {row['open']:.1%} "
            f"| {row['differ']} | {times[0]} | {times[1]} | {row['ratio']:.1f} x | {times[2]} |"
        )
    return lines
