"""What each stage of a params.yaml needs: texts, images, FLOP and memory, without weights and without running it.

Texts and images come from short formulae. A tower that is neither a ViT nor a ResNet counts as a ViT-B-16.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow.compute as pc

from wsoup.base.errors import WsoupError
from wsoup.datasets import manifest
from wsoup.datasets.paper import paper_dataset
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.pipeline.params import Params
from wsoup.pipeline.planning.need import Need
from wsoup.pipeline.planning.needs_tuned import seen, trained
from wsoup.pipeline.planning.tower_sizes import Towers
from wsoup.search.candidates import pools
from wsoup.search.grow.kind import Growth
from wsoup.towers import config as models
from wsoup.towers.features import HELD_BYTES

IMAGE_BYTES = 110_000
"""Size of a photograph whose file is not at hand."""
TOKENS = {"words": 2, "descriptors": 4}
"""Tokens of a text that it does not share with others, by pool."""
UNSELECTED = 3
"""Rows of as many texts that nobody selected: random descriptors, Waffle's texts, random chains."""
CLASS_PROMPTS = 1024
"""As in `wsoup.evaluate.class_means`; this one and the next a plan does not import."""
BATCHES_PER_SHARD = 16
"""As in `wsoup.images.embed`."""
TEMPLATES = 80
"""Prompt templates of the ensemble, which open_clip knows; a plan does not import it."""
LISTED_BYTES = 400
"""Bytes that path, digest and labels of one image take in memory."""
EVALUATED_BYTES = 60
"""Label, place, predictions and right answers of one test image in memory."""
SCORED_BYTES = 200
"""Bytes that one text of one seed takes in a table of scores."""
T = TypeVar("T")


class DatasetSize(NamedTuple):
    """Classes and images of one dataset; n_train counts the few-shot images of all seeds."""

    classes: int
    n_test: int
    n_train: int
    image_bytes: float = IMAGE_BYTES


