"""How fast this machine is, measured in a few seconds, and how fast named devices are, from their data sheets."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wsoup.core.errors import DataError, ParamsError
from wsoup.core.linear import Linear
from wsoup.images.decode import decoding_workers, load_rgb
from wsoup.towers.encoder import Encoder, choose_device

EFFICIENCY = 0.35
"""Share of a data sheet's peak that text and image towers reach: an assumption; small matrices, norms, attention and
copies take the rest. `wsoup bench text` and `wsoup bench images` measure it on a device that is there."""
REACHED = 0.7
"""Share of the products' own rate, measured here, that towers reach: texts 70 to 80 %, images of ViTs 54 % on a CPU."""
CORES_PER_DEVICE = 16
"""CPU cores that decode images for one device, as servers have them."""
MEASURED_SECONDS = 2.0


@dataclass(frozen=True)
class Peak:
    """Dense TFLOP/s of one device.

    Attributes:
        fp32: without tensor cores, which is what `encoder.precision` fp32 and reference use.
        half: bf16 or fp16 with float32 sums, without sparsity.
        memory: GiB.
        source: where these stand.
    """

    fp32: float
    half: float
    memory: int
    source: str


DEVICES = {
    "h200": Peak(67, 989, 141, "NVIDIA H200 data sheet, SXM"),
    "h100": Peak(67, 989, 80, "NVIDIA H100 data sheet, SXM"),
    "a100": Peak(19.5, 312, 80, "NVIDIA A100 data sheet"),
    "l40s": Peak(91.6, 362, 48, "NVIDIA L40S data sheet"),
    "l4": Peak(30.3, 121, 24, "NVIDIA L4 data sheet"),
    "a10": Peak(31.2, 125, 24, "NVIDIA A10 data sheet"),
    "v100": Peak(15.7, 125, 32, "NVIDIA V100 data sheet, SXM2; fp16"),
    "t4": Peak(8.1, 65, 16, "NVIDIA T4 data sheet; fp16"),
}


@dataclass(frozen=True)
class Machine:
    """What a plan is told for.

    Attributes:
        name: as it is shown.
        flops_per_s: in matrix products, of all devices together.
        images_per_s: decoded and preprocessed.
        apart: whether decoding and products go on at the same time.
        memory, disk: bytes that are there; None: unknown.
        about: how these numbers come about.
    """

    name: str
    flops_per_s: float
    images_per_s: float
    apart: bool
    memory: int | None
    disk: int | None
    about: str

    def hours(self, *, flops: float, images: int) -> float:
        """Of work that keeps it busy."""
        seconds = flops / self.flops_per_s, images / self.images_per_s
        return (max(seconds) if self.apart else sum(seconds)) / 3600


def here(encoder: Encoder, *, images: Sequence[str], device: str | None = None) -> Machine:
    """This machine, measured: products of the encoder's precision, and decoding of some of the images.

    Args:
        encoder: for its precision, width and preprocessing; it needs no weights.
        images: files to decode; drawn ones where there are none.
        device: as `choose_device` takes it.
    """
    where = choose_device(device)
    flops, images_per_s = product_rate(where, dtype=encoder.dtype or torch.float32), decode_rate(encoder, images)
    workers = max(1, min(decoding_workers(), os.cpu_count() or 1))
    of = "the run's own images" if images else "drawn images of 500 x 375"
    decoded = f"{images_per_s:,.0f} images/s a process, {workers} processes ({of})"
    return Machine(
        name=f"here ({torch.cuda.get_device_name(where) if where.type == 'cuda' else where.type})",
        flops_per_s=REACHED * flops,
        images_per_s=images_per_s * workers,
        apart=where.type != "cpu",
        memory=memory_here(),
        disk=shutil.disk_usage(".").free,
        about=f"measured: {REACHED:.0%} of {flops / 1e9:,.0f} GFLOP/s, and {decoded}",
    )


def named(name: str, *, count: int, precision: str, images_per_s: float) -> Machine:
    """Devices by name, from their data sheets.

    Args:
        name: in `DEVICES`.
        count: how many.
        precision: of section ``encoder``.
        images_per_s: that one core of this machine decodes.

    Raises:
        ParamsError: no such device, or none of them.
    """
    if name not in DEVICES or count < 1:
        raise ParamsError(f"--device {name} --count {count}: expected one or more of {', '.join(DEVICES)}")
    peak = DEVICES[name]
    rate = peak.half if precision in ("bf16", "fp16") else peak.fp32
    about = f"{EFFICIENCY:.0%} of {rate:g} TFLOP/s each ({peak.source}), {CORES_PER_DEVICE} cores each to decode"
    return Machine(
        name=f"{count} x {name}",
        flops_per_s=count * EFFICIENCY * rate * 1e12,
        images_per_s=count * CORES_PER_DEVICE * images_per_s,
        apart=True,
        memory=None,
        disk=None,
        about=about,
    )


def product_rate(device: torch.device, *, dtype: torch.dtype) -> float:
    """FLOP/s of (1024, 512) x (512, 2048), the size of a ViT-B text tower's, for a moment; larger ones on a GPU."""
    rows = 1024 if device.type == "cpu" else 65536
    x, product = torch.randn(rows, 512).to(device, dtype), Linear(torch.randn(2048, 512).to(device), None, dtype=dtype)
    return _rate(lambda: _synchronised(product(x), device), each=2.0 * rows * 512 * 2048)


def decode_rate(encoder: Encoder, images: Sequence[str]) -> float:
    """Images a second that one process decodes and preprocesses."""
    with tempfile.TemporaryDirectory() as folder:
        files = list(images) or _drawn(Path(folder))
        turn = iter(files * 10_000)

        def decode() -> None:
            with contextlib.suppress(DataError):  # what a bad image means is for the stage to say
                encoder.preprocess(load_rgb(next(turn)))

        return _rate(decode, each=1.0)


def memory_here() -> int | None:
    """Bytes of memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _rate(work: Callable[[], object], *, each: float) -> float:
    work()
    began, done = time.perf_counter(), 0
    while (seconds := time.perf_counter() - began) < MEASURED_SECONDS:
        work()
        done += 1
    return max(1, done) * each / seconds


def _synchronised(found: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return found


def _drawn(folder: Path) -> list[str]:
    coarse = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    file = folder / "drawn.jpg"
    Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return [str(file)]
