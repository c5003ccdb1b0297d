"""What each stage of a params.yaml needs: texts, images, FLOP and memory, without weights and without running it.

Texts and images come from short formulae. A tower that is neither a ViT nor a ResNet counts as a ViT-B-16.
"""

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
from wsoup.search.candidates import pools
from wsoup.search.grow.kind import Growth
from wsoup.towers import config as models
from wsoup.towers.features import HELD_BYTES

IMAGE_BYTES = 110_000
"""Size of a photograph whose file is not at hand."""
TOKENS = {"words": 2, "descriptors": 4}
"""Tokens of a text that it does not share with others, by pool."""
TEMPLATES = 80
"""Prompt templates of the ensemble, which open_clip knows; a plan does not import it."""
PROMPT_TOKENS = 10
"""Tokens of a class prompt in training, where nothing is shared."""
LISTED_BYTES = 400
"""Bytes that path, digest and labels of one image take in memory."""
EVALUATED_BYTES = 60
"""Label, place, predictions and right answers of one test image in memory."""
SCORED_BYTES = 200
"""Bytes that one text of one seed takes in a table of scores."""
RN50_FLOPS = 12e9
"""FLOPs of a ResNet of 16 blocks and width 64 on 224 x 224 pixels."""
T = TypeVar("T")


class DatasetSize(NamedTuple):
    """Classes and images of one dataset; n_train counts the few-shot images of all seeds."""

    classes: int
    n_test: int
    n_train: int
    image_bytes: float = IMAGE_BYTES


class Need(NamedTuple):
    """What a stage needs: texts with each of some classes, images to decode, work in FLOP, and memory in bytes."""

    texts: int = 0
    classes: int = 0
    images: int = 0
    flops: float = 0
    image_bytes: float = 0
    memory: float = 0


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
        # The defaults of open_clip's configs are those of ViT-B.
        text = models.Text()
        vision = models.Vision()
        self.size = 512
        model = self._known("counted as ViT-B-16", partial(models.known_config, params.encoder), None)
        if model is not None:
            text = model.text_cfg
            vision = model.vision_cfg
            self.size = model.embed_dim
        self.token_flops = text.layers * _block(text)
        self.image_flops = _image_flops(vision)

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
            return DatasetSize(len(names), n_test, table.num_rows - n_test, mean_bytes)
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
                return self._with_source(self.pools[item], pool=item, images=self.source.n_train)
            case "soup":
                return self._searched(item)
            case "finetune":
                return self._trained(item)
            case "evaluate":
                templates = TEMPLATES if evaluate.ensemble else 0
                return self._encoded(self._members(evaluate.baseline_m) + templates)
            case "evaluate_tuned":
                return self._tuned(item)
            case "survey":
                return self._encoded(evaluate.survey.descriptors or self.pools["descriptors"])
        return Need()

    def _embedded(self, dataset: DatasetSize, n: int) -> Need:
        return Need(
            images=n,
            flops=n * self.image_flops,
            image_bytes=n * dataset.image_bytes,
            memory=n * LISTED_BYTES,
        )

    def _with_source(self, texts: int, *, pool: str, images: int) -> Need:
        """Texts with the source's classes, each counted on some images."""
        encoding = self.token_flops * TOKENS.get(pool, TOKENS["descriptors"])
        counting = 2 * images * self.size
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
        return self._with_source(self.n_seeds * tried, pool=soup.pool, images=self.source.n_train // self.n_seeds)

    def _trained(self, name: str) -> Need:
        shared = self.params.finetune
        method = shared.methods[name]
        steps = (method.iterations or shared.iterations) * self.n_seeds
        images = steps * min(method.batch_size or shared.batch_size, self.source.classes)
        text_flops = steps * self.source.classes * PROMPT_TOKENS * self.token_flops
        image_flops = images * self.image_flops
        # Forward and back through a tower is three times forward.
        flops = 3 * text_flops + image_flops
        if method.tune.tunes_images:
            flops += 2 * image_flops
        return Need(steps, self.source.classes, images, flops, images * self.source.image_bytes)

    def _tuned(self, method: str) -> Need:
        """Rows of finetuned models; test images are encoded again where the image tower was trained."""
        evaluate = self.params.evaluate
        need = self._encoded(self._members(evaluate.tuned_baseline_m))
        if not self.params.finetune.methods[method].tune.tunes_images:
            return need
        images = self.n_seeds * self.n_test
        return need._replace(images=images, flops=need.flops + images * self.image_flops)

    def _members(self, baseline: int) -> int:
        """Texts of all seeds' rows, at every offset: members of soups, and of rows that nobody selected."""
        selected = sum(soup.m for soup in self.params.soups.values())
        # Random descriptors, Waffle's texts, and random chains, which are about as many.
        unselected = 3 * baseline
        return self.n_seeds * (selected + unselected) * len(self.params.evaluate.offsets)

    def _encoded(self, texts: int) -> Need:
        """Texts with the classes of every dataset, compared with all test images."""
        encoding = self.classes * self.token_flops * TOKENS["descriptors"]
        comparing = 2 * self.n_test * self.size
        memory = 4 * self.size * 2 * self.classes + EVALUATED_BYTES * self.n_test
        for dataset in self.datasets.values():
            features = 4 * self.size * dataset.n_test
            # Larger ones are read in blocks.
            if features <= HELD_BYTES:
                memory += features
        return Need(texts, self.classes, flops=texts * (encoding + comparing), memory=memory)


def _block(tower: models.Vision | models.Text) -> float:
    """FLOPs of a token in one block: attention's four products and the two of the perceptron."""
    return 2 * (4 + 2 * tower.mlp_ratio) * tower.width**2


def _image_flops(vision: models.Vision) -> float:
    """FLOPs of one image: a ViT's patches go through its blocks; a ResNet is compared with RN50."""
    size = vision.image_size if isinstance(vision.image_size, int) else max(vision.image_size)
    if isinstance(vision.layers, list):
        return RN50_FLOPS * sum(vision.layers) / 16 * (vision.width / 64) ** 2 * (size / 224) ** 2
    tokens = (size // (vision.patch_size or 16)) ** 2 + 1
    return vision.layers * _block(vision) * tokens
