"""What every stage of a run needs: texts, tokens, FLOPs, images to decode, bytes on disk and in memory.

Texts and tokens of score, evaluate and survey are those that the stages will compute on a CPU, to the last one (on a
GPU larger batches share a little more); soups are bounded; finetuning is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wsoup.evaluate.classifiers import Row, class_rows, pretrained_rows, tuned_rows
from wsoup.evaluate.encoded import flops_per_token
from wsoup.evaluate.judged import random_rows, together_rows
from wsoup.evaluate.nearest import nearest_prompts
from wsoup.evaluate.rows import judged_soups, table
from wsoup.evaluate.testsets import ClassPrompts
from wsoup.evaluate.training import trained_row
from wsoup.images.cost import image_flops
from wsoup.pipeline import plan_texts
from wsoup.pipeline.world import World
from wsoup.search.rank.racing import rounds_of
from wsoup.texts.encoder import CACHE_BYTES, GRID_BYTES, PromptEncoder
from wsoup.towers.encoder import ensemble_templates

BYTES_PER_LISTED_IMAGE = 400
"""Path, digest and labels of one image as Python and Arrow hold them while a stage lists it."""
BYTES_PER_SCORE, MEMORY_PER_SCORE = 25, 200
"""One line of a scores table on disk, and in memory."""
TEXT_BYTES = CACHE_BYTES + 2 * GRID_BYTES
"""What encoding texts holds."""
BACKWARD = 3
"""A training step costs as much as so many passes forward, at most: what is frozen needs no gradients."""
BYTES_PER_STORED_NUMBER = 3.72
"""Of float32 features on disk: directions are noise to zstd, which packs them to 93 %; labels and rows are next to
nothing."""


@dataclass(frozen=True)
class Need:
    """Of one stage.

    Attributes:
        text: least and most of the texts, tokens and FLOPs that it encodes: (2, 3).
        images: decoded.
        image_flops: of the image tower.
        disk: bytes that it leaves behind.
        memory: bytes of its largest arrays, beside the model.
        why: what is estimated, "" where nothing is.
    """

    text: np.ndarray = field(default_factory=lambda: np.zeros((2, 3)))
    images: int = 0
    image_flops: float = 0
    disk: int = 0
    memory: int = 0
    why: str = ""

    @property
    def flops(self) -> float:
        """Of both towers, at most."""
        return float(self.text[1, 2]) + self.image_flops


class Needs:
    """The needs of all stages of one params.yaml; `candidates`: as if each pool held so many texts."""

    def __init__(self, world: World, *, candidates: int | None = None) -> None:
        self.world, self.params = world, world.params
        self.more = {pool: candidates / len(texts) if candidates else 1 for pool, texts in world.pools.items()}
        self.image_flops = image_flops(world.encoder)
        self.token_flops = flops_per_token(PromptEncoder.of(world.encoder), prompt="a")
        self.size = world.encoder.encode_texts(["a"]).shape[-1]  # not every image tower says its own
        self.n_seeds = len(world.params.seeds)

    def of(self, stage: str) -> Need | None:
        """The needs of one stage; None for those that take no time to speak of, or whose images cannot be listed."""
        kind, _, item = stage.partition("@")
        datasets = self.world.datasets
        if kind in ("prepare", "embed") and item not in datasets:
            return None
        if kind != "embed" and self.params.source not in datasets:
            return None
        needs: dict[str, Callable[[], Need]] = {
            "prepare": lambda: self._listed(datasets[item].n_test + datasets[item].n_train),
            "embed": lambda: self._features(datasets[item].n_test),
            "embed_train": lambda: self._features(datasets[self.params.source].n_train),
            "score": lambda: self._score(item),
            "soup": lambda: self._soup(item),
            "finetune": lambda: self._finetune(item),
            "survey": self._survey,
            "evaluate": self._evaluate,
            "evaluate_tuned": lambda: self._evaluate_tuned(item),
        }
        return needs[kind]() if kind in needs else None

    # ------------------------------------------------------------------------------------------------------- images

    def _listed(self, n: int) -> Need:
        return Need(memory=n * BYTES_PER_LISTED_IMAGE, disk=n * BYTES_PER_LISTED_IMAGE // 4)

    def _features(self, n: int) -> Need:
        return Need(
            images=n,
            image_flops=n * self.image_flops,
            disk=round(n * self.size * BYTES_PER_STORED_NUMBER),
            memory=2 * n * self.size * 4 + n * BYTES_PER_LISTED_IMAGE,
        )

    # ----------------------------------------------------------------------------------- score, soups and finetuning

    def _text(self, text: np.ndarray, **other: Any) -> Need:
        """Of a stage that encodes texts: (3,), or (2, 3) where it depends on what is found."""
        least_and_most = np.array(np.broadcast_to(text, (2, 3)))
        if self.token_flops:  # a tower that does not count itself
            least_and_most[:, 2] = self.token_flops * least_and_most[:, 1]
        return Need(least_and_most, **{"memory": TEXT_BYTES, **other})

    def _score(self, pool: str) -> Need:
        source, section, texts, more = self.world.source(), self.params.score, self.world.pools[pool], self.more[pool]
        race = rounds_of(section.race(pool), n_classes=len(source.class_names))
        first, *later = plan_texts.score(
            source,
            texts,
            rounds=race,
            n_seeds=self.n_seeds,
            period=self.params.candidates.period(pool),
            shard_size=section.shard_size,
        )
        shards = plan_texts.sampled(texts, shard_size=section.shard_size, n_classes=len(race[0].classes))
        why = "told from a part of the pool" if more != 1 or sum(map(len, shards)) <= len(texts) else ""
        lines = self.n_seeds * (len(texts) + 1) * more
        return self._text(
            sum(later, first * more),  # what stays for later rounds is a number
            disk=round(lines * BYTES_PER_SCORE),
            memory=round(TEXT_BYTES + MEMORY_PER_SCORE * lines),
            why="the race decides which texts are left: at least, at most" if later else why,
        )

    def _soup(self, name: str) -> Need:
        definition = self.params.soups[name]
        pool = "descriptors" if definition.pool == "descriptors" else "words"  # a mixed one is searched as words are
        text = plan_texts.soup(
            self.world.source(),
            self.world.ranked(definition.pool),
            definition,
            seeds=self.params.seeds,
            period=self.params.candidates.period(pool),
        )
        more = self.more[pool] if definition.walks else 1
        return self._text(text * more, why="the search decides: at least, at most")

    def _finetune(self, name: str) -> Need:
        method, shared, source = self.params.finetune.methods[name], self.params.finetune, self.world.source()
        steps = (method.iterations or shared.iterations) * self.n_seeds
        batch = min(method.batch_size or shared.batch_size, len(source.class_names))
        check = plan_texts.so_far(source.texts)
        step = plan_texts.encoded(source.texts, source.text_blocks([""], period=True))
        why = "estimate: every step through both towers, forward and back; tuned weights on disk are left out"
        if copies := self._snapshots(name):
            why += f", and {copies} times as many for snapshots"
        return self._text(
            check + steps * BACKWARD * step,
            images=self.world.datasets[self.params.source].n_train,
            image_flops=steps * batch * self.image_flops * BACKWARD,
            memory=0,
            why=why,
        )

    def _snapshots(self, name: str) -> int:
        """Copies of one method's averaged weights that each seed keeps."""
        method = self.params.finetune.methods[name]
        iterations = method.iterations or self.params.finetune.iterations
        return 0 if method.snapshots is None else -(-iterations // method.snapshots.every) + 1

    # --------------------------------------------------------------------------------------------------- evaluation

    def _survey(self) -> Need:
        text = plan_texts.survey(
            self.world.source(),
            self.params.evaluate.survey,
            tests=self.world.tests,
            words=self.world.pools["words"],
            descriptors=self.world.pools["descriptors"],
            seed=self.params.seeds[0],
            period=self.params.candidates.words.period,
        )
        return self._text(text, memory=self._features_and_means(1))

    def _evaluate(self) -> Need:
        material, soups = self.world.material, self.params.soups
        rows = pretrained_rows(material, params=self.params.evaluate)
        pools = {name: soups[name].pool for name in judged_soups(list(soups))}
        beside = [*together_rows(self.params.report.soup, material=material), *random_rows(material, pools=pools)]
        known = self.world.upper_bound and all(map(self.world.soups, soups))
        return self._text(
            self._rows(rows, beside=beside, tuned=False),
            memory=self._features_and_means(len(rows)),
            why="" if known else "soups are not there yet: texts of their size stand for them",
        )

    def _evaluate_tuned(self, name: str) -> Need:
        method, tests = self.params.finetune.methods[name], self.world.tests
        rows = tuned_rows(self.world.material, params=self.params.evaluate, seed=self.params.seeds[0])
        text = self._rows(rows, beside=[], tuned=True)
        sizes = [dataset.n_test for dataset in self.world.datasets.values()]
        images = sum(sizes)
        if method.snapshots is not None:
            one, copies = [trained_row(rows, soup=method.soup)], self._snapshots(name)
            texts = PromptEncoder.of(self.world.encoder)
            text += copies * plan_texts.evaluation(texts, one, class_rows=[], beside=[], tests=tests)
            images += copies * sum(min(method.snapshots.images, size) for size in sizes)
        images *= method.tune.tunes_images  # else those of the pretrained tower are used
        return self._text(
            text * self.n_seeds,
            images=images,
            image_flops=images * self.image_flops * self.n_seeds,
            memory=self._features_and_means(len(rows)) * (self.n_seeds if images else 1),
            why="estimate: a text tower as the pretrained one's",
        )

    def _rows(self, rows: list[Row], *, beside: list[Row], tuned: bool) -> np.ndarray:
        """Rows on every dataset, and those with prompts of their own for each class beside them: (3,)."""
        ensemble = self.params.evaluate.ensemble and not tuned
        texts, pool = PromptEncoder.of(self.world.encoder), [] if tuned else self.world.material.descriptors
        nearest = nearest_prompts(self.world.tests, pool=pool, m=self.params.evaluate.baseline_m, encoder=texts)
        own = class_rows(
            self.world.tests,
            rows=[row for row in table(list(self.params.soups)) if ensemble or row.tuned],
            seeds=self.params.seeds,
            templates=ensemble_templates() if ensemble else [],
            nearest=nearest,
        )
        by_class = [row for of_dataset in own.values() for row in of_dataset]
        return plan_texts.evaluation(texts, rows, class_rows=by_class, beside=beside, tests=self.world.tests)

    def _features_and_means(self, n_rows: int) -> int:
        """Test features of all datasets at once, and the mean texts of every row."""
        images = sum(dataset.n_test for dataset in self.world.datasets.values())
        stems = len(ClassPrompts(self.world.tests).stems)
        return 4 * self.size * (images + 2 * n_rows * stems) + TEXT_BYTES
