"""Soups for a model in memory, with the functions of the pipeline's stages: the same members and counts.

Defaults are the paper's values (arXiv 2311.13612, section 3), as in params.yaml.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from wsoup.api.arguments import EncoderNames, Features, Labels, Pool, Precision, Tokenizer, checked_labels
from wsoup.api.model import at_work, device_of, in_memory
from wsoup.base import project
from wsoup.base.arguments import Flag, Natural, Whole, at_the_door
from wsoup.base.class_names import Names
from wsoup.base.errors import DataError, MismatchError, one_line
from wsoup.core import prompts
from wsoup.core.scoring import Mode
from wsoup.disk import code
from wsoup.heads.zero_shot import soup_features
from wsoup.params.section import parse
from wsoup.runtime.progress import progress as progress_bar
from wsoup.search.grow import search
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.rank import lists, pools
from wsoup.search.rank.meter import cost_of
from wsoup.search.rank.ranking import ranked
from wsoup.search.rank.source import Source, check_fits
from wsoup.search.rank.statistics import COLUMNS, right_by_name, scores, shards
from wsoup.soup import soup
from wsoup.soup.soup import Template
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tokens import alike
from wsoup.towers.encoder import AUTOCAST, check_device

TEMPLATE = "a photo of a {}."
COMMON_WORDS = 10_000
TEXTS_AT_ONCE = 500
"""Candidates scored together, as `score.shard_size` of the profiles, since batches decide the last bits of a score."""


class Soup(soup.Soup):
    """`wsoup.Soup`: the soup value with its classifier, which needs a text tower."""

    @classmethod
    def of(cls, value: soup.Soup) -> Self:
        """The same soup, as this class."""
        return cls(**vars(value))

    @at_the_door
    def classifier(
        self,
        *,
        class_names: Names,
        model: object,
        tokenizer: Tokenizer,
        template: Template | None = None,
        mode: Mode = "centroid",
        precision: Precision = "fp32",
    ) -> Tensor:
        """Class weights: for each class the mean of the members' text features, normalised (centroids).

        Equal, up to rounding, to `open_clip.build_zero_shot_classifier(model, tokenizer, class_names,
        soup.templates())`, and faster. The model may differ from the one that the soup was selected for.

        Args:
            class_names: C names in label order; any, not only those of the source.
            model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
            template: of another dataset (default: the soup's).
            mode: ``"centroid"``, or ``"score_mean"`` for unnormalised means, whose scores are means of the members'.
            precision: fp32, bf16, fp16 (autocast) or reference.

        Returns:
            (D, C) float32; centroids are columns of length 1. Predictions are `(features @ classifier).argmax(1)`.

        Raises:
            DataError, ModelError, ParamsError: unusable names, model or template.
        """
        template = template or self.template
        with at_work(model, bars=False):
            encoder = PromptEncoder(model, tokenizer, device=device_of(model), dtype=AUTOCAST[precision])
            _, weights = soup_features(
                self, template=template, class_names=class_names, text_encoder=encoder, mode=mode
            )
            return weights.T


@at_the_door
def word_soup(
    features: Features,
    labels: Labels,
    *,
    class_names: Names,
    model: object,
    tokenizer: Tokenizer,
    seed: Natural,
    template: Template = TEMPLATE,
    words: Pool | None = None,
    k0: Whole = 250,
    k1: Whole = 1000,
    patience: Whole = 250,
    m: Whole = 8,
    max_words: Whole = 10,
    period: Flag = False,
    precision: Precision = "fp32",
    encoder: EncoderNames | None = None,
    progress: Flag = True,
) -> Soup:
    """Algorithm 2: m chains of words, each grown from one of the k0 best words.

    Args:
        features: (N, D) image features of this model, L2-normalised; a few images per class are enough.
        labels: (N,) whole numbers in [0, C), or class names.
        class_names: C names in label order.
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        seed: of the draws; the same seed gives the same soup.
        template: prompt template with one ``{}``.
        words: the pool (default: the 10,000 most common English words); of fewer than k1 all are used, with a warning.
        k0, k1, patience, m, max_words: as in params.yaml.
        period: whether texts end in a period during the search; those of a finished soup always do.
        precision: fp32, bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, so that `wsoup classify` can load it.
        progress: whether to show progress bars.

    Raises:
        DataError: features, labels and names that do not fit together.
        MismatchError: features of another model.
        PoolError: a word too long for the model's context.
        ParamsError: a number out of range, a template without placeholder.
    """
    sizes = {"k0": k0, "k1": k1, "patience": patience, "m": m, "max_words": max_words}
    definition = parse(ChainsSoup, {"kind": "chains", "pool": "words", **sizes}, origin="word_soup")
    pool = common_words(COMMON_WORDS) if words is None else words
    towers = _Towers(model, tokenizer, encoder, precision)
    with _source(
        features, labels, class_names=class_names, towers=towers, template=template, seed=seed, progress=progress
    ) as source:
        return _searched(definition, pool=pool, source=source, seed=seed, period=period)


@at_the_door
def descriptor_soup(
    features: Features,
    labels: Labels,
    *,
    class_names: Names,
    model: object,
    tokenizer: Tokenizer,
    seed: Natural = 0,
    template: Template = TEMPLATE,
    descriptors: Pool | None = None,
    m: Whole = 16,
    period: Flag = True,
    precision: Precision = "fp32",
    encoder: EncoderNames | None = None,
    progress: Flag = True,
) -> Soup:
    """Algorithm 1: the best descriptor, then each next one that makes the centroid strictly better, up to m.

    Args:
        seed: recorded in the soup; nothing is drawn.
        period: as in `word_soup`; the authors' descriptors have it in the search.
        descriptors: the pool (default: a few hundred that come with wsoup, on things in photographs).
        features, labels, class_names, model, tokenizer, template, m, precision, encoder, progress: as in
            `word_soup`, and so are the errors.
    """
    definition = parse(GreedySoup, {"kind": "greedy", "pool": "descriptors", "m": m}, origin="descriptor_soup")
    pool = pools.descriptors([project.file("data/photo_descriptors.txt")]) if descriptors is None else descriptors
    towers = _Towers(model, tokenizer, encoder, precision)
    with _source(
        features, labels, class_names=class_names, towers=towers, template=template, seed=seed, progress=progress
    ) as source:
        return _searched(definition, pool=pool, source=source, seed=seed, period=period)


@at_the_door
def score_texts(
    features: Features,
    labels: Labels,
    *,
    texts: Pool,
    class_names: Names,
    model: object,
    tokenizer: Tokenizer,
    template: Template = TEMPLATE,
    period: Flag = True,
    precision: Precision = "fp32",
    progress: Flag = True,
) -> dict[str, list[Any]]:
    """Statistics of each text alone, appended to every class name: columns of a table, for example of pandas.

    Args:
        texts: P descriptors or word chains, each once; "" is the class name alone.
        features, labels, class_names, model, tokenizer, template, period, precision, progress: as in `word_soup`, and
            so are the errors.

    Returns:
        text, n_correct, n_images, alignment (mean cosine of an image and its own class's text), uniformity (mean cosine
        with the other classes' texts), near_ties (answers within 1e-6 of another), k2 (likelihood) and gain_se (images;
        for both see `wsoup.search.rank.statistics`); P values each, in the order of `texts`.
    """
    towers = _Towers(model, tokenizer, None, precision)
    with _source(
        features, labels, class_names=class_names, towers=towers, template=template, seed=0, progress=progress
    ) as source:
        pool = _fitting(texts, source=source, origin="texts")
        columns = _scores(pool, source=source, period=period, label="score texts")
    table: dict[str, list[Any]] = {"text": pool, "n_images": [len(source.labels)] * len(pool)}
    for name in COLUMNS:
        table[name] = columns[name].tolist()
    return table


@at_the_door
def common_words(count: Whole) -> list[str]:
    """The `count` most common English words, the pool of word soups: see `wsoup.search.rank.pools.common_words`."""
    return pools.common_words(count)


class _Towers(NamedTuple):
    """What makes the encoder of a search."""

    model: object
    tokenizer: Tokenizer
    names: EncoderNames | None
    precision: str


@contextmanager
def _source(
    features: Features,
    labels: Labels,
    *,
    class_names: Sequence[str],
    towers: _Towers,
    template: str,
    seed: int,
    progress: bool,
) -> Iterator[Source]:
    """The encoder, and all images as the few-shot subset of the seed; within, the model is in eval mode.

    Raises:
        DataError: labels that do not fit, or of one class only.
        MismatchError: features of another size than the model's texts.
    """
    x = torch.as_tensor(features)
    y = checked_labels(labels, n_images=len(x), class_names=class_names)
    if len(y.unique()) < 2:
        raise DataError(f"{len(y)} images of one class are too few: a search needs a handful of each of two or more")
    device = device_of(towers.model)
    with at_work(towers.model, bars=progress):
        encoder = in_memory(towers.model, tokenizer=towers.tokenizer, names=towers.names, precision=towers.precision)
        x = x.to(check_device(device))
        y = y.to(device)
        everything = {seed: torch.arange(len(y), device=device)}
        source = Source(encoder, x, y, everything, template, list(class_names))
        size = source.text_encoder.encode(["a photo"]).shape[1]
        if x.shape[1] != size:
            raise MismatchError(
                f"image features have {x.shape[1]} dimensions, the model's texts {size}: they are of different models; "
                "encode the images with this model"
            )
        yield source


def _fitting(texts: Sequence[str], *, source: Source, origin: str) -> list[str]:
    """Candidates as they are stored, in order; PoolError if there are none, one is repeated, or one is too long."""
    pool = lists.unique([prompts.bare(text) for text in texts], origin=origin)
    check_fits(pool, source=source, origin=origin)
    return pool


def _searched(
    definition: ChainsSoup | GreedySoup, *, pool: Sequence[str], source: Source, seed: int, period: bool
) -> Soup:
    """Rank the pool and search, as stages score and soup do."""
    pool = _fitting(pool, source=source, origin=definition.pool)
    # A text with the tokens of another has its features, too, and would count twice.
    in_prompts = [f" {text}" for text in pool]
    same = [second[1:] for _, second in alike(in_prompts, tokenizer=source.encoder.tokenizer)]
    if same:
        listed = one_line(", ".join(map(repr, same)), limit=200)
        warnings.warn(
            f"{len(same)} of the {definition.pool} have another's tokens and are left out: {listed}", stacklevel=2
        )
        pool = [text for text in pool if text not in same]
    if isinstance(definition, ChainsSoup):
        definition = _within(definition, n_words=len(pool))
    columns = _scores(pool, source=source, period=period, label=f"score {definition.pool}")
    cost = cost_of(pool, period=period, source=source)
    ranking = ranked(pool, n_correct=columns["n_correct"], log_likelihood=columns["k2"], period=period, cost=cost)
    whole = search.Search(definition, ranking, source, seed)
    numbers = progress_bar(range(definition.parts), label=f"{definition.kind} soup", unit="part")
    parts = map(whole.part, numbers)
    made_with = code.packages(Path(search.__file__))
    return Soup.of(whole.soup(parts, made_with=made_with))


def _within(definition: ChainsSoup, *, n_words: int) -> ChainsSoup:
    """The definition with k0 and k1 that a short list of words has."""
    if definition.k1 <= n_words:
        return definition
    warnings.warn(f"k1 is {definition.k1}, but there are {n_words} words: all of them are used", stacklevel=2)
    return definition.model_copy(update={"k1": n_words, "k0": min(definition.k0, n_words)})


def _scores(pool: Sequence[str], *, source: Source, period: bool, label: str) -> dict[str, np.ndarray]:
    """`COLUMNS` of each text on all images: (P,) each."""
    images = source.images()
    baseline_right = right_by_name(source, images=images, period=period)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}
    with progress_bar(label=label, total=len(pool), unit="text") as bar:
        for texts in shards(pool, size=TEXTS_AT_ONCE):
            block = scores(source, texts, images=images, baseline_right=baseline_right, period=period)
            # All images are one subset, so there is one seed.
            for name in COLUMNS:
                (of_seed,) = block[name]
                columns[name].append(of_seed)
            bar.update(len(texts))
    return {name: np.concatenate(blocks) for name, blocks in columns.items()}
