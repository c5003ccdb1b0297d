"""What each stage of a run needs: texts, tokens, FLOPs, images to decode, bytes on disk and in memory.

Texts and tokens of score, evaluate and survey are exactly those that the stages encode on a CPU (on a GPU larger
batches share a little more). Soups are bounded, finetuning is estimated. Pools, rankings and soups are read if their
stages are up to date; otherwise they are taken as the stages would make them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from wsoup.check.whole import Params
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.classifiers import Row, class_rows, nearest_prompts, pretrained_rows, tuned_rows
from wsoup.evaluate.counts import flops_per_token
from wsoup.evaluate.judged import random_rows, together_rows
from wsoup.evaluate.rows import Material, judged_soups
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.evaluate.training import trained_row
from wsoup.images.features import image_flops
from wsoup.pipeline import plan_texts
from wsoup.search.grow.params import Growth
from wsoup.search.rank import pools
from wsoup.search.rank.racing import rounds_of
from wsoup.search.rank.ranking import read_ranked
from wsoup.search.rank.source import Source
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import CACHE_BYTES, GRID_BYTES, PromptEncoder
from wsoup.towers.encoder import Encoder, ensemble_templates

BYTES_PER_LISTED_IMAGE = 400
"""Path, digest and labels of one image in memory, as Python and Arrow objects, while a stage lists it."""
BYTES_PER_SCORE, MEMORY_PER_SCORE = 25, 200
"""One line of a scores table on disk, and in memory."""
TEXT_BYTES = CACHE_BYTES + 2 * GRID_BYTES
"""Memory for encoding texts."""
BACKWARD = 3
"""A training step costs at most this many forward passes; frozen parts need no gradients."""
BYTES_PER_STORED_NUMBER = 3.72
"""Of float32 features on disk: to zstd directions are noise, which it packs to 93 %; labels and rows hardly count."""


@dataclass(frozen=True)
class Dataset:
    """One dataset, as far as a plan needs it.

    Attributes:
        tests: its classes, without images.
        n_test, n_train: images; n_train counts the few-shot images of all seeds and is 0 for a target.
        files: some of its images.
    """

    tests: TestSet
    n_test: int
    n_train: int
    files: list[str]


@dataclass(frozen=True)
class Need:
    """The needs of one stage.

    Attributes:
        text: least and most of the texts, tokens and FLOPs that it encodes: (2, 3).
        images: decoded.
        image_flops: of the image tower.
        disk: bytes that it writes.
        memory: bytes of its largest arrays, without the model.
        why: why it is an estimate; "" if it is exact.
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
        cached: stages whose outs are up to date, so that they can be read.
        candidates: pretend that each pool has this many texts.
    """

    def __init__(
        self,
        params: Params,
        *,
        encoder: Encoder,
        datasets: Mapping[str, Dataset],
        cached: frozenset[str],
        candidates: int | None = None,
    ) -> None:
        self.params, self.encoder, self.datasets, self.cached = params, encoder, datasets, cached
        self.tests = [dataset.tests for dataset in datasets.values()]
        self.pools = self._read_pools()
        self.scale = {pool: candidates / len(texts) if candidates else 1 for pool, texts in self.pools.items()}
        self.image_flops = image_flops(encoder)
        self.token_flops = flops_per_token(PromptEncoder.of(encoder), prompt="a")
        self.size = encoder.encode_texts(["a"]).shape[-1]  # not every image tower knows its own
        self.n_seeds = len(params.seeds)

    def of(self, stage: str) -> Need:
        """The needs of one stage; zero if they are negligible, or if its images cannot be listed."""
        kind, _, item = stage.partition("@")
        dataset = self.datasets.get(item if kind in ("prepare", "embed") else self.params.source)
        needs: dict[str, Callable[[Dataset], Need]] = {
            "prepare": lambda listed: self._listing(listed.n_test + listed.n_train),
            "embed": lambda images: self._features(images.n_test),
            "embed_train": lambda source: self._features(source.n_train),
            "score": lambda _: self._score(item),
            "soup": lambda _: self._soup(item),
            "finetune": lambda source: self._finetune(item, n_train=source.n_train),
            "survey": lambda _: self._survey(),
            "evaluate": lambda _: self._evaluate(),
            "evaluate_tuned": lambda _: self._evaluate_tuned(item),
        }
        return needs[kind](dataset) if kind in needs and dataset is not None else Need()

    # ------------------------------------------------------------------------------------------------------- images

    def _listing(self, n: int) -> Need:
        return Need(memory=n * BYTES_PER_LISTED_IMAGE, disk=n * BYTES_PER_LISTED_IMAGE // 4)

    def _features(self, n: int) -> Need:
        return Need(
            images=n,
            image_flops=n * self.image_flops,
            disk=round(n * self.size * BYTES_PER_STORED_NUMBER),
            memory=2 * n * self.size * 4 + n * BYTES_PER_LISTED_IMAGE,
        )

    # ------------------------------------------------------------------------------------ pools, soups and finetuning

    def _read_pools(self) -> dict[str, list[str]]:
        """Words and descriptors as stage candidates writes them; mixed: words first."""
        artifacts, section = Artifacts(), self.params.candidates
        if "candidates" in self.cached and artifacts.pool("words").exists():
            words, descriptors = (pools.read_pool(artifacts.pool(name)) for name in ("words", "descriptors"))
        else:
            path, count = section.words.path, section.words.count
            words = pools.words_from_file(path, count=count) if path else pools.common_words(count)
            descriptors = pools.descriptors(section.descriptors.paths)
        return {"words": words, "descriptors": descriptors, "mixed": list(dict.fromkeys(words + descriptors))}

    def _source(self) -> Source:
        """The source's class texts, with an encoder of its own that has encoded nothing yet."""
        tests = self.datasets[self.params.source].tests
        return plan_texts.weightless_source(self.encoder, template=tests.template, class_names=tests.class_names)

    def _text(self, text: np.ndarray, **other: Any) -> Need:
        """For a stage that encodes texts: (3,), or (2, 3) for a range."""
        least_and_most = np.array(np.broadcast_to(text, (2, 3)))
        if self.token_flops:  # a tower that does not count its own
            least_and_most[:, 2] = self.token_flops * least_and_most[:, 1]
        return Need(least_and_most, **{"memory": TEXT_BYTES, **other})

    def _score(self, pool: str) -> Need:
        source, section, texts, scale = self._source(), self.params.score, self.pools[pool], self.scale[pool]
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
        why = "computed from a part of the pool" if scale != 1 or sum(map(len, shards)) <= len(texts) else ""
        lines = self.n_seeds * (len(texts) + 1) * scale
        return self._text(
            sum(later, first * scale),  # later rounds keep a fixed number
            disk=round(lines * BYTES_PER_SCORE),
            memory=round(TEXT_BYTES + MEMORY_PER_SCORE * lines),
            why="the race decides which texts are left: at least, at most" if later else why,
        )

    def _soup(self, name: str) -> Need:
        definition, seeds = self.params.soups[name], self.params.seeds
        pool = "descriptors" if definition.pool == "descriptors" else "words"  # a mixed pool is searched as words are
        period, ranked = self.params.candidates.period(pool), self._ranked(definition.pool)
        text = plan_texts.soup(self._source(), ranked, definition, seeds=seeds, period=period)
        scale = self.scale[pool] if definition.walks else 1
        return self._text(text * scale, why="the search decides: at least, at most")

    def _ranked(self, pool: str) -> list[str]:
        """Candidates by falling accuracy on the first seed; in pool order if they are not scored yet."""
        path = Artifacts().scores(pool)
        if ("mix" if pool == "mixed" else f"score@{pool}") not in self.cached or not path.exists():
            return self.pools[pool]
        encoder = store.table_attributes(path)["encoder"]
        return read_ranked(path, seed=self.params.seeds[0], encoder=encoder).finalists().texts

    def _finetune(self, name: str, *, n_train: int) -> Need:
        method, shared, source = self.params.finetune.methods[name], self.params.finetune, self._source()
        steps = (method.iterations or shared.iterations) * self.n_seeds
        batch = min(method.batch_size or shared.batch_size, len(source.class_names))
        check = plan_texts.so_far(source.texts)
        step = plan_texts.encoded(source.texts, source.text_blocks([""], period=True))
        why = "estimate: every step through both towers, forward and back; tuned weights on disk are left out"
        if copies := self._snapshots(name):
            why += f", and {copies} times as many for snapshots"
        return self._text(
            check + steps * BACKWARD * step,
            images=n_train,
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

    def _soups(self, name: str) -> dict[int, list[str]] | None:
        """The members of a soup by seed; None if it is missing or not up to date."""
        paths = {seed: Artifacts().soup(name, seed=seed) for seed in self.params.seeds}
        if f"soup@{name}" not in self.cached or not all(path.exists() for path in paths.values()):
            return None
        return {seed: Soup.load(path).texts for seed, path in paths.items()}

    @cached_property
    def _material(self) -> Material:
        """What evaluation makes its rows from; random texts of their size stand for missing soups."""
        soups = {}
        for name, definition in self.params.soups.items():
            pool = self.pools[definition.pool]
            length = min(definition.max_words, len(pool)) if isinstance(definition, Growth) else 1
            soups[name] = self._soups(name) or {
                seed: random_chains(pool, lengths=[length] * definition.m, seed=seed) for seed in self.params.seeds
            }
        upper_bound = Artifacts().upper_bound
        return Material(
            seeds=tuple(self.params.seeds),
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            source_class_names=self.datasets[self.params.source].tests.class_names,
            soups=soups,
            upper_bound=Soup.load(upper_bound).texts if "survey" in self.cached and upper_bound.exists() else [],
        )

    def _survey(self) -> Need:
        text = plan_texts.survey(
            self._source(),
            self.params.evaluate.survey,
            tests=self.tests,
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            seed=self.params.seeds[0],
            period=self.params.candidates.words.period,
        )
        return self._text(text, memory=self._features_and_means(1))

    def _evaluate(self) -> Need:
        material, soups = self._material, self.params.soups
        rows = pretrained_rows(material, params=self.params.evaluate)
        soup_pools = {name: soups[name].pool for name in judged_soups(list(soups))}
        beside = [*together_rows(self.params.report.soup, material=material), *random_rows(material, pools=soup_pools)]
        known = material.upper_bound and all(map(self._soups, soups))
        return self._text(
            self._rows(rows, beside=beside, tuned=False),
            memory=self._features_and_means(len(rows)),
            why="" if known else "some soups do not exist yet: random texts of their size stand in for them",
        )

    def _evaluate_tuned(self, name: str) -> Need:
        method = self.params.finetune.methods[name]
        rows = tuned_rows(self._material, params=self.params.evaluate, seed=self.params.seeds[0])
        text = self._rows(rows, beside=[], tuned=True)
        sizes = [dataset.n_test for dataset in self.datasets.values()]
        images = sum(sizes)
        if method.snapshots is not None:
            row, copies = trained_row(rows, soup=method.soup), self._snapshots(name)
            texts = PromptEncoder.of(self.encoder)
            text += copies * plan_texts.evaluation(texts, [row], class_rows=[], beside=[], tests=self.tests)
            images += copies * sum(min(method.snapshots.images, size) for size in sizes)
        images *= method.tune.tunes_images  # otherwise the pretrained tower's features are used
        return self._text(
            text * self.n_seeds,
            images=images,
            image_flops=images * self.image_flops * self.n_seeds,
            memory=self._features_and_means(len(rows)) * (self.n_seeds if images else 1),
            why="estimate: a text tower like the pretrained one",
        )

    def _rows(self, rows: list[Row], *, beside: list[Row], tuned: bool) -> np.ndarray:
        """Rows on every dataset, with those that have prompts of their own for each class: (3,)."""
        ensemble = self.params.evaluate.ensemble and not tuned
        texts, pool = PromptEncoder.of(self.encoder), [] if tuned else self._material.descriptors
        nearest = nearest_prompts(self.tests, pool=pool, m=self.params.evaluate.baseline_m, encoder=texts)
        by_dataset = class_rows(
            self.tests,
            seeds=self.params.seeds,
            templates=ensemble_templates() if ensemble else [],
            nearest=nearest,
            tuned=tuned,
        )
        by_class = [row for dataset_rows in by_dataset.values() for row in dataset_rows]
        return plan_texts.evaluation(texts, rows, class_rows=by_class, beside=beside, tests=self.tests)

    def _features_and_means(self, n_rows: int) -> int:
        """Bytes of the test features of all datasets, and of the mean texts of every row."""
        images = sum(dataset.n_test for dataset in self.datasets.values())
        stems = len(ClassPrompts(self.tests).stems)
        return 4 * self.size * (images + 2 * n_rows * stems) + TEXT_BYTES
