"""Time image files to features as stage `embed` makes them, and how busy it keeps the cores.

    python -m benchmarks.files --files 4096

JPEG files of 500 x 375, as large as most photos of the paper's datasets, and an image tower that costs about a tenth of
decoding: what a GPU's does on its host, on any CPU. `busy` is the share of the time in which at least as many processes
as there are cores are computing, or would if the cores were free; so a neighbour on the machine does not change it.
`useful` is the share of the core seconds that one process alone needs to decode and to encode; the rest is what several
processes cost. Both together are the share of what the machine can do. `handing_over_ms` is what an image costs on its
way between two processes: by the clock, and core milliseconds of both.
"""

from __future__ import annotations

import os
import resource
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import open_clip
import torch
import typer
from PIL import Image
from torch import Tensor, nn

from benchmarks.timing import Clock, Result, about, show
from wsoup.images.batches import batches
from wsoup.images.embed import BATCHES_PER_SHARD
from wsoup.images.features import encode_files
from wsoup.images.one_pool import lasting
from wsoup.images.pixels import encode_pixels, in_two_steps, side_that_is_enough
from wsoup.images.workers import Batch, Decoders, Images, decoding_workers
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.threads import cores
from wsoup.towers.encoder import Encoder

DRAWN = 256
"""Files that are drawn at most; further ones are the same again."""
SIZE = 224
BATCH = 64


class Small(nn.Module):
    """An image tower of one layer, the mean of whose patches is the feature."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, kernel_size=32, stride=32)

    def encode_image(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 8)."""
        return self.patches(pixels).mean(dim=(2, 3))


class Times(NamedTuple):
    """Seconds until the features of the first batch are there, and of all files."""

    first: float
    whole: float


def draw_files(folder: Path, *, count: int) -> list[Path]:
    """JPEG files of 500 x 375, as large as most photos of the paper's datasets."""
    drawn = [folder / f"{i}.jpg" for i in range(count)]
    noise = torch.randint(256, (count, 12, 16, 3), generator=torch.Generator().manual_seed(0)).byte().numpy()
    for file, coarse in zip(drawn, noise, strict=True):
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return drawn


def times(encoder: Encoder, paths: list[str], *, batch_size: int) -> Times:
    """Encode files in shards with one pool, from before its processes are started."""
    at_once = encoder.images_at_once(batch_size)
    size = at_once * BATCHES_PER_SHARD
    lists = [Images(paths[:at_once], None)]
    lists += [Images(paths[start : start + size], None) for start in range(at_once, len(paths), size)]
    clock = Clock(encoder.device)
    laps = []
    with lasting(lists, n=len(paths)):
        for images in lists:
            encode_files(
                {"model": encoder},
                paths=images.paths,
                digests=None,
                batch_size=batch_size,
                on_bad_image="stop",
                fill=True,
            )
            laps.append(clock.lap())
    return Times(laps[0], sum(laps))


class Busy:
    """Looks every hundredth of a second how many processes of this one compute or wait for a core."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.seconds = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Busy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def share(self, *, least: int) -> float:
        return sum(count >= least for count in self.counts) / len(self.counts)

    def _look(self) -> None:
        own = threading.get_native_id()
        while not self._ended.wait(0.01):
            here = Path("/proc/self/task")
            of_this = any(_runs(task / "stat") for task in here.iterdir() if int(task.name) != own)
            children = (here / str(os.getpid()) / "children").read_text().split()
            self.counts.append(of_this + sum(_runs(Path(f"/proc/{child}/stat")) for child in children))
        self.seconds = time.thread_time()


def _runs(stat: Path) -> bool:
    try:
        _, _, after = stat.read_text().rpartition(") ")
    except OSError:  # it has just ended
        return False
    return after[0] in "RD"


def _ready(images: Images) -> Batch:
    """Pixels that cost nothing."""
    n = len(images.paths)
    return Batch(torch.zeros(n, 3, SIZE, SIZE, dtype=torch.uint8), list(range(n)), {})


def handing_over(count: int) -> Result:
    """Milliseconds of an image, through a pipe and through shared memory, in turn: medians of four pairs."""
    taken: dict[str, list[tuple[float, float]]] = {"pipe": [], "shared": []}
    for _ in range(5):
        for way, times_of in taken.items():
            decoders = Decoders(_ready, batch_size=BATCH, workers=2)
            if way == "pipe" and decoders.places is not None:
                decoders.places.close()
                decoders.places = None
            clock, began = Clock(torch.device("cpu")), core_seconds()
            for _ in decoders.decoded(Images([""] * count, None)):
                pass
            seconds = clock.lap()
            decoders.close()
            times_of.append((1000 * seconds / count, 1000 * (core_seconds() - began) / count))
    # The first pair warms up.
    return {
        way: {"clock": median(clock for clock, _ in rows[1:]), "core": median(core for _, core in rows[1:])}
        for way, rows in taken.items()
    }


def bench_files(count: int) -> Result:
    """One result: encoded as a stage does, beside decoding alone in one process."""
    encoder = Encoder(
        model=Small().eval(),
        tokenizer=lambda texts: torch.zeros(len(texts), 1),
        preprocess=open_clip.image_transform(SIZE, is_train=False),
        id={"model": "one layer"},
        preprocessing={},
        device=torch.device("cpu"),
        dtype=None,
    )
    side = side_that_is_enough(encoder)
    with tempfile.TemporaryDirectory() as folder:
        drawn = [str(path) for path in draw_files(Path(folder), count=min(count, DRAWN))]
        paths = [drawn[i % len(drawn)] for i in range(count)]
        to_pixels, to_floats = in_two_steps(encoder.preprocess)
        began = core_seconds()
        decoded = list(batches(drawn, transform=to_pixels, batch_size=BATCH, workers=0, side=side))
        decoding = (core_seconds() - began) / len(drawn)
        encode_pixels(encoder, to_floats(decoded[0].pixels))  # the first one prepares the model
        began = core_seconds()
        for batch in decoded:
            encode_pixels(encoder, to_floats(batch.pixels))
        encoding = (core_seconds() - began) / len(drawn)
        clock = Clock(encoder.device)
        for _ in batches(paths, transform=to_pixels, batch_size=BATCH, side=side):
            pass
        alone = clock.lap()
        began = core_seconds()
        with Busy() as busy:
            taken = times(encoder, paths, batch_size=BATCH)
        # Without what looking takes.
        whole = (core_seconds() - began - busy.seconds) / count
    share = decoding / (decoding + encoding)
    return about(encoder) | {
        "files": count,
        "processes": decoding_workers(),
        "first_batch_s": taken.first,
        "files_per_s": count / taken.whole,
        "decoding_alone_files_per_s": count / alone,
        "of_what_decoding_leaves": alone / taken.whole / share,
        "core_ms_per_file": {"decoding": 1000 * decoding, "encoding": 1000 * encoding, "together": 1000 * whole},
        "useful": (decoding + encoding) / whole,
        "busy": busy.share(least=cores()),
        "handing_over_ms": handing_over(count),
    }


def core_seconds() -> float:
    """User and system time of this process and of those that it started and that have ended."""
    return sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main(files: Annotated[int, typer.Option(help="Number of image files.")] = 4096) -> None:
    """Print the result as JSON."""
    keep_memory()
    show(bench_files(files))


if __name__ == "__main__":
    typer.run(main)
