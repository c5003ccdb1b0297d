"""A model with random weights on a device, sizes of the measurements, precisions, timing and peak memory."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from benchmarks.timing import peak_bytes, random_encoder
from wsoup.towers.encoder import Encoder
from wsoup.towers.models import imagenet_class_names

PRECISIONS: dict[str, torch.dtype | None] = {
    "fp32": None,
    "tf32": None,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
TEMPLATE = "a photo of a {}."


@dataclass(frozen=True)
class Size:
    """Sizes of the measurements.

    Attributes:
        model: of open_clip.
        classes: of ImageNet's names.
        words: words timed, from which the time of a whole pool is extrapolated.
        plain: texts, and images, for timing the plain way.
        count_images, count_candidates: images that each of these candidates is counted on.
        images: in a batch.
        train_classes, train_images: of a training step.
        product: rows and columns of the matrices that measure the device's peak rate.
        files: numbers of image files that are decoded and encoded.
        load_batches: batches of the training loader.
        batch_tokens, batch_images, batch_train: batch sizes to compare.
    """

    model: str
    classes: int
    words: int
    plain: int
    count_images: int
    count_candidates: int
    images: int
    train_classes: int
    train_images: int
    product: int
    files: tuple[int, ...]
    load_batches: int
    batch_tokens: tuple[int, ...]
    batch_images: tuple[int, ...]
    batch_train: tuple[int, ...]


FULL = Size(
    model="ViT-B-16",
    classes=1000,
    words=393,
    plain=512,
    count_images=48_000,
    count_candidates=64,
    images=256,
    train_classes=1000,
    train_images=64,
    product=8192,
    files=(4096, 16384),
    load_batches=40,
    batch_tokens=tuple(1 << power for power in range(13, 19)),
    batch_images=(32, 64, 128, 256, 512, 1024),
    batch_train=(16, 64, 256),
)
TOY = Size(
    model="toy-clip",
    classes=8,
    words=12,
    plain=8,
    count_images=200,
    count_candidates=3,
    images=4,
    train_classes=8,
    train_images=4,
    product=128,
    files=(8,),
    load_batches=2,
    batch_tokens=(64, 1024),
    batch_images=(4,),
    batch_train=(4,),
)


@dataclass(frozen=True)
class Bench:
    """A model on a device, and the sizes of the measurements."""

    size: Size
    device: torch.device
    encoder: Encoder

    @property
    def precisions(self) -> list[str]:
        return list(PRECISIONS) if self.device.type == "cuda" else ["fp32", "bf16"]

    @contextmanager
    def at(self, precision: str) -> Iterator[Encoder]:
        """Use this precision within, and reset peak memory."""
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        self.forget()
        try:
            yield replace(self.encoder, dtype=PRECISIONS[precision])
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]

    def forget(self) -> None:
        """Release cached memory of the device and reset its peak."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> str:
        """Peak memory in GiB since `forget`; on a CPU since the process started."""
        return f"{peak_bytes(self.device) / 2**30:.1f}"

    def seconds(self, work: Callable[[], Any], *, repeats: int = 3) -> float:
        """Median time of some work after a warm-up."""
        taken = []
        for _ in range(repeats + 1):
            began = time.perf_counter()
            work()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            taken.append(time.perf_counter() - began)
        return statistics.median(taken[1:])

    def pixels(self, count: int) -> torch.Tensor:
        """Random pixels (count, 3, H, W), float32 on the device."""
        side = self.encoder.model.visual.image_size  # type: ignore[union-attr]
        height, width = side if isinstance(side, tuple) else (side, side)
        return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(0)).to(self.device)

    def class_names(self, count: int) -> list[str]:
        names = imagenet_class_names()
        return [names[i * len(names) // count] for i in range(count)]


def check_places(device: torch.device, **tensors: torch.Tensor) -> None:
    """Raise ValueError for a tensor that does not lie on the device of the model that it is handed to.

    On a CPU everything lies there, so what is timed says where its tensors should be instead of failing on a GPU alone.
    """
    for name, tensor in tensors.items():
        if tensor.device.type != device.type:
            raise ValueError(f"{name} lies on {tensor.device}, the model on {device}; send it there before it is timed")


def bench_on(device: torch.device, size: Size) -> Bench:
    """A model with random weights on the device."""
    return Bench(size, device, random_encoder(size.model, device=device))


def rates_of_products(bench: Bench) -> dict[str, float]:
    """Operations per second of one large matrix product in each precision."""
    n, rates = bench.size.product, {}
    for precision in bench.precisions:
        with bench.at(precision):
            a, b = (torch.randn(n, n, device=bench.device, dtype=PRECISIONS[precision]) for _ in range(2))
            rates[precision] = 2 * n**3 / bench.seconds(partial(torch.matmul, a, b))
    return rates
