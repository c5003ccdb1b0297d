"""Few-shot training images, in batches that are a function of (seed, iteration) alone.

So a killed training resumes with the same batches, and threads can decode ahead. As in section 4 of arXiv 2311.13612
and the authors' sampler (Chris210634/word_soups, source/samplers.py), a batch holds one image each of distinct classes;
with fewer classes than the batch size, of all of them. Each round of whole batches visits the classes in a new order,
and each class cycles through its images. In the authors' sampler the next round begins within the last batch of a
round, which may then hold a class twice: see `wrapped_positions`.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError
from wsoup.core.draws import named_generator
from wsoup.disk import store
from wsoup.disk.features import read_features
from wsoup.disk.files import Artifacts, read_text
from wsoup.finetune.params import AugmentParams, MethodParams
from wsoup.images.decode import decoding_workers, load_rgb
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import Encoder

PIXELS_IN_MEMORY = 1 << 28
"""Decoded images are kept in memory up to this many pixels in total (768 MiB)."""
TRIES = 10
"""Random crops to try before falling back to the centre, as torchvision's RandomResizedCrop does."""
NARROWEST, WIDEST = 3 / 4, 4 / 3
"""Aspect ratio of a crop, width / height."""


@dataclass(frozen=True)
class TrainingSet:
    """Images and texts to train on.

    Attributes:
        paths: N image files.
        digests: N content digests of the files at listing time.
        labels: (N,) int64.
        class_names: C names in label order.
        template: of the source dataset.
        soup: M member texts, bare.
        words: what soft descriptors start from; empty: common words of the tokenizer.
    """

    paths: Sequence[str]
    digests: Sequence[str]
    labels: np.ndarray
    class_names: Sequence[str]
    template: str
    soup: Sequence[str]
    words: Sequence[str] = ()

    @property
    def about(self) -> dict[str, object]:
        """What is stored beside weights that were trained on it."""
        images = store.fingerprint([list(self.digests), self.labels.tolist()])
        words = {"words": store.fingerprint(list(self.words))} if self.words else {}
        return {"template": self.template, "images": images, "soup": list(self.soup), **words}


def read_training_sets(
    artifacts: Artifacts, *, source: str, method: MethodParams, seeds: Sequence[int], encoder: Mapping[str, object]
) -> dict[int, TrainingSet]:
    """Read which few-shot images of each seed selection saw, the texts of its soup and the words to start from.

    Args:
        artifacts: of the project.
        source: name of the source dataset.
        method: which soup and which list of words.
        seeds: of the splits and the soups.
        encoder: id that the soups and the features must have.

    Raises:
        MissingError: the image folder, manifest, a split, features, a soup or the list of words does not exist.
        MismatchError: a soup or the features have another encoder.
    """
    manifest = store.require(artifacts.manifest(source), made_by=f"prepare@{source}")
    about = store.table_attributes(manifest)
    root, words = about["root"], start_words(method)
    if not (remote.is_remote(root) or Path(root).exists()):
        raise MissingError(f"datasets.{source}.root: folder {root} does not exist")
    listed = store.read_table(manifest, columns=["digest"])["digest"]
    decoded = read_features(artifacts.features(source, split="train"), encoder=encoder).rows
    sets = {}
    for seed in seeds:
        split = store.read_table(artifacts.split(source, seed=seed), columns=["path", "label", "row"])
        split = split.filter(np.isin(split["row"], decoded))
        texts = Soup.load(artifacts.soup(method.soup, seed=seed), encoder=encoder).texts
        paths = [remote.joined(root, path) for path in split["path"].to_pylist()]
        digests = listed.take(split["row"]).to_pylist()
        labels = np.asarray(split["label"].to_numpy(), dtype=np.int64)
        sets[seed] = TrainingSet(paths, digests, labels, about["class_names"], about["template"], texts, words)
    return sets


def start_words(method: MethodParams) -> list[str]:
    """The words of ``tune.words``; empty if a method names no list. Raises MissingError if there is no such file."""
    path = getattr(method.tune, "words", None)
    return [] if path is None else read_text(path).split()


