"""Test images as finetuned models see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.shards import Shard
from wsoup.evaluate.testsets import TestSet, held_if_small
from wsoup.images.embed import ImageList, ImagePlan, plan_images
from wsoup.towers.encoder import Encoder
from wsoup.towers.run import Run

LABEL = "test images"
SEEDS_AT_ONCE = 3
"""Models of as many seeds share a pass over the images; a further seed finds what these have encoded before."""


@dataclass(frozen=True)
class Seeing:
    """How models of several seeds come to see the test images; nothing is encoded yet.

    Attributes:
        tests: datasets with features of the pretrained model.
        seeds: all seeds.
        plans: the image features of some seeds each; empty where no model tuned its image tower.
    """

    tests: Sequence[TestSet]
    seeds: Sequence[int]
    plans: Sequence[ImagePlan]

    @property
    def shards(self) -> list[Shard]:
        """The work: shards of images."""
        shards = []
        for plan in self.plans:
            shards += plan.shards
        return shards

    def seen(self) -> dict[int, Sequence[TestSet]]:
        """The datasets with the features of each seed's model."""
        # Where only texts were trained, image features are the pretrained model's, and no file is read again.
        seen: dict[int, Sequence[TestSet]] = dict.fromkeys(self.seeds, self.tests)
        for plan in self.plans:
            by_dataset = plan.embedded()
            for seed in plan.encoders:
                own = []
                for test, embedded in zip(self.tests, by_dataset, strict=True):
                    features = held_if_small(embedded.features[seed], device=test.labels.device)
                    own.append(replace(test, image_features=features))
                seen[int(seed)] = own
        return seen


def plan_seen(run: Run, tuned: Mapping[int, Encoder], *, tests: Sequence[TestSet], batch_size: int) -> Seeing:
    """The same datasets with the image features of each seed's model.

    If any model tuned its image tower, every image is decoded once for the models of `SEEDS_AT_ONCE` seeds.

    Args:
        run: the run.
        tuned: finetuned models by seed.
        tests: datasets with features of the pretrained model; the images stay the same, so counts can be paired.
        batch_size: images in one forward pass.
    """
    plans: list[ImagePlan] = []
    if any(encoder.model.tunes_images for encoder in tuned.values()):
        lists = [_images(test, manifest=run.artifacts.manifest(test.name)) for test in tests]
        for start in range(0, len(tuned), SEEDS_AT_ONCE):
            seeds = list(tuned)[start : start + SEEDS_AT_ONCE]
            plan = plan_images(
                {str(seed): tuned[seed] for seed in seeds},
                lists=lists,
                batch_size=batch_size,
                # Images that cannot be decoded were left out before.
                on_bad_image="stop",
                label=LABEL,
                owner=run.owner,
            )
            plans.append(plan)
    return Seeing(tests, list(tuned), plans)


def _images(test: TestSet, *, manifest: Path) -> ImageList:
    """The image files of one dataset, in its order."""
    files = store.read_table(manifest, columns=["path", "digest"])
    return ImageList(test.attributes["root"], files.take(test.rows))
