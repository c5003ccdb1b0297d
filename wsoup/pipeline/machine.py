"""How fast a run goes: on this machine, measured in a second or two, and on named devices, from their data sheets."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from timeit import Timer
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from wsoup.base.errors import DataError, ParamsError
from wsoup.core.packed import Linear
from wsoup.images.decode import decoding_workers, load_rgb
from wsoup.towers.encoder import Encoder, choose_device

EFFICIENCY = {"fp32": 0.56, "half": 0.14}
"""Share of a data sheet's peak that text and image towers reach: 56 to 61 % in fp32 and 13 to 15 % in bf16 on one H100
(reports/gpu.md), where memory limits half precision; assumed for other devices too."""
REACHED = 0.7
"""Share of the measured rate of products that towers reach: texts 70 to 80 %, images of ViTs 54 % on a CPU."""
CORES_PER_DEVICE = 16
"""CPU cores that decode images for one device, as in most servers."""


class Peak(NamedTuple):
    """Dense TFLOP/s of one device.

    Attributes:
        fp32: without tensor cores, as `encoder.precision` fp32 and reference compute.
        half: bf16 or fp16 with float32 sums, without sparsity.
        source: the data sheet.
    """

    fp32: float
    half: float
    source: str


DEVICES = {
    "h200": Peak(67, 989, "NVIDIA H200 data sheet, SXM"),
    "h100": Peak(67, 989, "NVIDIA H100 data sheet, SXM"),
    "a100": Peak(19.5, 312, "NVIDIA A100 data sheet"),
    "l40s": Peak(91.6, 362, "NVIDIA L40S data sheet"),
    "l4": Peak(30.3, 121, "NVIDIA L4 data sheet"),
    "a10": Peak(31.2, 125, "NVIDIA A10 data sheet"),
    "v100": Peak(15.7, 125, "NVIDIA V100 data sheet, SXM2; fp16"),
    "t4": Peak(8.1, 65, "NVIDIA T4 data sheet; fp16"),
}


@dataclass(frozen=True)
class Machine:
    """A machine to estimate hours for.

    Attributes:
        name: shown in tables.
        about: where its rates come from.
        flops_per_s: in matrix products, of all devices together.
        images_per_s: decoded and preprocessed, by all processes together.
        processes: number of decoding processes.
        overlaps: whether images are decoded while products are computed.
        memory, disk: bytes in all and bytes free; None: unknown.
    """

    name: str
    about: str
    flops_per_s: float
    images_per_s: float
    processes: int
    overlaps: bool = True
    memory: int | None = None
    disk: int | None = None

    def hours(self, *, flops: float, images: int) -> float:
        """Hours for that much work."""
        seconds = flops / self.flops_per_s, images / self.images_per_s
        return (max(seconds) if self.overlaps else sum(seconds)) / 3600


def here(encoder: Encoder, *, images: Sequence[str], device: str | None = None) -> Machine:
    """This machine, measured: products in the encoder's precision, and decoding of some of the images.

    Args:
        encoder: for its precision and preprocessing; it needs no weights.
        images: files to decode; if empty, drawn ones.
        device: as `choose_device` takes it.
    """
    torch_device = choose_device(device)
    flops = product_rate(torch_device, dtype=encoder.dtype or torch.float32)
    images_per_s = decode_rate(encoder, images)
    processes = max(1, min(decoding_workers(), os.cpu_count() or 1))
    decoded = "the run's own images" if images else "drawn images of 500 x 375"
    gpu = torch_device.type == "cuda"
    return Machine(
        name=f"here ({torch.cuda.get_device_name(torch_device) if gpu else torch_device.type})",
        about=f"measured: {REACHED:.0%} of {flops / 1e9:,.0f} GFLOP/s, and {images_per_s:,.0f} images/s a process, "
        f"{processes} processes ({decoded})",
        flops_per_s=REACHED * flops,
        images_per_s=images_per_s * processes,
        processes=processes,
        overlaps=torch_device.type != "cpu",
        memory=memory_here(),
        disk=shutil.disk_usage(".").free,
    )


def devices(name: str, *, count: int, precision: str, images_per_s: float) -> Machine:
    """A number of devices of one kind, from their data sheet.

    Args:
        name: in `DEVICES`.
        count: how many.
        precision: of section ``encoder``.
        images_per_s: images that one core of this machine decodes.

    Raises:
        ParamsError: an unknown device, or a count below 1.
    """
    if name not in DEVICES or count < 1:
        raise ParamsError(f"--device {name} --count {count}: expected one or more of {', '.join(DEVICES)}")
    peak, cores = DEVICES[name], count * CORES_PER_DEVICE
    half = precision in ("bf16", "fp16")
    rate, share = (peak.half, EFFICIENCY["half"]) if half else (peak.fp32, EFFICIENCY["fp32"])
    return Machine(
        name=f"{count} x {name}",
        about=f"{share:.0%} of {rate:g} TFLOP/s each ({peak.source}), {CORES_PER_DEVICE} cores each to decode",
        flops_per_s=count * share * rate * 1e12,
        images_per_s=cores * images_per_s,
        processes=cores,
    )


def product_rate(device: torch.device, *, dtype: torch.dtype) -> float:
    """FLOP/s of (1024, 512) x (512, 2048), a product of a ViT-B text tower; with more rows on a GPU."""
    rows = 1024 if device.type == "cpu" else 65536
    x, product = torch.randn(rows, 512).to(device, dtype), Linear(torch.randn(2048, 512).to(device), None, dtype=dtype)

    def multiply() -> None:
        product(x)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return 2.0 * rows * 512 * 2048 * _per_second(multiply)


def decode_rate(encoder: Encoder, images: Sequence[str]) -> float:
    """Images a second that one process decodes and preprocesses."""
    with tempfile.TemporaryDirectory() as folder:
        files = cycle(images or drawn_images(Path(folder), count=1))

        def decode() -> None:
            with contextlib.suppress(DataError):  # the stage reports bad images
                encoder.preprocess(load_rgb(next(files)))

        return _per_second(decode)


def memory_here() -> int | None:
    """Bytes of memory; None if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _per_second(work: Callable[[], object]) -> float:
    """How often some work can be done in a second, after a first time that may load what it needs."""
    work()
    times, seconds = Timer(work).autorange()
    return times / seconds


def drawn_images(folder: Path, *, count: int) -> list[str]:
    """Write JPEG files of 500 x 375 pixels, a usual size."""
    rng, files = np.random.default_rng(0), [str(folder / f"{i:04d}.jpg") for i in range(count)]
    for file in files:
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return files