class Needs:
    """Needs of the stages of one params.yaml; `unknown` says what could not be counted, and why."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self.n_seeds = len(params.seeds)
        self.unknown: dict[str, str] = {}
        self.datasets: dict[str, DatasetSize] = {}
        for name in params.datasets:
            read = partial(self._dataset, name)
            self.datasets[name] = self._known("not counted: images", read, DatasetSize(0, 0, 0))
        self.source = self.datasets[params.source]
        self.classes = sum(dataset.classes for dataset in self.datasets.values())
        self.n_test = sum(dataset.n_test for dataset in self.datasets.values())
        self.pools = {"words": params.candidates.words.count}
        for pool in params.candidates.pools:
            if pool not in self.pools:
                read_texts = partial(pools.texts_of_pool, params.candidates, pool)
                self.pools[pool] = len(self._known(f"not counted: {pool}", read_texts, list[str]()))
        model = self._known("counted as ViT-B-16", partial(models.known_config, params.encoder), None)
        self.towers = Towers.of(model)

    def _known(self, otherwise: str, read: Callable[[], T], default: T) -> T:
        """What a file says, or the default and a note, the first of its kind."""
        try:
            return read()
        except WsoupError as error:
            self.unknown.setdefault(otherwise, str(error))
            return default

    def _dataset(self, name: str) -> DatasetSize:
        """Its size, from the last run's manifest, the paper's table or the files themselves."""
        params = self.params.datasets[name]
        path = Artifacts().manifest(name)
        if path.exists():
            table = store.read_table(path)
            names = store.table_attributes(path)["class_names"]
            n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
            mean_bytes = pc.mean(table["size"]).as_py()
            n_train = table.num_rows - n_test
            # The last run may have had it as a target, without its training images.
            if params.role == "source" and not n_train:
                n_train = len(names) * self.params.fewshot.shots * self.n_seeds
            return DatasetSize(len(names), n_test, n_train, mean_bytes)
        known = paper_dataset(params.layout, dataset=name)
        if known is not None:
            classes = known.n_classes
            n_test = known.n_test
        else:
            listing = manifest.read_listing(name, params=params)
            classes = len(listing.class_names)
            n_test = len(listing.split(params.test_split).paths)
        n_train = 0
        if params.role == "source":
            n_train = classes * self.params.fewshot.shots * self.n_seeds
        return DatasetSize(classes, n_test, n_train)

    def of(self, stage: str) -> Need:
        """The needs of one stage; those of a stage without a model count for nothing."""
        kind, _, item = stage.partition("@")
        evaluate = self.params.evaluate
        match kind:
            case "embed":
                return self._embedded(self.datasets[item], self.datasets[item].n_test)
            case "embed_train":
                return self._embedded(self.source, self.source.n_train)
            case "score":
                shards = math.ceil(self.pools[item] / self.params.score.shard_size)
                need = self._with_source(self.pools[item], pool=item, images=self.source.n_train)
                return need._replace(shards=max(1, shards))
            case "soup":
                return self._searched(item)
            case "finetune":
                return self._trained(item)
            case "evaluate":
                templates = TEMPLATES if evaluate.has_ensemble else 0
                return self._encoded(self._members(evaluate.baseline_m) + templates, rows=self._rows())
            case "evaluate_tuned":
                return self._tuned(item)
            case "survey":
                texts = evaluate.survey.descriptors or self.pools["descriptors"]
                return self._encoded(texts, rows=0)._replace(shards=2)
        return Need()

    def _embedded(self, dataset: DatasetSize, n: int) -> Need:
        return Need(
            images=n,
            flops=n * self.towers.image_flops,
            image_bytes=n * dataset.image_bytes,
            memory=n * LISTED_BYTES,
            device_memory=self.towers.weights,
            shards=max(1, self._image_shards(n)),
        )

    def _with_source(self, texts: int, *, pool: str, images: int) -> Need:
        """Texts with the source's classes, each counted on some images."""
        encoding = self.towers.token_flops * TOKENS.get(pool, TOKENS["descriptors"])
        counting = 2 * images * self.towers.size
        flops = texts * self.source.classes * (encoding + counting)
        return Need(texts, self.source.classes, flops=flops, memory=SCORED_BYTES * texts * self.n_seeds)

    def _searched(self, name: str) -> Need:
        soup = self.params.soups[name]
        if soup.walks:
            tried = self.pools[soup.pool]
        elif isinstance(soup, Growth):
            tried = soup.m * soup.patience
        else:
            tried = soup.m
        need = self._with_source(self.n_seeds * tried, pool=soup.pool, images=self.source.n_train // self.n_seeds)
        chains = soup.m if isinstance(soup, Growth) and not soup.walks else 1
        return need._replace(shards=self.n_seeds * chains)

    def _trained(self, name: str) -> Need:
        shared = self.params.finetune
        return trained(
            shared.methods[name],
            shared=shared,
            towers=self.towers,
            n_seeds=self.n_seeds,
            classes=self.source.classes,
            image_bytes=self.source.image_bytes,
        )

    def _tuned(self, method: str) -> Need:
        """Rows of finetuned models; test images are encoded again where the image tower was trained."""
        evaluate = self.params.evaluate
        texts = self._encoded(self._members(evaluate.tuned_baseline_m), rows=self._tuned_rows())
        images = self.seen(method)
        return texts._replace(
            images=images.images,
            flops=texts.flops + images.flops,
            image_bytes=images.image_bytes,
            device_memory=max(texts.device_memory, images.device_memory),
            shards=self.n_seeds * texts.shards + images.shards,
        )

    def seen(self, method: str) -> Need:
        """The test images of all datasets as the finetuned models of all seeds see them."""
        chosen = self.params.finetune.methods[method]
        need = seen(chosen, towers=self.towers, n_seeds=self.n_seeds, n_test=self.n_test)
        test_bytes = sum(dataset.n_test * dataset.image_bytes for dataset in self.datasets.values())
        passes = need.images / max(1, self.n_test)
        return need._replace(image_bytes=passes * test_bytes, shards=int(passes * self._image_shards(self.n_test)))

    def _image_shards(self, n: int) -> int:
        return math.ceil(n / (BATCHES_PER_SHARD * self.params.embed.batch_size))

    def _tuned_rows(self) -> int:
        """Rows with shared texts of one finetuned model: soups and texts that nobody selected, with offsets, too."""
        return 2 * (len(self.params.soups) + UNSELECTED) + 1

    def _rows(self) -> int:
        """Rows with shared texts of the pretrained model: by seed, at every size, with offsets."""
        sizes = len(self.params.evaluate.m) + 2
        return self.n_seeds * (len(self.params.soups) + UNSELECTED) * sizes

    def _members(self, baseline: int) -> int:
        """Texts of all seeds' rows, at every offset: members of soups, and of rows that nobody selected."""
        selected = sum(soup.m for soup in self.params.soups.values())
        unselected = UNSELECTED * baseline
        return self.n_seeds * (selected + unselected) * len(self.params.evaluate.offsets)

    def _encoded(self, texts: int, *, rows: int) -> Need:
        """Texts with the classes of every dataset, whose means, one for each row, are compared with all test images."""
        encoding = texts * self.classes * self.towers.token_flops * TOKENS["descriptors"]
        # Once by the score mean and once by the centroid.
        comparing = 2 * rows * sum(2 * each.n_test * each.classes * self.towers.size for each in self.datasets.values())
        # The means of all rows, and those of one block that are added to them.
        of_rows = 2 * 4 * rows * self.classes * self.towers.size
        memory = of_rows + EVALUATED_BYTES * self.n_test
        for dataset in self.datasets.values():
            features = 4 * self.towers.size * dataset.n_test
            # Larger ones are read in blocks.
            if features <= HELD_BYTES:
                memory += features
        return Need(
            texts,
            self.classes,
            flops=encoding + comparing,
            device_memory=memory + self.towers.weights,
            shards=math.ceil(self.classes / CLASS_PROMPTS),
            alone=comparing,
        )
