"""Soups for a model in memory, by the functions that the pipeline's stages call: the same members and counts.

What is left open takes the paper's values (arXiv 2311.13612, section 3), as params.yaml states them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from wsoup.api.arguments import EncoderNames, Features, Names, Pool, Precision, checked_source
from wsoup.api.model import Tokenizer, at_work, check_sizes, device_of, in_memory
from wsoup.core.arguments import Flag, Natural, Template, Whole, at_the_door
from wsoup.core.disk import code, project
from wsoup.core.params.section import parse
from wsoup.core.scoring import Mode
from wsoup.runtime.progress import progress as progress_bar
from wsoup.search.grow import soups
from wsoup.search.grow.params import ChainsSoup, GreedySoup, SoupParams
from wsoup.search.rank import pools
from wsoup.search.rank.cost import cost_of
from wsoup.search.rank.ranking import ranked
from wsoup.search.rank.source import Source, check_fits
from wsoup.search.rank.statistics import COLUMNS, right_by_name, scores, shards
from wsoup.soup import soup
from wsoup.texts.classes import soup_features
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tried import check_texts
from wsoup.towers.encoder import AUTOCAST, check_device, preprocessing_of

TEMPLATE = "a photo of a {}."
COMMON_WORDS = 10_000
TEXTS_AT_ONCE = 500
"""Candidates scored together, as `score.shard_size` of the profiles: batches decide the last bits of a score."""


class Soup(soup.Soup):
    """A soup that can be used: what `wsoup.Soup` is. Stages read the plain value, which needs no text towers."""

    @classmethod
    def of(cls, made: soup.Soup) -> Self:
        """The same soup, of this class."""
        return cls(**{field.name: getattr(made, field.name) for field in fields(made)})

    @at_the_door
    def classifier(
        self,
        *,
        class_names: Names,
        model: Any,
        tokenizer: Tokenizer,
        template: Template | None = None,
        mode: Mode = "centroid",
        precision: Precision = "fp32",
    ) -> Tensor:
        """Class weights: the mean of the members' text features for each class, normalised (centroids).

        The same as `open_clip.build_zero_shot_classifier(model, tokenizer, class_names, soup.templates())`, up to
        rounding, and faster. A soup may be used with another model than the one it was selected for.

        Args:
            class_names: C names in label order; any, not only those of the source.
            model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
            template: of another dataset (default: the soup's).
            mode: ``"centroid"``, or ``"score_mean"``: the mean as it is, so that scores are means of the members'.
            precision: fp32, bf16, fp16 (autocast) or reference.

        Returns:
            (D, C) float32, of centroids columns of length 1: `(features @ classifier).argmax(1)` are predictions.

        Raises:
            DataError, ModelError, ParamsError: names, model or template that will not do.
        """
        with at_work(model, bars=False):
            encoder = PromptEncoder(model, tokenizer, device=device_of(model), dtype=AUTOCAST[precision])
            wanted = template or self.template
            return soup_features(self, template=wanted, class_names=class_names, encoder=encoder, mode=mode)[1].T


@at_the_door
def word_soup(
    features: Features,
    labels: Any,
    *,
    class_names: Names,
    model: Any,
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
        features: (N, D) image features of this model, L2-normalised; a handful of images of each class is enough.
        labels: (N,) whole numbers in [0, C), or class names.
        class_names: C names in label order.
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        seed: names the draws; the same seed gives the same soup.
        template: prompt template with one ``{}``.
        words: the pool; None: the 10,000 most common English words.
        k0, k1, patience, m, max_words: as in params.yaml.
        period: whether texts carry the final period while they are searched; a finished soup always does.
        precision: fp32, bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, for `wsoup classify` to load it again.
        progress: whether bars are drawn.

    Raises:
        DataError: features, labels or names that do not fit each other.
        MismatchError: features of another model.
        PoolError: fewer words than k1, or one too long for the model's context.
        ParamsError: a number out of range, a template without placeholder.
    """
    shape = {"k0": k0, "k1": k1, "patience": patience, "m": m, "max_words": max_words}
    definition = parse(ChainsSoup, {"kind": "chains", "pool": "words", **shape}, origin="word_soup")
    asked = _Asked(class_names, template=template, seed=seed, precision=precision, encoder=encoder, progress=progress)
    with asked.source(features, labels, model=model, tokenizer=tokenizer) as source:
        return asked.soup(definition, pool=words or common_words(COMMON_WORDS), source=source, period=period)


@at_the_door
def descriptor_soup(
    features: Features,
    labels: Any,
    *,
    class_names: Names,
    model: Any,
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
        seed: kept in the soup; nothing is drawn.
        period: descriptors carry it in the search, as the authors' do.
        descriptors: the pool; None: the few hundred of things in photographs that wsoup brings.
        features, labels, class_names, model, tokenizer, template, m, precision, encoder, progress: as in
            `word_soup`, and so are the errors.
    """
    definition = parse(GreedySoup, {"kind": "greedy", "pool": "descriptors", "m": m}, origin="descriptor_soup")
    pool = descriptors or pools.descriptors([project.file("data/photo_descriptors.txt")])
    asked = _Asked(class_names, template=template, seed=seed, precision=precision, encoder=encoder, progress=progress)
    with asked.source(features, labels, model=model, tokenizer=tokenizer) as source:
        return asked.soup(definition, pool=pool, source=source, period=period)


@at_the_door
def score_texts(
    features: Features,
    labels: Any,
    *,
    texts: Pool,
    class_names: Names,
    model: Any,
    tokenizer: Tokenizer,
    template: Template = TEMPLATE,
    period: Flag = True,
    precision: Precision = "fp32",
    progress: Flag = True,
) -> dict[str, list[Any]]:
    """What every text alone does, appended to every class name: columns of a table, for example of pandas.

    Args:
        texts: P descriptors or word chains, each once; "" is the class name alone.
        features, labels, class_names, model, tokenizer, template, period, precision, progress: as in `word_soup`, and
            so are the errors.

    Returns:
        text, n_correct, n_images, alignment (mean cosine of an image and its own class's text), uniformity (and the
        other classes' texts), near_ties (answers within 1e-6 of another), k2 (likelihood) and gain_se (images; both see
        `wsoup.search.rank.statistics`); P values each, in the order of `texts`.
    """
    asked = _Asked(class_names, template=template, seed=0, precision=precision, encoder=None, progress=progress)
    with asked.source(features, labels, model=model, tokenizer=tokenizer) as source:
        check_fits(texts, source=source, origin="texts")
        columns = _scores(texts, source=source, period=period, label="score texts")
    n_images = [len(source.labels)] * len(texts)
    return {"text": list(texts), "n_images": n_images, **{name: columns[name].tolist() for name in COLUMNS}}


@at_the_door
def common_words(count: Whole) -> list[str]:
    """The `count` most common English words, the pool of word soups: see `wsoup.search.rank.pools.common_words`."""
    return pools.common_words(count)


class _Asked:
    """What all searches share, checked; then the images and texts that a search may see, and what it found."""

    def __init__(
        self,
        class_names: Names,
        *,
        template: str,
        seed: int,
        precision: Precision,
        encoder: EncoderNames | None,
        progress: bool,
    ) -> None:
        self.class_names, self.template, self.seed = list(class_names), template, seed
        self.precision, self.encoder, self.bars = precision, encoder, progress

    @contextmanager
    def source(self, features: Any, labels: Any, *, model: Any, tokenizer: Tokenizer) -> Iterator[Source]:
        """The images with the seed's subset, all of them; within, the model is in eval mode."""
        y = checked_source(features, labels, class_names=self.class_names)
        with at_work(model, bars=self.bars):
            check_texts(model, tokenizer, device=device_of(model))
            encoder = in_memory(
                model,
                tokenizer=tokenizer,
                preprocessing=preprocessing_of(model),
                names=self.encoder,
                precision=self.precision,
                device=check_device(device_of(model)),
            )
            x, y = features.to(encoder.device), y.to(encoder.device)
            everything = {self.seed: torch.arange(len(y), device=encoder.device)}
            source = Source(encoder, x, y, everything, self.template, self.class_names)
            check_sizes(x, source.texts)
            yield source

    def soup(self, definition: SoupParams, *, pool: Sequence[str], source: Source, period: bool) -> Soup:
        """Rank the pool and search, as stages score and soup do."""
        check_fits(pool, source=source, origin=definition.pool)
        columns = _scores(pool, source=source, period=period, label=f"score {definition.pool}")
        cost = cost_of(pool, period=period, source=source)
        best = ranked(
            list(pool), n_correct=columns["n_correct"], log_likelihood=columns["k2"], period=period, cost=cost
        )
        chosen = soups.candidates(definition, best)
        parts = progress_bar(range(definition.parts), label=f"{definition.kind} soup", unit="part")
        made = [soups.members(definition, ranked=chosen, source=source, seed=self.seed, part=part) for part in parts]
        made_with = code.packages(Path(soups.__file__))
        return Soup.of(soups.made(definition, made, pool=best, source=source, seed=self.seed, made_with=made_with))


def _scores(pool: Sequence[str], *, source: Source, period: bool, label: str) -> dict[str, np.ndarray]:
    """`COLUMNS` of every text on all images: (P,) each."""
    images, blocks = source.images(), []
    baseline_right = right_by_name(source, images=images, period=period)
    with progress_bar(label=label, total=len(pool), unit="text") as bar:
        for texts in shards(pool, size=TEXTS_AT_ONCE):
            blocks.append(scores(source, texts, images=images, baseline_right=baseline_right, period=period))
            bar.update(len(texts))
    return {name: np.concatenate([block[name][0] for block in blocks]) for name in COLUMNS}
