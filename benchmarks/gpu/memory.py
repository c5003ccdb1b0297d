"""Throughput by batch size, and the fallbacks when memory runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.training import CASES, Step
from wsoup.images.pixels import encode_pixels
from wsoup.search.candidates.pools import common_words
from wsoup.texts.encoder import PromptEncoder


def batches(bench: Bench) -> list[str]:
    """Throughput and peak memory by batch size, in bf16."""
    size = bench.size
    names, words = bench.class_names(size.classes), [f" {word}" for word in common_words(size.words)]
    prefixes = [f"a photo of a {name}," for name in names]
    lines = ["| bf16, in a batch | a second | peak GiB |", "|---|---:|---:|"]
    with bench.at("bf16") as encoder:
        for tokens in size.batch_tokens:
            bench.forget()
            fast = PromptEncoder(
                encoder.model, encoder.tokenizer, device=bench.device, dtype=encoder.dtype, batch_tokens=tokens
            )
            block = words[: max(1, (1 << 17) // len(prefixes))]
            taken = bench.seconds(partial(fast.encode_grid, prefixes, block))
            lines.append(f"| {tokens:,} tokens of texts | {len(block) * len(prefixes) / taken:,.0f} | {bench.peak()} |")
        for count in size.batch_images:
            bench.forget()
            pixels = bench.pixels(count)
            taken = bench.seconds(partial(encode_pixels, encoder, pixels))
            lines.append(f"| {count} images | {count / taken:,.0f} | {bench.peak()} |")
        for count in size.batch_train:
            bench.forget()
            step = Step(bench, encoder, CASES["last blocks + diversity"], count=count)
            taken = bench.seconds(step.our_way)
            lines.append(f"| {count} images of a training step | {count / taken:,.0f} | {bench.peak()} |")
            del step
    return lines


def running_out(bench: Bench) -> list[str]:
    """Texts, images and a training step with a fraction of the memory that they need."""
    lines = ["| with little memory | takes GiB | is given | slower by | differs by |", "|---|---:|---:|---:|---:|"]
    if bench.device.type != "cuda":
        return [*lines, "| only where there is a GPU | | | | |"]
    names = bench.class_names(bench.size.classes)
    prefixes, words = [f"a photo of a {name}," for name in names], [f" {word}" for word in common_words(32)]
    pixels = bench.pixels(bench.size.images)
    with bench.at("fp32") as encoder:
        fast = PromptEncoder(encoder.model, encoder.tokenizer, device=bench.device)
        for name, work in (
            ("texts", lambda: fast.encode_grid(prefixes, words)),
            ("images", lambda: encode_pixels(encoder, pixels)),
        ):
            expected = work()
            bench.forget()
            before = torch.cuda.memory_allocated(bench.device)
            usual = bench.seconds(work, repeats=1)
            taken = torch.cuda.max_memory_allocated(bench.device) - before
            with limited(bench, more=expected.nbytes + (taken - expected.nbytes) // 4):
                features, slow = work(), bench.seconds(work, repeats=1)
            distance = (features - expected).norm(dim=-1).max().item()
            lines.append(
                f"| {name} | {taken / 2**30:.2f} | {(taken - expected.nbytes) / 4 / 2**30:.2f} | {slow / usual:.1f} x "
                f"| {distance:.0e} |"
            )
    return [*lines, *_recomputing(bench)]


def _recomputing(bench: Bench) -> Iterator[str]:
    """The fallback of training: activations are recomputed."""
    with bench.at("fp32") as encoder:
        step = Step(bench, encoder, CASES["last blocks + diversity"], count=bench.size.train_images)
        bench.forget()
        before = torch.cuda.memory_allocated(bench.device)
        usual = bench.seconds(step.our_way)
        kept = torch.cuda.max_memory_allocated(bench.device) - before
        gradients = [p.grad.clone() for p in step.ours.trained().values()]  # type: ignore[union-attr]
        step.passes.save_memory()
        step.ours.zero_grad(set_to_none=True)
        bench.forget()
        slow = bench.seconds(step.our_way)
        saved = torch.cuda.max_memory_allocated(bench.device) - before
        pairs = zip(gradients, step.ours.trained().values(), strict=True)
        distance = max(float((a - b.grad).norm() / a.norm()) for a, b in pairs)  # type: ignore[operator]
    yield (
        f"| a training step, activations computed twice | {kept / 2**30:.2f} | {saved / 2**30:.2f} "
        f"| {slow / usual:.1f} x | {distance:.0e} |"
    )


@contextmanager
def limited(bench: Bench, *, more: int) -> Iterator[None]:
    """Limit the device to `more` bytes beyond those in use."""
    bench.forget()
    number = bench.device.index or 0
    whole = torch.cuda.get_device_properties(number).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(number) + more) / whole, number)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, number)
