"""What every stage of a run needs: texts, tokens, FLOPs, images to decode, bytes on disk and in memory.

Texts and tokens of score, evaluate and survey are those that the stages will compute on a CPU, to the last one (on a
GPU larger batches share a little more); soups are bounded; finetuning is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wsoup.check.whole import Params
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.classifiers import class_rows, pretrained_rows, tuned_rows
from wsoup.evaluate.judged import random_rows
from wsoup.evaluate.rows import Material, table
from wsoup.evaluate.testsets import ClassPrompts
from wsoup.evaluate.training import trained_row
from wsoup.images.cost import image_flops
from wsoup.pipeline import plan_texts as texts
from wsoup.pipeline.plan_images import Dataset, features_bytes
from wsoup.pipeline.plan_texts import Count
from wsoup.search.grow.params import Growth
from wsoup.search.rank import pools
from wsoup.search.rank.racing import rounds
from wsoup.search.rank.ranking import ranked
from wsoup.soup.member import NOTHING
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import CACHE_BYTES, GRID_BYTES
from wsoup.towers.encoder import Encoder, ensemble_templates

BYTES_PER_LISTED_IMAGE = 400
"""Path, digest and labels of one image as Python and Arrow hold them while a stage lists it."""
BYTES_PER_SCORE = 25
"""One line of a scores table on disk."""
BACKWARD = 3
"""A training step costs as much as so many passes forward, at most: what is frozen needs no gradients."""
NONE = Count((0, 0), (0, 0), 0)


@dataclass(frozen=True)
class Need:
    """Of one stage.

    Attributes:
        stage: with its item.
        text: what it encodes.
        images: decoded.
        image_flops: of the image tower.
        disk: bytes that it leaves behind.
        memory: bytes of its largest arrays, beside the model.
        why: what is estimated, "" where nothing is.
    """

    stage: str
    text: Count = NONE
    images: int = 0
    image_flops: float = 0
    disk: int = 0
    memory: int = 0
    why: str = ""

    @property
    def flops(self) -> float:
        """Of both towers, at most."""
        return self.text.flops + self.image_flops


class Steps:
    """The needs of all stages of one params.yaml.

    Args:
        params: checked.
        encoder: without weights.
        datasets: by name, as they are.
        cached: stages whose outs are up to date, so that they can be read.
        images, candidates: as many times as many test images, and texts in each pool; 1 for what there is.
    """

    def __init__(
        self,
        params: Params,
        *,
        encoder: Encoder,
        datasets: Mapping[str, Dataset],
        cached: Callable[[str], bool],
        images: float = 1,
        candidates: Mapping[str, float] | None = None,
    ) -> None:
        self.params, self.encoder, self.cached, self.artifacts = params, encoder, cached, Artifacts()
        self.datasets = {name: found.times(images) for name, found in datasets.items() if found.problem is None}
        self.more = candidates or {}
        self.pools = {name: self._pool(name) for name in ("words", "descriptors")}
        self.image_flops = image_flops(encoder)
        visual: Any = encoder.model
        self.size = int(getattr(visual, "embed_dim", 0) or visual.visual.output_dim)

    def of(self, stage: str) -> Need | None:
        """The needs of one stage; None for those that take no time to speak of."""
        kind, _, item = stage.partition("@")
        lacking = self.params.source not in self.datasets
        if (item and kind in ("prepare", "embed") and item not in self.datasets) or (kind != "embed" and lacking):
            return None
        found = getattr(self, f"_{kind}", None)
        return None if found is None else replace(found(item) if item else found(), stage=stage)

    # ---------------------------------------------------------------------------------------------------- images

    def _prepare(self, name: str) -> Need:
        found = self.datasets[name]
        n = found.n_test + found.n_train
        return Need("", memory=n * BYTES_PER_LISTED_IMAGE, disk=n * BYTES_PER_LISTED_IMAGE // 4)

    def _embed(self, name: str) -> Need:
        return self._features(self.datasets[name], n=self.datasets[name].n_test)

    def _embed_train(self) -> Need:
        found = self.datasets[self.params.source]
        return self._features(found, n=found.n_train)

    def _features(self, found: Dataset, *, n: int) -> Need:
        about = {**found.attributes, "encoder": self.encoder.id, "preprocessing": self.encoder.preprocessing}
        stands_for = {"split": "test", "skipped": [], "config": "0" * 64, "weights": "0" * 64, "made_with": "0" * 150}
        return Need(
            "",
            images=n,
            image_flops=n * self.image_flops,
            disk=features_bytes(n, size=self.size, attributes={**about, **stands_for}),
            memory=2 * n * self.size * 4 + n * BYTES_PER_LISTED_IMAGE,
        )

    # ------------------------------------------------------------------------------------------ score and soups

    def _score(self, name: str) -> Need:
        period, more = self.params.candidates.period(name), self.more.get(name, 1)
        source, race = self._source(), self.params.score.race(name)
        first, *later = texts.score(
            source,
            self.pools[name],
            heats=rounds(race, n_classes=len(source.class_names)),
            n_seeds=len(self.params.seeds),
            period=period,
            shard_size=self.params.score.shard_size,
        )
        found = sum(later, first if more == 1 else first.times(more))  # what stays for later rounds is a number
        lines = len(self.params.seeds) * (len(self.pools[name]) + 1) * more
        why = "the race decides which texts are left: at least, at most" if later else ""
        return Need(
            "",
            found,
            disk=round(lines * BYTES_PER_SCORE),
            memory=round(CACHE_BYTES + 2 * GRID_BYTES + 200 * lines),
            why=why or ("" if more == 1 and found.exact else "told from a part of the pool"),
        )

    def _soup(self, name: str) -> Need:
        wanted = self.params.soups[name]
        period = self.params.candidates.period("descriptors" if wanted.pool == "descriptors" else "words")
        found = texts.soup(
            self._source(), self._ranked(wanted.pool), wanted, seeds=self.params.seeds, period=period
        )  # fmt: skip
        if wanted.walks and self.more:
            found = found.times(self.more["descriptors" if wanted.pool == "descriptors" else "words"])
        return Need("", found, memory=CACHE_BYTES + 2 * GRID_BYTES, why="the search decides: at least, at most")

    # --------------------------------------------------------------------------------------------- finetuning

    def _finetune(self, name: str) -> Need:
        wanted, shared, source = (
            self.params.finetune.methods[name],
            self.params.finetune,
            self.datasets[self.params.source],
        )
        steps = (wanted.iterations or shared.iterations) * len(self.params.seeds)
        images = min(wanted.batch_size or shared.batch_size, len(source.class_names)) * steps
        one = self._source()
        counter = texts.Counter(one.texts)
        for _ in one.text_blocks([""], period=True):
            pass
        text = counter.done().times(steps * BACKWARD, once=counter.checked)
        return Need(
            "",
            text,
            images=source.n_train,
            image_flops=images * self.image_flops * BACKWARD,
            why="estimate: every step through both towers, forward and back; tuned weights on disk are left out"
            + (f", and {copies} times as many for snapshots" if (copies := self._snapshots(name)) else ""),
        )

    # --------------------------------------------------------------------------------------------- evaluation

    def _evaluate(self) -> Need:
        material, known = self._material()
        rows = pretrained_rows(material, params=self.params.evaluate)
        templates = ensemble_templates() if self.params.evaluate.ensemble else []
        beside = random_rows(material, pools={name: soup.pool for name, soup in self.params.soups.items()})
        text = self._rows_on_tests(rows, beside=beside, seeds=self.params.seeds, templates=templates)
        return Need("", text if known else replace(text, exact=False), memory=self._features_and_means(len(rows)),
                    why="" if known else "soups are not there yet: texts of their size stand for them")  # fmt: skip

    def _evaluate_tuned(self, name: str) -> Need:
        material, _ = self._material()
        again = self.params.finetune.methods[name].tune.tunes_images
        text, most = NONE, 0
        for seed in self.params.seeds[:1]:
            rows = tuned_rows(material, params=self.params.evaluate, seed=seed)
            text, most = self._rows_on_tests(rows, beside=[], seeds=[seed], templates=[]), len(rows)
        images = sum(found.n_test for found in self.datasets.values()) if again else 0
        seeds, method = len(self.params.seeds), self.params.finetune.methods[name]
        text = text.times(seeds)
        if method.snapshots is not None:
            copies = self._snapshots(name) * seeds
            one = [trained_row(rows, soup=method.soup)]
            tests = [found.tests for found in self.datasets.values()]
            text += texts.rows(self.encoder, one, class_rows=[], beside=[], tests=tests).times(copies)
            few = sum(min(method.snapshots.images, found.n_test) for found in self.datasets.values())
            images += few * copies // seeds if again else 0
        return Need(
            "",
            text,
            images=images,
            image_flops=images * self.image_flops * seeds,
            memory=self._features_and_means(most) * (seeds if again else 1),
            why="estimate: a text tower as the pretrained one's",
        )

    def _snapshots(self, name: str) -> int:
        """Copies of one method's averaged weights that each seed keeps."""
        wanted = self.params.finetune.methods[name]
        iterations = wanted.iterations or self.params.finetune.iterations
        return 0 if wanted.snapshots is None else -(-iterations // wanted.snapshots.every) + 1

    def _rows_on_tests(
        self, rows: Sequence[Any], *, beside: Sequence[Any], seeds: Sequence[int], templates: Sequence[Any]
    ) -> Count:
        tests, soups = [found.tests for found in self.datasets.values()], list(self.params.soups)
        gpt = store.read_object(self.artifacts.gpt) if self.artifacts.gpt.exists() else {}
        shown = table(soups) if templates else [row for row in table(soups) if row.tuned]
        own = class_rows(tests, rows=shown, seeds=seeds, templates=templates, gpt=gpt)
        return texts.rows(
            self.encoder, rows, class_rows=[row for found in own.values() for row in found], beside=beside, tests=tests
        )  # fmt: skip

    def _survey(self) -> Need:
        found = texts.survey(
            self.encoder,
            self.params.evaluate.survey,
            tests=[found.tests for found in self.datasets.values()],
            source=self._source(),
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            seed=self.params.seeds[0],
            period=self.params.candidates.words.period,
        )
        return Need("", found, memory=self._features_and_means(1))

    def _features_and_means(self, n_rows: int) -> int:
        """Test features of all datasets at once, and the mean texts of every row."""
        images = sum(found.n_test for found in self.datasets.values())
        stems = len(ClassPrompts([found.tests for found in self.datasets.values()]).stems)
        return 4 * self.size * (images + 2 * n_rows * stems) + CACHE_BYTES + 2 * GRID_BYTES

    # ------------------------------------------------------------------------------------- what there is already

    def _source(self) -> Any:
        found = self.datasets[self.params.source]
        return texts.weightless_source(self.encoder, template=found.template, class_names=found.class_names)

    def _pool(self, name: str) -> list[str]:
        """A pool as stage candidates writes it."""
        wanted = self.params.candidates
        if self.cached("candidates") and self.artifacts.pool(name).exists():
            return pools.read_pool(self.artifacts.pool(name))
        if name == "descriptors":
            return pools.descriptors(wanted.descriptors.paths)
        words = wanted.words
        return pools.words_from_file(words.path, count=words.count) if words.path else pools.common_words(words.count)

    def _ranked(self, pool: str) -> list[str]:
        """Candidates by falling accuracy on the first seed; in pool order where they are not scored yet."""
        path = self.artifacts.scores(pool)
        if not (self.cached("mix" if pool == "mixed" else f"score@{pool}") and path.exists()):
            return self._unranked(pool)
        found = store.read_table(path, columns=["text", "seed", "n_correct", "k2", "n_classes"])
        mine = np.flatnonzero(np.asarray(found["seed"]) == self.params.seeds[0])
        names = found["text"].to_pylist()
        columns = {key: np.asarray(found[key])[mine] for key in ("n_correct", "k2", "n_classes")}
        return ranked([names[i] for i in mine], **columns, period=False, cost=NOTHING).finalists().texts

    def _unranked(self, pool: str) -> list[str]:
        """A pool in its order; mixed: words first."""
        if pool != "mixed":
            return self.pools[pool]
        return list(dict.fromkeys(self.pools["words"] + self.pools["descriptors"]))

    def _material(self) -> tuple[Material, bool]:
        """What evaluation makes its rows of, and whether the soups in it are those of the run."""
        known, soups = True, {}
        for name, wanted in self.params.soups.items():
            paths = {seed: self.artifacts.soup(name, seed=seed) for seed in self.params.seeds}
            if self.cached(f"soup@{name}") and all(path.exists() for path in paths.values()):
                soups[name] = {seed: Soup.load(path).texts for seed, path in paths.items()}
                continue
            known, pool = False, self._unranked(wanted.pool)
            lengths = [min(wanted.max_words, len(pool)) if isinstance(wanted, Growth) else 1] * wanted.m
            soups[name] = {seed: random_chains(pool, lengths=lengths, seed=seed) for seed in self.params.seeds}
        bound = self.artifacts.upper_bound
        found = Soup.load(bound).texts if self.cached("survey") and bound.exists() else []
        source = self.datasets[self.params.source]
        material = Material(
            seeds=tuple(self.params.seeds),
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            source_class_names=source.class_names,
            soups=soups,
            upper_bound=found,
        )
        return material, known and bool(found)
