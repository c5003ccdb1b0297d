"""Few-shot training images in batches of distinct classes, each batch a function of (seed, iteration) alone.

That makes a killed training go on with the batch that it was at, and lets threads decode ahead. A batch holds distinct
classes with one image each, as in section 4 of arXiv 2311.13612 and the authors' sampler (Chris210634/word_soups,
source/samplers.py). Rounds of whole batches go through the classes in a new order each, and each class through its
images before any comes again. With fewer classes than the batch size a batch is all classes. In theirs a round goes on
in the batch in which the one before it ends, which may then hold a class twice: `wrapped_positions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wsoup.core.disk import remote, store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.draws import named_generator
from wsoup.core.errors import ChangedError, DataError, MissingError
from wsoup.finetune.params import AugmentParams
from wsoup.images.decode import decoding_workers, load_rgb
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import Encoder

PIXELS_IN_MEMORY = 1 << 28
"""Decoded images stay in memory while all of them together have no more pixels than this (768 MiB)."""
RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
TRIES = 10
"""Crops drawn before the middle of the image is taken, as torchvision's RandomResizedCrop does."""
NARROWEST, WIDEST = 3 / 4, 4 / 3
"""Aspects of a crop, width / height."""


@dataclass(frozen=True)
class TrainingSet:
    """What is trained on.

    Attributes:
        paths: N image files.
        digests: N content digests that the files had when they were listed.
        labels: (N,) int64.
        class_names: C names in label order.
        template: of the source dataset.
        soup: M member texts, bare.
        skipped: what is wrong with each image of the split that is left out.
    """

    paths: Sequence[str]
    digests: Sequence[str]
    labels: np.ndarray
    class_names: Sequence[str]
    template: str
    soup: Sequence[str]
    skipped: Sequence[str] = ()


def read_training_set(
    artifacts: Artifacts, *, source: str, soup: str, seed: int, encoder: Mapping[str, Any], on_bad_image: str
) -> TrainingSet:
    """The few-shot images of one seed and the texts of its soup.

    Args:
        artifacts: where they lie.
        source: the source's name.
        soup: a name under ``soups``, or class_name.
        seed: whose split and soup.
        encoder: the id that the soup must be of.
        on_bad_image: ``"skip"`` leaves out images that cannot be decoded; ``"stop"`` looks at none of them yet.

    Raises:
        MissingError: the images' folder, the manifest, the split or the soup is not there.
        MismatchError: the soup is of another encoder.
        ChangedError, DataError: see `decodable`.
    """
    manifest = store.require(artifacts.manifest(source), made_by=f"prepare@{source}")
    about = store.table_attributes(manifest)
    split = store.read_table(artifacts.split(source, seed=seed), columns=["path", "label", "row"])
    root = about["root"]
    texts = Soup.load(artifacts.soup(soup, seed=seed), encoder=encoder).texts
    if not (remote.is_remote(root) or Path(root).exists()):
        raise MissingError(f"datasets.{source}.root: folder {root} does not exist")
    paths = [remote.joined(root, path) for path in split["path"].to_pylist()]
    digests = store.read_table(manifest, columns=["digest"])["digest"].take(split["row"]).to_pylist()
    labels = np.asarray(split["label"].to_numpy(), dtype=np.int64)
    good, skipped = np.arange(len(paths)), dict[int, str]()
    if on_bad_image == "skip":
        good, skipped = decodable(paths, labels=labels, digests=digests, class_names=about["class_names"])
    return TrainingSet(
        paths=[paths[i] for i in good],
        digests=[digests[i] for i in good],
        labels=labels[good],
        class_names=about["class_names"],
        template=about["template"],
        soup=texts,
        skipped=list(skipped.values()),
    )


