"""Search on features in memory: all images are the few-shot subset of one seed, as stages score and soup have them."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsoup.api.arguments import EncoderNames, Features, Labels, Tokenizer, checked_labels
from wsoup.api.model import at_work, device_of, in_memory
from wsoup.base.class_names import SHOWN_NAMES
from wsoup.base.errors import DataError, MismatchError, one_line, shown_value
from wsoup.base.number_of import number_of
from wsoup.core import prompts
from wsoup.core.soup import Soup
from wsoup.disk import code
from wsoup.runtime.progress import progress as progress_bar
from wsoup.search.grow import search
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.pools import lists
from wsoup.search.rank.meter import Meter, cost_of
from wsoup.search.rank.ranking import ranked
from wsoup.search.rank.source import Source, check_fits
from wsoup.search.rank.statistics import COLUMNS, right_by_name, scores, shards
from wsoup.texts.tokens import alike
from wsoup.towers.encoder import check_device

TEXTS_AT_ONCE = 500
"""Candidates scored together, as `score.shard_size` of the profiles, since batches decide the last bits of a score."""


class Towers(NamedTuple):
    """What makes the encoder of a search."""

    model: object
    tokenizer: Tokenizer
    names: EncoderNames | None
    precision: str


@contextmanager
def source_of(
    features: Features,
    labels: Labels,
    *,
    class_names: Sequence[str],
    towers: Towers,
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
        raise DataError(f"{number_of(len(y), 'image')} of one class: a search needs a handful of each of two or more")
    _warn_of_unseen(y, class_names=class_names)
    with at_work(towers.model, bars=progress):
        device = device_of(towers.model)
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


def _warn_of_unseen(labels: Tensor, *, class_names: Sequence[str]) -> None:
    """Warn of classes without an image, whose texts can only be wrong answers."""
    seen = {*labels.tolist()}
    unseen = [name for label, name in enumerate(class_names) if label not in seen]
    if unseen:
        listed = ", ".join(map(shown_value, unseen[:SHOWN_NAMES]))
        if len(unseen) > SHOWN_NAMES:
            listed += f" and {len(unseen) - SHOWN_NAMES:,} more"
        warnings.warn(f"no image is of class {listed}; add images, or leave it out of class_names", stacklevel=2)


def fitting(texts: Sequence[str], *, source: Source, origin: str) -> list[str]:
    """Candidates as they are stored, in order; PoolError if there are none, one is repeated, or one is too long."""
    by_number = {number: prompts.bare(text) for number, text in enumerate(texts, start=1)}
    pool = lists.unique(by_number, origin=origin, numbers_are="texts")
    check_fits(pool, source=source, origin=origin)
    return pool


def searched(
    definition: ChainsSoup | GreedySoup, *, pool: Sequence[str], source: Source, seed: int, period: bool
) -> Soup:
    """Rank the pool and search, as stages score and soup do."""
    pool = fitting(pool, source=source, origin=definition.pool)
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
    n_correct = _counted(pool, source=source, seed=seed, period=period, label=f"score {definition.pool}")
    cost = cost_of(pool, period=period, source=source)
    # Counting alone takes half of the time of counting with likelihoods, which neither kind of soup reads.
    no_likelihood = np.full(len(pool), np.nan)
    ranking = ranked(pool, n_correct=n_correct, log_likelihood=no_likelihood, period=period, cost=cost)
    whole = search.Search(definition, ranking, source, seed)
    numbers = progress_bar(range(definition.parts), label=f"{definition.kind} soup", unit="part")
    parts = map(whole.part, numbers)
    made_with = code.packages(Path(search.__file__))
    return whole.soup(parts, made_with=made_with)


def _within(definition: ChainsSoup, *, n_words: int) -> ChainsSoup:
    """The definition with k0 and k1 that a short list of words has."""
    if definition.k1 <= n_words:
        return definition
    warnings.warn(f"k1 is {definition.k1}, but there are {n_words} words: all of them are used", stacklevel=2)
    return definition.model_copy(update={"k1": n_words, "k0": min(definition.k0, n_words)})


def _counted(pool: Sequence[str], *, source: Source, seed: int, period: bool, label: str) -> np.ndarray:
    """Correct images of each text: (P,) int64."""
    meter = Meter(source, seed=seed, period=period)
    counts = []
    with progress_bar(label=label, total=len(pool), unit="text") as bar:
        for texts in shards(pool, size=TEXTS_AT_ONCE):
            counts.append(meter.count(texts))
            bar.update(len(texts))
    return np.concatenate(counts)


def scored(pool: Sequence[str], *, source: Source, period: bool, label: str) -> dict[str, np.ndarray]:
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
