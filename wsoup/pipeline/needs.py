"""What every stage of a run needs: texts, tokens, FLOPs, images to decode, bytes on disk and in memory.

Texts and tokens of score, evaluate and survey are those that the stages will compute on a CPU, to the last one (on a
GPU larger batches share a little more); soups are bounded; finetuning is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wsoup.check.whole import Params
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.classifiers import Row, class_rows, pretrained_rows, tuned_rows
from wsoup.evaluate.cost import flops_per_token
from wsoup.evaluate.judged import random_rows
from wsoup.evaluate.rows import Material, table
from wsoup.evaluate.testsets import ClassPrompts
from wsoup.evaluate.training import trained_row
from wsoup.images.cost import image_flops
from wsoup.pipeline import plan_texts
from wsoup.pipeline.plan_images import Dataset, features_bytes
from wsoup.search.grow.params import GreedySoup, Growth
from wsoup.search.rank import pools
from wsoup.search.rank.racing import rounds
from wsoup.search.rank.ranking import ranked
from wsoup.search.rank.source import Source
from wsoup.soup.soup import NOTHING, Soup
from wsoup.texts.encoder import CACHE_BYTES, GRID_BYTES, PromptEncoder
from wsoup.towers.encoder import Encoder, ensemble_templates

BYTES_PER_LISTED_IMAGE = 400
"""Path, digest and labels of one image as Python and Arrow hold them while a stage lists it."""
BYTES_PER_SCORE, MEMORY_PER_SCORE = 25, 200
"""One line of a scores table on disk, and in memory."""
TEXT_BYTES = CACHE_BYTES + 2 * GRID_BYTES
"""What encoding texts holds."""
BACKWARD = 3
"""A training step costs as much as so many passes forward, at most: what is frozen needs no gradients."""
OUTSIDE_IMAGES = ("prompt", "soft_descriptors")
"""Kinds of finetuning that leave the image tower as it is; after others test images are read again."""


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
    """The needs of all stages of one params.yaml.

    Args:
        params: checked.
        encoder: without weights.
        datasets: by name, those that can be listed.
        cached: whether a stage's outs are up to date, so that they can be read.
        candidates: as if each pool held so many texts; None: as many as it holds.
    """

    def __init__(
        self,
        params: Params,
        *,
        encoder: Encoder,
        datasets: Mapping[str, Dataset],
        cached: Callable[[str], bool],
        candidates: int | None = None,
    ) -> None:
        self.params, self.encoder, self.datasets, self.cached = params, encoder, datasets, cached
        self.artifacts = Artifacts()
        self.pools = {name: self._pool(name) for name in ("words", "descriptors")}
        self.more = {name: candidates / len(pool) if candidates else 1 for name, pool in self.pools.items()}
        self.image_flops = image_flops(encoder)
        self.token_flops = flops_per_token(PromptEncoder.of(encoder), prompt="a")
        visual: Any = encoder.model
        self.size = int(getattr(visual, "embed_dim", 0) or visual.visual.output_dim)

    def of(self, stage: str) -> Need | None:
        """The needs of one stage; None for those that take no time to speak of, or whose images cannot be listed."""
        kind, _, item = stage.partition("@")
        source = self.datasets.get(self.params.source)
        if kind == "embed" and item in self.datasets:
            return self._features(self.datasets[item], n=self.datasets[item].n_test)
        if source is None or (kind in ("prepare", "embed") and item not in self.datasets):
            return None
        match kind:
            case "prepare":
                n = self.datasets[item].n_test + self.datasets[item].n_train
                return Need(memory=n * BYTES_PER_LISTED_IMAGE, disk=n * BYTES_PER_LISTED_IMAGE // 4)
            case "embed_train":
                return self._features(source, n=source.n_train)
            case "score":
                return self._score(item)
            case "soup":
                return self._soup(item)
            case "finetune":
                return self._finetune(item, images=source.n_train)
            case "survey":
                return self._survey()
            case "evaluate":
                return self._evaluate()
            case "evaluate_tuned":
                return self._evaluate_tuned(item)
        return None

    def _features(self, dataset: Dataset, *, n: int) -> Need:
        about = {**dataset.attributes, "encoder": self.encoder.id, "preprocessing": self.encoder.preprocessing}
        stands_for = {"split": "test", "skipped": [], "config": "0" * 64, "weights": "0" * 64, "made_with": "0" * 150}
        return Need(
            images=n,
            image_flops=n * self.image_flops,
            disk=features_bytes(n, size=self.size, attributes={**about, **stands_for}),
            memory=2 * n * self.size * 4 + n * BYTES_PER_LISTED_IMAGE,
        )

    def _text(self, text: np.ndarray, **other: Any) -> Need:
        """Of a stage that encodes texts: (3,), or (2, 3) where it depends on what is found."""
        least_and_most = np.array(np.broadcast_to(text, (2, 3)))
        if self.token_flops:  # a tower that does not count itself
            least_and_most[:, 2] = self.token_flops * least_and_most[:, 1]
        return Need(least_and_most, **{"memory": TEXT_BYTES, **other})

    # ---------------------------------------------------------------------------------- score, soups and finetuning

    def _score(self, pool: str) -> Need:
        source, texts, more, shard_size = (
            self._source(),
            self.pools[pool],
            self.more[pool],
            self.params.score.shard_size,
        )
        race = rounds(self.params.score.race(pool), n_classes=len(source.class_names))
        first, *later = plan_texts.score(
            source,
            texts,
            rounds=race,
            n_seeds=len(self.params.seeds),
            period=self.params.candidates.period(pool),
            shard_size=shard_size,
        )
        lines = len(self.params.seeds) * (len(texts) + 1) * more
        sampled = (
            more != 1 or plan_texts.sampling(len(texts), shard_size=shard_size, n_classes=len(race[0].classes)) > 1
        )
        why = "told from a part of the pool" if sampled else ""
        return self._text(
            sum(later, first * more),  # what stays for later rounds is a number
            disk=round(lines * BYTES_PER_SCORE),
            memory=round(TEXT_BYTES + MEMORY_PER_SCORE * lines),
            why="the race decides which texts are left: at least, at most" if later else why,
        )

    def _soup(self, name: str) -> Need:
        definition = self.params.soups[name]
        pool = "descriptors" if definition.pool == "descriptors" else "words"
        text = plan_texts.soup(
            self._source(),
            self._ranked(definition.pool),
            definition,
            seeds=self.params.seeds,
            period=self.params.candidates.period(pool),
        )
        more = self.more[pool] if isinstance(definition, GreedySoup) else 1
        return self._text(text * more, why="the search decides: at least, at most")

    def _finetune(self, name: str, *, images: int) -> Need:
        method, shared, source = self.params.finetune.methods[name], self.params.finetune, self._source()
        steps = (method.iterations or shared.iterations) * len(self.params.seeds)
        batch = min(method.batch_size or shared.batch_size, len(source.class_names))
        check = plan_texts.so_far(source.texts)
        step = plan_texts.encoded(source.texts, source.text_blocks([""], period=True))
        why = "estimate: every step through both towers, forward and back; tuned weights on disk are left out"
        if copies := self._snapshots(name):
            why += f", and {copies} times as many for snapshots"
        return self._text(
            check + steps * BACKWARD * step,
            images=images,
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
            self._source(),
            self.params.evaluate.survey,
            tests=[dataset.tests for dataset in self.datasets.values()],
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            seed=self.params.seeds[0],
            period=self.params.candidates.words.period,
        )
        return self._text(text, memory=self._features_and_means(1))

    def _evaluate(self) -> Need:
        material, known = self._material()
        rows = pretrained_rows(material, params=self.params.evaluate)
        beside = random_rows(material, pools={name: soup.pool for name, soup in self.params.soups.items()})
        text = self._rows(rows, beside=beside, seeds=self.params.seeds, tuned=False)
        why = "" if known else "soups are not there yet: texts of their size stand for them"
        return self._text(text, memory=self._features_and_means(len(rows)), why=why)

    def _evaluate_tuned(self, name: str) -> Need:
        method, seeds = self.params.finetune.methods[name], self.params.seeds
        rows = tuned_rows(self._material()[0], params=self.params.evaluate, seed=seeds[0])
        text = self._rows(rows, beside=[], seeds=seeds[:1], tuned=True)
        sizes = [dataset.n_test for dataset in self.datasets.values()]
        images = sum(sizes)
        if method.snapshots is not None:
            one, copies = [trained_row(rows, soup=method.soup)], self._snapshots(name)
            tests = [dataset.tests for dataset in self.datasets.values()]
            text = text + copies * plan_texts.evaluation(self.encoder, one, class_rows=[], beside=[], tests=tests)
            images += copies * sum(min(method.snapshots.images, size) for size in sizes)
        images *= method.tune.kind not in OUTSIDE_IMAGES
        return self._text(
            len(seeds) * text,
            images=images,
            image_flops=images * self.image_flops * len(seeds),
            memory=self._features_and_means(len(rows)) * (len(seeds) if images else 1),
            why="estimate: a text tower as the pretrained one's",
        )

    def _rows(self, rows: Sequence[Row], *, beside: Sequence[Row], seeds: Sequence[int], tuned: bool) -> np.ndarray:
        """Rows on every dataset, and those with prompts of their own for each class beside them."""
        tests = [dataset.tests for dataset in self.datasets.values()]
        ensemble = self.params.evaluate.ensemble and not tuned
        own = class_rows(
            tests,
            rows=[row for row in table(list(self.params.soups)) if ensemble or row.tuned],
            seeds=seeds,
            templates=ensemble_templates() if ensemble else [],
            gpt=store.read_object(self.artifacts.gpt) if self.artifacts.gpt.exists() else {},
        )
        by_class = [row for of_dataset in own.values() for row in of_dataset]
        return plan_texts.evaluation(self.encoder, rows, class_rows=by_class, beside=beside, tests=tests)

    def _features_and_means(self, n_rows: int) -> int:
        """Test features of all datasets at once, and the mean texts of every row."""
        images = sum(dataset.n_test for dataset in self.datasets.values())
        stems = len(ClassPrompts([dataset.tests for dataset in self.datasets.values()]).stems)
        return 4 * self.size * (images + 2 * n_rows * stems) + TEXT_BYTES

    # -------------------------------------------------------------------------------------- what there is already

    def _source(self) -> Source:
        tests = self.datasets[self.params.source].tests
        return plan_texts.weightless_source(self.encoder, template=tests.template, class_names=tests.class_names)

    def _pool(self, name: str) -> list[str]:
        """A pool as stage candidates writes it."""
        if self.cached("candidates") and self.artifacts.pool(name).exists():
            return pools.read_pool(self.artifacts.pool(name))
        if name == "descriptors":
            return pools.descriptors(self.params.candidates.descriptors.paths)
        words = self.params.candidates.words
        return pools.words_from_file(words.path, count=words.count) if words.path else pools.common_words(words.count)

    def _unranked(self, pool: str) -> list[str]:
        """A pool in its order; mixed: words first."""
        mixed = list(dict.fromkeys(self.pools["words"] + self.pools["descriptors"]))
        return mixed if pool == "mixed" else self.pools[pool]

    def _ranked(self, pool: str) -> list[str]:
        """Candidates by falling accuracy on the first seed; in pool order where they are not scored yet."""
        path = self.artifacts.scores(pool)
        if not (self.cached("mix" if pool == "mixed" else f"score@{pool}") and path.exists()):
            return self._unranked(pool)
        columns = ["n_correct", "k2", "n_classes"]
        scores = store.read_table(path, columns=["text", "seed", *columns])
        scores = scores.filter(np.asarray(scores["seed"]) == self.params.seeds[0])
        counts = {name: np.asarray(scores[name]) for name in columns}
        return ranked(scores["text"].to_pylist(), **counts, period=False, cost=NOTHING).finalists().texts

    def _material(self) -> tuple[Material, bool]:
        """What evaluation makes its rows of, and whether the soups in it are those of the run."""
        known, soups, seeds = True, {}, self.params.seeds
        for name, definition in self.params.soups.items():
            paths = {seed: self.artifacts.soup(name, seed=seed) for seed in seeds}
            if self.cached(f"soup@{name}") and all(path.exists() for path in paths.values()):
                soups[name] = {seed: Soup.load(path).texts for seed, path in paths.items()}
                continue
            known, pool = False, self._unranked(definition.pool)
            length = min(definition.max_words, len(pool)) if isinstance(definition, Growth) else 1
            soups[name] = {seed: random_chains(pool, lengths=[length] * definition.m, seed=seed) for seed in seeds}
        bound = self.artifacts.upper_bound
        upper_bound = Soup.load(bound).texts if self.cached("survey") and bound.exists() else []
        material = Material(
            seeds=tuple(seeds),
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            source_class_names=self.datasets[self.params.source].tests.class_names,
            soups=soups,
            upper_bound=upper_bound,
        )
        return material, known and bool(upper_bound)
