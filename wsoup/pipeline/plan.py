"""`wsoup plan`: which stages would run, and about how long each takes, here or on a named device.

DVC says what would run. Texts and images come from short formulae, and hours are right to a factor of two: a search
that accepts much takes longer than others, and a tower that is neither a ViT nor a ResNet counts as a ViT-B-16.
"""

import math
import os
import shutil
from collections.abc import Callable
from functools import partial
from timeit import Timer
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.base.errors import ParamsError, WsoupError
from wsoup.check.whole import Params, load_params
from wsoup.datasets import manifest
from wsoup.datasets.paper import paper_dataset
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.pipeline.inputs import PARAMS
from wsoup.pipeline.status import reasons
from wsoup.search.grow.kind import Growth
from wsoup.search.rank import pools
from wsoup.towers import config as models

REACHED = 0.7
"""Share of the measured rate of products that towers reach, measured on CPUs."""
DEVICES = {
    "h200": (67, 989),
    "h100": (67, 989),
    "a100": (19.5, 312),
    "l40s": (91.6, 362),
    "l4": (30.3, 121),
    "t4": (8.1, 65),
}
"""Dense TFLOP/s in fp32 (without tensor cores) and in half precision, by the makers' data sheets."""
REACHED_OF_SHEET = (0.56, 0.14)
"""Share of these that towers reach: measured on one H100."""
CORES_PER_DEVICE = 16
IMAGE_BYTES, DECODED_BYTES_PER_S = 110_000, 25e6
"""Size of a photograph whose file is not at hand, and what one core decodes and resizes."""
START = 5 / 3600
"""Hours that any stage takes."""
TOKENS = {"words": 2, "descriptors": 4}
"""Tokens of a text that it does not share with others, by pool."""
TEMPLATES = 80
LISTED_BYTES = 400
"""Path, digest and labels of one image in memory."""
T = TypeVar("T")


class Dataset(NamedTuple):
    """Classes and images of one dataset; n_train counts the few-shot images of all seeds."""

    classes: int
    n_test: int
    n_train: int
    image_bytes: float = IMAGE_BYTES


class Need(NamedTuple):
    """What a stage needs: texts with each of some classes, images to decode, work in FLOP, and memory in bytes."""

    texts: int = 0
    classes: int = 0
    images: int = 0
    flops: float = 0
    image_bytes: float = 0
    memory: float = 0


class Planned(NamedTuple):
    """One stage: why it would run (None: it is cached), what it needs, and hours."""

    why: str | None
    need: Need
    hours: float


