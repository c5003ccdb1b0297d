"""Training images as pixels: decoded once, cropped at random and perhaps flipped.

Every draw is a function of (seed, iteration), so threads may decode in any order.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wsoup.base.errors import DataError
from wsoup.core.draws import named_generator
from wsoup.finetune.params import AugmentParams
from wsoup.finetune.training_set import TrainingSet
from wsoup.images.decode import load_rgb
from wsoup.images.workers import decoding_workers
from wsoup.towers.encoder import Encoder

PIXELS_IN_MEMORY = 1 << 28
"""Decoded images are kept in memory up to this many pixels in total (768 MiB)."""
TRIES = 10
"""Random crops to try before falling back to the centre, as torchvision's RandomResizedCrop does."""
NARROWEST = 3 / 4
"""Smallest aspect ratio of a crop, width / height, as in torchvision."""
WIDEST = 4 / 3
"""Largest aspect ratio of a crop."""


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
        preprocessing = encoder.preprocessing
        self.source = source
        self.encoder = encoder
        self.augment = augment
        size = preprocessing["size"]
        self.size = size if isinstance(size, int) else max(size)
        interpolation = preprocessing["interpolation"] or "bicubic"
        self.filter = Image.Resampling[interpolation.upper()]
        self.mean = torch.tensor(preprocessing["mean"]).view(3, 1, 1)
        self.std = torch.tensor(preprocessing["std"]).view(3, 1, 1)
        self._kept: dict[int, Image.Image] = {}
        self._room = room
        self._pool = ThreadPoolExecutor(max_workers=max(1, decoding_workers()))

    def batch(self, positions: np.ndarray, *, seed: int, iteration: int) -> tuple[Tensor, Tensor]:
        """Pixels (B, 3, H, W) uint8 and labels (B,) of the images at `positions`, augmented for this iteration."""
        labels = torch.from_numpy(self.source.labels[positions])
        # An image takes four numbers for every try of a crop, and one for the flip.
        draws = named_generator(seed, "augment", iteration).random((len(positions), 4 * TRIES + 1))
        # All numbers are drawn before any thread starts, so that threads cannot change who gets which.
        crops = np.stack(list(self._pool.map(self._crop, positions, draws)))  # (B, H, W, 3)
        return torch.from_numpy(crops).permute(0, 3, 1, 2), labels

    def normalized(self, pixels: Tensor) -> Tensor:
        """What the model takes, (B, 3, H, W) float32, of pixels that are on its device.

        They get there as bytes, a quarter of what floats would be.
        """
        # Divided by a tensor, because CUDA multiplies by 1 / 255 where it is given a number.
        shares = pixels.float() / torch.tensor(255.0, device=pixels.device)
        return (shares - self.mean.to(pixels.device)) / self.std.to(pixels.device)

    def _load(self, position: int) -> Image.Image:
        """Decode one image, keeping it in memory while there is room."""
        position = int(position)
        if position in self._kept:
            return self._kept[position]
        digest = self.source.digests[position]
        image = load_rgb(self.source.paths[position], digest=digest, as_stored=self.encoder.as_stored)
        n_pixels = image.width * image.height
        if n_pixels <= self._room:
            self._room -= n_pixels
            self._kept[position] = image
        return image

    def _crop(self, position: int, draws: np.ndarray) -> np.ndarray:
        """A random crop, resized and perhaps flipped: (H, W, 3) uint8; draws are uniform in [0, 1)."""
        image = self._load(position)
        draws_of_crop = draws[:-1].reshape(TRIES, 4)
        box = crop_box(image.width, image.height, draws_of_crop, share=self.augment.crop)
        resized = image.crop(box).resize((self.size, self.size), self.filter)
        pixels = np.asarray(resized)
        if self.augment.flip and draws[-1] < 0.5:
            return pixels[:, ::-1]
        return pixels


def crop_box(width: int, height: int, draws: np.ndarray, *, share: tuple[float, float]) -> tuple[int, int, int, int]:
    """The first of several random crops that fits, with a uniform share of the area and log-uniform aspect ratio.

    Args:
        width, height: of the image, in pixels.
        draws: (tries, 4) uniform in [0, 1): share, aspect, left, top.
        share: smallest and largest share of the area.

    Returns:
        (left, top, right, bottom); if no crop fits, the largest centred one with an allowed aspect ratio.
    """
    smallest, largest = share
    for area_draw, aspect_draw, left_draw, top_draw in draws:
        share_of_area = smallest + area_draw * (largest - smallest)
        area = width * height * share_of_area
        # Log-uniform, so that 3:4 is as likely as 4:3.
        log_aspect = np.log(NARROWEST) + aspect_draw * np.log(WIDEST / NARROWEST)
        aspect = np.exp(log_aspect)
        w = round(float(np.sqrt(area * aspect)))
        h = round(float(np.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            left = int(left_draw * (width - w + 1))
            top = int(top_draw * (height - h + 1))
            return left, top, left + w, top + h
    w = min(width, round(height * WIDEST))
    h = min(height, round(width / NARROWEST))
    left = (width - w) // 2
    top = (height - h) // 2
    return left, top, left + w, top + h
