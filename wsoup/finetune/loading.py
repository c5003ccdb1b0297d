"""Batches of pixels for training, the next one decoded while the present one is trained on."""

from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from wsoup.finetune.augment import FewShotImages
from wsoup.finetune.batches import ClassImages, batch_positions, wrapped_positions
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.training_set import TrainingSet
from wsoup.towers.encoder import Encoder


class Batches:
    """The batches of one method with one seed.

    Args:
        source: images to train on.
        encoder: whose preprocessing to use.
        method: its own batch size, if it has one.
        shared: batch size, sampler and augmentation of all methods.
        seed: of batches and crops.
    """

    def __init__(
        self, source: TrainingSet, *, encoder: Encoder, method: MethodParams, shared: FinetuneParams, seed: int
    ) -> None:
        self.by_class = ClassImages(source.labels)
        self.images = FewShotImages(source, encoder=encoder, augment=shared.augment)
        self.size = method.batch_size or shared.batch_size
        self.positions = wrapped_positions if shared.batches == "wrapped" else batch_positions
        self.seed = seed
        self._ahead: dict[int, Future[tuple[Tensor, Tensor]]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)

    def load(self, iteration: int) -> tuple[Tensor, Tensor]:
        """Pixels (B, 3, H, W) uint8 and labels (B,) of an iteration."""
        positions = self.positions(self.by_class, batch_size=self.size, seed=self.seed, iteration=iteration)
        return self.images.batch(positions, seed=self.seed, iteration=iteration)

    def take(self, iteration: int, *, of: int) -> tuple[Tensor, Tensor]:
        """As `load`; of `of` iterations, the next one is then already being decoded."""
        for coming in (iteration, iteration + 1):
            if coming < of and coming not in self._ahead:
                self._ahead[coming] = self._thread.submit(self.load, coming)
        return self._ahead[iteration].result()

    def forget(self, iteration: int) -> None:
        """Free the memory of a batch that has been trained on."""
        self._ahead.pop(iteration)