def plan(*, device: str | None = None) -> tuple[dict[str, Planned], list[str]]:
    """Estimate a run of the params.yaml here, without weights: its stages in their order, and notes.

    Args:
        device: one of `DEVICES` that it would run on, with 16 cores; None: this machine.

    Raises:
        ParamsError: params.yaml or the device is not valid.
        MissingError, MismatchError: there is no dvc.yaml, or DVC cannot read it.
    """
    if device is not None and device not in DEVICES:
        raise ParamsError(f"--device {device}: expected one of {', '.join(DEVICES)}")
    needs = Needs(load_params(PARAMS))
    if device is None:
        rate = flops_per_second()
        cores = os.cpu_count() or 1
    else:
        rate = sheet_rate(device, half_precision=needs.params.encoder.precision in ("bf16", "fp16"))
        cores = CORES_PER_DEVICE
    why = reasons()
    stages = {}
    for stage, reason in why.items():
        need = needs.of(stage)
        stages[stage] = Planned(reason, need, hours(need, rate=rate, cores=cores))
    notes = [f"{what}: {problem}" for what, problem in needs.unknown.items()]
    return stages, notes + too_large(stages, memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def hours(need: Need, *, rate: float, cores: int) -> float:
    """Hours for a stage at so many FLOP a second, and with so many cores for decoding."""
    decoding = need.image_bytes / DECODED_BYTES_PER_S / cores
    return START + (need.flops / rate + decoding) / 3600


class Needs:
    """Needs of the stages of one params.yaml; `unknown` says what could not be counted, and why."""

    def __init__(self, params: Params) -> None:
        self.params, self.n_seeds = params, len(params.seeds)
        self.unknown: dict[str, str] = {}
        self.datasets = {
            name: self._known("not counted: images", partial(self._dataset, name), Dataset(0, 0, 0))
            for name in params.datasets
        }
        self.source = self.datasets[params.source]
        self.classes = sum(dataset.classes for dataset in self.datasets.values())
        self.n_test = sum(dataset.n_test for dataset in self.datasets.values())
        descriptors = partial(pools.descriptors, params.candidates.descriptors.paths)
        self.pools = {
            "words": params.candidates.words.count,
            "descriptors": len(self._known("not counted: descriptors", descriptors, list[str]())),
        }
        model = self._known("counted as ViT-B-16", partial(models.known_config, params.encoder), None)
        text, vision = (model.text_cfg, model.vision_cfg) if model else (models.Text(), models.Vision())
        self.size = model.embed_dim if model else 512
        self.token_flops, self.image_flops = text.layers * _block(text), _image_flops(vision)

    def _known(self, otherwise: str, read: Callable[[], T], default: T) -> T:
        """What a file says, or the default and a note, the first of its kind."""
        try:
            return read()
        except WsoupError as error:
            self.unknown.setdefault(otherwise, str(error))
            return default

    def _dataset(self, name: str) -> Dataset:
        """By the last run's manifest, the paper's table or the files themselves."""
        params, path = self.params.datasets[name], Artifacts().manifest(name)
        if path.exists():
            table, names = store.read_table(path), store.table_attributes(path)["class_names"]
            n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
            return Dataset(len(names), n_test, table.num_rows - n_test, pc.mean(table["size"]).as_py())
        if known := paper_dataset(params.layout, dataset=name):
            classes, n_test = known.n_classes, known.n_test
        else:
            listing = manifest.read_listing(name, params=params)
            classes, n_test = len(listing.class_names), len(listing.split(params.test_split).paths)
        return Dataset(classes, n_test, classes * self.params.fewshot.shots * self.n_seeds * (params.role == "source"))

    def of(self, stage: str) -> Need:
        """The needs of one stage; those of a stage without a model count for nothing."""
        kind, _, item = stage.partition("@")
        wanted = self.params.evaluate
        match kind:
            case "embed":
                return self._embedded(self.datasets[item], self.datasets[item].n_test)
            case "embed_train":
                return self._embedded(self.source, self.source.n_train)
            case "score":
                return self._with_source(self.pools[item], pool=item, images=self.source.n_train)
            case "soup":
                return self._searched(item)
            case "finetune":
                return self._trained(item)
            case "evaluate":
                return self._encoded(self._members(wanted.baseline_m) + TEMPLATES * wanted.ensemble)
            case "evaluate_tuned":
                images = self.n_seeds * self.n_test * self.params.finetune.methods[item].tune.tunes_images
                need = self._encoded(self._members(wanted.tuned_baseline_m))
                return need._replace(images=images, flops=need.flops + images * self.image_flops)
            case "survey":
                return self._encoded(wanted.survey.descriptors or self.pools["descriptors"])
        return Need()

    def _embedded(self, dataset: Dataset, n: int) -> Need:
        memory, read = n * (LISTED_BYTES + 8 * self.size), n * dataset.image_bytes
        return Need(images=n, flops=n * self.image_flops, image_bytes=read, memory=memory)

    def _with_source(self, texts: int, *, pool: str, images: int) -> Need:
        """Texts with the source's classes, each counted on some images."""
        flops = texts * self.source.classes * (self.token_flops * TOKENS[pool] + 2 * images * self.size)
        return Need(texts, self.source.classes, flops=flops, memory=200 * texts * self.n_seeds)

    def _searched(self, name: str) -> Need:
        soup = self.params.soups[name]
        tried = self.pools[soup.pool] if soup.walks else soup.m * (soup.patience if isinstance(soup, Growth) else 1)
        return self._with_source(self.n_seeds * tried, pool=soup.pool, images=self.source.n_train // self.n_seeds)

    def _trained(self, name: str) -> Need:
        """Forward and back through both towers is three times forward."""
        method, shared = self.params.finetune.methods[name], self.params.finetune
        steps = (method.iterations or shared.iterations) * self.n_seeds
        images = steps * min(method.batch_size or shared.batch_size, self.source.classes)
        texts = steps * self.source.classes * 10 * self.token_flops
        flops = 3 * texts + images * self.image_flops * (3 if method.tune.tunes_images else 1)
        return Need(steps, self.source.classes, images, flops, images * self.source.image_bytes)

    def _members(self, baseline: int) -> int:
        """Texts of all seeds' rows, at every offset: members of soups, and of rows that nobody selected."""
        selected = sum(soup.m for soup in self.params.soups.values())
        # Random descriptors, Waffle's texts, and random chains, which are about as many.
        unselected = 3 * baseline
        return self.n_seeds * (selected + unselected) * len(self.params.evaluate.offsets)

    def _encoded(self, texts: int) -> Need:
        """Texts with the classes of every dataset, compared with all test images."""
        flops = texts * (self.classes * self.token_flops * TOKENS["descriptors"] + 2 * self.n_test * self.size)
        return Need(texts, self.classes, flops=flops, memory=4 * self.size * (self.n_test + 2 * self.classes))


def _block(tower: models.Vision | models.Text) -> float:
    """FLOPs of a token in one block: attention's four products and the two of the perceptron."""
    return 2 * (4 + 2 * tower.mlp_ratio) * tower.width**2


def _image_flops(vision: models.Vision) -> float:
    """Of one image: a ViT's patches through its blocks; a ResNet by comparison with RN50."""
    size = vision.image_size if isinstance(vision.image_size, int) else max(vision.image_size)
    if isinstance(vision.layers, list):
        return 12e9 * sum(vision.layers) / 16 * (vision.width / 64) ** 2 * (size / 224) ** 2
    return vision.layers * _block(vision) * ((size // (vision.patch_size or 16)) ** 2 + 1)


def sheet_rate(device: str, *, half_precision: bool) -> float:
    """FLOP a second that towers reach on a named device, by its maker's data sheet."""
    fp32, half = DEVICES[device]
    reached_of_fp32, reached_of_half = REACHED_OF_SHEET
    if half_precision:
        return half * reached_of_half * 1e12
    return fp32 * reached_of_fp32 * 1e12


def flops_per_second() -> float:
    """This machine's rate, by a product measured for a moment."""
    shape = (1024, 512, 2048)
    a, b = np.ones(shape[:2], np.float32), np.ones(shape[1:], np.float32)
    product: Callable[[], object] = partial(np.matmul, a, b)
    if shutil.which("nvidia-smi"):
        import torch  # takes two seconds

        shape = (65536, 512, 2048)
        x, y = torch.ones(shape[:2], device="cuda"), torch.ones(shape[1:], device="cuda")
        product = lambda: (x @ y)[-1, -1].item()  # noqa: E731
    times, seconds = Timer(product).autorange()
    return REACHED * 2.0 * math.prod(shape) * times / seconds


def too_large(stages: dict[str, Planned], *, memory: float) -> list[str]:
    """A sentence for each stage that would run and whose arrays do not fit into so many bytes."""
    return [
        f"too large: {stage} needs {planned.need.memory / 2**30:,.0f} GiB of memory, this machine has "
        f"{memory / 2**30:,.0f}: use fewer images in one dataset, or a smaller pool"
        for stage, planned in stages.items()
        if planned.why and planned.need.memory > memory
    ]


def show(stages: dict[str, Planned], notes: list[str], *, console: Console) -> None:
    """Print a line for each stage that runs and the sum of hours, then what is cached, and notes."""
    table = Table(box=None, pad_edge=False)
    for column in ("stage", "why", "texts x classes", "images", "hours"):
        table.add_column(column, overflow="fold", justify="left" if column in ("stage", "why") else "right")
    running = {stage: planned for stage, planned in stages.items() if planned.why}
    for stage, (why, need, time) in running.items():
        texts = f"{need.texts:,} x {need.classes:,}" if need.texts and need.classes else ""
        table.add_row(escape(stage), escape(str(why)), texts, f"{need.images:,}", f"{time:,.2f}")
    table.add_row("all", "", "", "", f"{sum(planned.hours for planned in running.values()):,.2f}", style="bold")
    console.print(table, highlight=False)
    cached = ", ".join(stage for stage in stages if stage not in running)
    for text in (f"cached: {cached or 'nothing'}", *notes):
        console.print(text, highlight=False, markup=False)