def batch_positions(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """Which images are in a batch: (B,) positions, B = min(batch size, number of classes), all of distinct classes."""
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    size = min(batch_size, len(by_class))
    turn, step = divmod(iteration, len(by_class) // size)

    def image_of(c: int) -> int:
        """Whichever of a class's images is due."""
        cycle, place = divmod(turn, len(by_class[c]))
        order = named_generator(seed, "images", c, cycle).permutation(len(by_class[c]))
        return int(by_class[c][order[place]])

    order = named_generator(seed, "classes", turn).permutation(len(by_class))[step * size : (step + 1) * size]
    return np.array([image_of(int(c)) for c in order])


def wrapped_positions(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """The same as the authors' sampler has it (source/samplers.py, FastRandomSampler): rounds without a break.

    The rounds of N // B batches make an epoch, in which each class has another image in each round.
    """
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    size = min(batch_size, len(labels))
    epoch, batch = divmod(iteration, len(labels) // size)
    rounds, places = np.divmod(np.arange(batch * size, (batch + 1) * size), len(by_class))
    orders = {r: named_generator(seed, "rounds", epoch, r).permutation(len(by_class)) for r in np.unique(rounds)}

    def image_of(c: int, turn: int) -> int:
        order = named_generator(seed, "images of a round", c, epoch).permutation(len(by_class[c]))
        return int(by_class[c][order[turn % len(order)]])

    return np.array([image_of(int(orders[r][place]), int(r)) for r, place in zip(rounds, places, strict=True)])


def decodable(
    paths: Sequence[str], *, labels: np.ndarray, digests: Sequence[str] | None, class_names: Sequence[str]
) -> tuple[np.ndarray, dict[int, str]]:
    """Find out once, before training, which images can be decoded; asked where bad images are to be skipped.

    Args:
        paths: N files.
        labels: (N,) int64.
        digests: N content digests that the files had when they were listed, or None.
        class_names: C names in label order, for the message.

    Returns:
        Positions of the good ones, and the error text of each other one by its position.

    Raises:
        ChangedError: a file is not the one that was listed any more.
        DataError: a class is left without images.
    """

    def fault(path: str, digest: str | None) -> str | None:
        try:
            load_rgb(path, digest=digest)
        except ChangedError:
            raise
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(max_workers=max(1, decoding_workers())) as pool:
        texts = pool.map(fault, paths, digests if digests is not None else [None] * len(paths))
    faults = {i: text for i, text in enumerate(texts) if text is not None}
    good = np.delete(np.arange(len(paths)), list(faults))
    for label in np.setdiff1d(labels, labels[good])[:1]:
        text = next(text for i, text in faults.items() if labels[i] == label)
        raise DataError(f"none of the training images of class {class_names[label]!r} can be decoded: {text}")
    return good, faults


class FewShotImages:
    """The training images of one seed.

    Args:
        paths: N files.
        labels: (N,) int64.
        encoder: its preprocessing applies.
        augment: crop and flip, or None for the plain preprocessing.
        digests: N content digests that the files had when they were listed, or None.
        threads: that decode and crop ahead; None reads ``$WSOUP_WORKERS``, else one per core. No result depends on it.
        room: pixels of decoded images that stay in memory. No result depends on it.

    Raises:
        ChangedError: while batches are made, a file is not the one that was listed any more.
        DataError: no images, or the preprocessing is of an unknown kind.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        labels: np.ndarray,
        encoder: Encoder,
        augment: AugmentParams | None,
        digests: Sequence[str] | None = None,
        threads: int | None = None,
        room: int = PIXELS_IN_MEMORY,
    ) -> None:
        if not len(paths):
            raise DataError("the few-shot split holds no images; run `dvc repro fewshot`")
        self.paths, self.labels, self.encoder, self.augment = list(paths), np.asarray(labels), encoder, augment
        self.digests = list(digests) if digests is not None else [None] * len(self.paths)
        size = encoder.preprocessing["size"]
        self.size = size if isinstance(size, int) else max(size)
        self.filter = RESAMPLING[encoder.preprocessing["interpolation"] or "bicubic"]
        self.mean = torch.tensor(encoder.preprocessing["mean"]).view(3, 1, 1)
        self.std = torch.tensor(encoder.preprocessing["std"]).view(3, 1, 1)
        self._kept: dict[int, Image.Image] = {}
        self._room = room
        self._pool = ThreadPoolExecutor(max_workers=threads or max(1, decoding_workers()))

    def batch(self, positions: np.ndarray, *, seed: int, iteration: int) -> tuple[Tensor, Tensor]:
        """Pixels (B, 3, H, W) float32 and labels (B,) of the images at `positions`, augmented for this iteration."""
        labels = torch.from_numpy(self.labels[positions])
        if self.augment is None:
            return torch.stack(
                list(self._pool.map(lambda i: self.encoder.preprocess(self._load(i)), positions))
            ), labels
        draws = named_generator(seed, "augment", iteration).random((len(positions), 4 * TRIES + 1))
        crops = self._pool.map(self._crop, positions, draws)
        pixels = torch.from_numpy(np.stack(list(crops))).permute(0, 3, 1, 2).float() / 255
        return (pixels - self.mean) / self.std, labels

    def _load(self, position: int) -> Image.Image:
        """One image, decoded; kept in memory while there is room."""
        position = int(position)
        if position in self._kept:
            return self._kept[position]
        image = load_rgb(self.paths[position], digest=self.digests[position], as_stored=self.encoder.as_stored)
        if image.width * image.height <= self._room:
            self._room -= image.width * image.height
            self._kept[position] = image
        return image

    def _crop(self, position: int, draws: np.ndarray) -> np.ndarray:
        """A random crop resized to the model's size, flipped or not: (H, W, 3) uint8; draws are uniform in [0, 1)."""
        assert self.augment is not None
        image = self._load(position)
        box = crop_box(image.width, image.height, draws[:-1].reshape(TRIES, 4), share=self.augment.crop)
        image = image.crop(box).resize((self.size, self.size), self.filter)
        pixels = np.asarray(image)
        return pixels[:, ::-1] if self.augment.flip and draws[-1] < 0.5 else pixels


def crop_box(width: int, height: int, draws: np.ndarray, *, share: tuple[float, float]) -> tuple[int, int, int, int]:
    """The first of several random crops that fits: share of the area uniform, aspect 3/4 to 4/3 log-uniform.

    Args:
        width, height: of the image, pixels.
        draws: (tries, 4) uniform in [0, 1): share, aspect, left, top.
        share: smallest and largest share of the area.

    Returns:
        (left, top, right, bottom); where none fits, the largest in the middle whose aspect is allowed.
    """
    for area, aspect, left, top in draws:
        pixels = width * height * (share[0] + area * (share[1] - share[0]))
        ratio = np.exp(np.log(NARROWEST) + aspect * np.log(WIDEST / NARROWEST))
        w, h = round(float(np.sqrt(pixels * ratio))), round(float(np.sqrt(pixels / ratio)))
        if 0 < w <= width and 0 < h <= height:
            x, y = int(left * (width - w + 1)), int(top * (height - h + 1))
            return x, y, x + w, y + h
    w, h = min(width, round(height * WIDEST)), min(height, round(width / NARROWEST))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h