def batch_positions(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """Images of a batch: (B,) positions of distinct classes, B = min(batch size, number of classes)."""
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    size = min(batch_size, len(by_class))
    turn, step = divmod(iteration, len(by_class) // size)

    def image_of(c: int) -> int:
        """The image of a class whose turn it is."""
        cycle, index = divmod(turn, len(by_class[c]))
        order = named_generator(seed, "images", c, cycle).permutation(len(by_class[c]))
        return int(by_class[c][order[index]])

    order = named_generator(seed, "classes", turn).permutation(len(by_class))[step * size : (step + 1) * size]
    return np.array([image_of(int(c)) for c in order])


def wrapped_positions(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """As `batch_positions`, but with rounds that wrap within a batch (the authors' FastRandomSampler, samplers.py).

    N // B batches make an epoch, in which a class shows a different image in every round.
    """
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    size = min(batch_size, len(labels))
    epoch, batch = divmod(iteration, len(labels) // size)
    rounds, ranks = np.divmod(np.arange(batch * size, (batch + 1) * size), len(by_class))
    orders = {r: named_generator(seed, "rounds", epoch, r).permutation(len(by_class)) for r in np.unique(rounds)}

    def image_of(c: int, turn: int) -> int:
        order = named_generator(seed, "images of a round", c, epoch).permutation(len(by_class[c]))
        return int(by_class[c][order[turn % len(order)]])

    return np.array([image_of(int(orders[r][rank]), int(r)) for r, rank in zip(rounds, ranks, strict=True)])


class FewShotImages:
    """Decodes, augments and normalises the training images of one seed.

    Args:
        source: N images.
        encoder: whose preprocessing to use.
        augment: crop and flip.
        room: pixels of decoded images to keep in memory. Does not affect results.

    Raises:
        ChangedError: when a batch is made, if a file changed since it was listed.
        DataError: no images.
    """

    def __init__(
        self,
        source: TrainingSet,
        *,
        encoder: Encoder,
        augment: AugmentParams,
        room: int = PIXELS_IN_MEMORY,
    ) -> None:
        if not len(source.paths):
            raise DataError("the few-shot split holds no images; run `dvc repro fewshot`")
        self.source, self.encoder, self.augment = source, encoder, augment
        size = encoder.preprocessing["size"]
        self.size = size if isinstance(size, int) else max(size)
        self.filter = Image.Resampling[(encoder.preprocessing["interpolation"] or "bicubic").upper()]
        self.mean = torch.tensor(encoder.preprocessing["mean"]).view(3, 1, 1)
        self.std = torch.tensor(encoder.preprocessing["std"]).view(3, 1, 1)
        self._kept: dict[int, Image.Image] = {}
        self._room = room
        self._pool = ThreadPoolExecutor(max_workers=max(1, decoding_workers()))

    def batch(self, positions: np.ndarray, *, seed: int, iteration: int) -> tuple[Tensor, Tensor]:
        """Pixels (B, 3, H, W) float32 and labels (B,) of the images at `positions`, augmented for this iteration."""
        labels = torch.from_numpy(self.source.labels[positions])
        draws = named_generator(seed, "augment", iteration).random((len(positions), 4 * TRIES + 1))
        crops = self._pool.map(self._crop, positions, draws)
        pixels = torch.from_numpy(np.stack(list(crops))).permute(0, 3, 1, 2).float() / 255
        return (pixels - self.mean) / self.std, labels

    def _load(self, position: int) -> Image.Image:
        """Decode one image, keeping it in memory while there is room."""
        position = int(position)
        if position in self._kept:
            return self._kept[position]
        path, digest = self.source.paths[position], self.source.digests[position]
        image = load_rgb(path, digest=digest, as_stored=self.encoder.as_stored)
        if image.width * image.height <= self._room:
            self._room -= image.width * image.height
            self._kept[position] = image
        return image

    def _crop(self, position: int, draws: np.ndarray) -> np.ndarray:
        """A random crop, resized and perhaps flipped: (H, W, 3) uint8; draws are uniform in [0, 1)."""
        image = self._load(position)
        box = crop_box(image.width, image.height, draws[:-1].reshape(TRIES, 4), share=self.augment.crop)
        image = image.crop(box).resize((self.size, self.size), self.filter)
        pixels = np.asarray(image)
        return pixels[:, ::-1] if self.augment.flip and draws[-1] < 0.5 else pixels


def crop_box(width: int, height: int, draws: np.ndarray, *, share: tuple[float, float]) -> tuple[int, int, int, int]:
    """The first of several random crops that fits, with a uniform share of the area and log-uniform aspect ratio.

    Args:
        width, height: of the image, in pixels.
        draws: (tries, 4) uniform in [0, 1): share, aspect, left, top.
        share: smallest and largest share of the area.

    Returns:
        (left, top, right, bottom); if no crop fits, the largest centred one with an allowed aspect ratio.
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
