"""Soups for a model in memory, with the functions of the pipeline's stages (`wsoup.api.search`): the same members
and counts.

Defaults are the paper's values (arXiv 2311.13612, section 3), but for `m` of `descriptor_soup`, which is 16 as in the
profile of own photos; the authors' is 64, at which their search ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from torch import Tensor

from wsoup.api.arguments import EncoderNames, Features, Labels, Pool, Precision, Templates, Tokenizer, names_of
from wsoup.api.model import at_work, device_of
from wsoup.api.search import Towers, fitting, scored, searched, source_of
from wsoup.base import project
from wsoup.base.arguments import Flag, Natural, Place, Whole, at_the_door
from wsoup.base.class_names import Names
from wsoup.base.errors import ParamsError
from wsoup.core import soup
from wsoup.core.autoclip import AutoClip
from wsoup.core.member import Member
from wsoup.core.modes import Mode
from wsoup.core.soup import NOT_SELECTED, Template
from wsoup.disk import store
from wsoup.heads.zero_shot import member_texts, soup_texts
from wsoup.paper import soups as of_paper
from wsoup.params.section import parse
from wsoup.search.candidates import pools
from wsoup.search.candidates.templates import checked_templates
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.rank.statistics import COLUMNS
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import AUTOCAST
from wsoup.towers.kept import kept_with

TEMPLATE = "a photo of a {}."
COMMON_WORDS = 10_000
"""Words of the default pool, as in the profiles."""


class Soup(soup.Soup):
    """`wsoup.Soup`: the soup value with its classifier, which needs a text tower."""

    @classmethod
    def of(cls, value: soup.Soup) -> Self:
        """The same soup, as this class."""
        return cls(**vars(value))

    @at_the_door
    def save(self, path: Place) -> None:
        """Write the soup as JSON, atomically; the path may be a URL such as ``s3://...`` or ``hf://...``."""
        if of_paper.is_named(path):
            raise ParamsError(f"{path} is a soup of the paper, not a file; give another name, or ./{path}")
        super().save(path)

    @classmethod
    @at_the_door
    def load(cls, path: Place, *, encoder: Mapping[str, object] | None = None) -> Self:
        """Read a file written by `save`, or take one of the paper's soups, whose counts are known.

        Args:
            path: a soup file or its URL; or ``paper:word``, ``paper:descriptor`` (seed 1), each also with ``-seed2``,
                ``-seed3`` or ``-all`` (the members of all seeds together).
            encoder: required encoder id; None accepts any.

        Raises:
            MissingError: no such file, or no such soup of the paper.
            MismatchError: not a soup, or a soup of another encoder.
        """
        if not of_paper.is_named(path):
            return super().load(path, encoder=encoder)
        theirs = of_paper.named(str(path))
        if encoder is not None:
            store.check_encoder(theirs.encoder, expected=encoder, where=path, step="give one of yours")
        return cls.of(theirs)

    @classmethod
    @at_the_door
    def from_templates(cls, templates: Templates) -> Self:
        """Templates that nobody selected, as a soup: its classifier is the prompt ensemble that is made of them.

        Args:
            templates: M prompt templates, each with one ``{}`` (or ``{c}``, as in CLIP_benchmark's files).

        Raises:
            PoolError: a template without placeholder, or twice; no templates.
        """
        members = tuple(Member(text) for text in checked_templates(templates, origin="templates"))
        return cls(NOT_SELECTED, None, TEMPLATE, {"model": "any", "pretrained": None}, members)

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
        progress: Flag = True,
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
            progress: whether to show progress bars.

        Returns:
            (D, C) float32; centroids are columns of length 1. Predictions are `(features @ classifier).argmax(1)`.

        Raises:
            DataError, ModelError, ParamsError: unusable names, model or template.
        """
        template = template or self.template
        with at_work(model, bars=progress):
            encoder = _text_encoder(model, tokenizer, precision=precision)
            texts = soup_texts(self, template=template, class_names=class_names, text_encoder=encoder)
            return texts.classifier(mode).T

    @at_the_door
    def autoclip(
        self,
        *,
        class_names: Names,
        model: object,
        tokenizer: Tokenizer,
        template: Template | None = None,
        precision: Precision = "fp32",
        progress: Flag = True,
    ) -> AutoClip:
        """A classifier that weighs the members for each image by the image's own scores (AutoCLIP, arXiv 2309.16414).

        It sees one image at a time, and no label. `zero_shot_accuracy` takes it like other classifiers.

        Args:
            class_names: C names in label order; any, not only those of the source.
            model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
            template: of another dataset (default: the soup's).
            precision: fp32, bf16, fp16 (autocast) or reference.
            progress: whether to show progress bars.

        Returns:
            `predict(features)`, labels; `scores(features)`, (N, C); `classifier` (D, C), the centroids without weights.
            It holds M C D numbers: a member's texts of every class.

        Raises:
            DataError, ModelError, ParamsError: unusable names, model or template.
        """
        template = template or self.template
        with at_work(model, bars=progress):
            encoder = _text_encoder(model, tokenizer, precision=precision)
            members = member_texts(self, template=template, class_names=class_names, text_encoder=encoder)
            return AutoClip(members.float())


def _text_encoder(model: object, tokenizer: Tokenizer, *, precision: Precision) -> PromptEncoder:
    return PromptEncoder(model, tokenizer, device=device_of(model), dtype=AUTOCAST[precision], kept=kept_with(model))


def _found(
    definition: ChainsSoup | GreedySoup,
    pool: Sequence[str],
    images: tuple[Features, Labels, Sequence[str]],
    *,
    towers: Towers,
    template: str,
    seed: int,
    period: bool,
    progress: bool,
) -> Soup:
    """The soup of a definition, searched in a pool on all of some images: features, labels and names of classes."""
    features, labels, class_names = images
    with source_of(
        features, labels, class_names=class_names, towers=towers, template=template, seed=seed, progress=progress
    ) as source:
        return Soup.of(searched(definition, pool=pool, source=source, seed=seed, period=period))


@at_the_door
def word_soup(
    features: Features,
    labels: Labels,
    *,
    class_names: Names | None = None,
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
        class_names: C names in label order (default: of labels that are names, these names in sorted order).
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        seed: of the draws; the same seed gives the same soup.
        template: prompt template with one ``{}`` (default ``a photo of a {}.``).
        words: the pool (default: the 10,000 most common English words); of fewer than k1 all are used, with a warning.
        k0: first words come from this many best words (default 250); more give more varied chains.
        k1: further words come from this many best words (default 1000).
        patience: how many further words are tried for one chain (default 250); run time is proportional.
        m: number of chains (default 8); run time is proportional.
        max_words: most words of one chain (default 10).
        period: whether texts end in a period during the search (default False); those of a finished soup always do.
        precision: of the text features: fp32 (the default), bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, so that `wsoup classify` can load it.
        progress: whether to show progress bars (default True).

    Raises:
        DataError: features, labels and names that do not fit together.
        MismatchError: features of another model.
        PoolError: a word too long for the model's context.
        ParamsError: a number out of range, a template without placeholder.
    """
    sizes = {"k0": k0, "k1": k1, "patience": patience, "m": m, "max_words": max_words}
    definition = parse(ChainsSoup, {"kind": "chains", "pool": "words", **sizes}, origin="word_soup")
    pool = common_words(COMMON_WORDS) if words is None else words
    return _found(
        definition,
        pool,
        (features, labels, names_of(labels, class_names)),
        towers=Towers(model, tokenizer, encoder, precision),
        template=template,
        seed=seed,
        period=period,
        progress=progress,
    )


@at_the_door
def descriptor_soup(
    features: Features,
    labels: Labels,
    *,
    class_names: Names | None = None,
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
        features: (N, D) image features of this model, L2-normalised; a few images per class are enough.
        labels: (N,) whole numbers in [0, C), or class names.
        class_names: C names in label order (default: of labels that are names, these names in sorted order).
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        seed: recorded in the soup (default 0); nothing is drawn.
        template: prompt template with one ``{}`` (default ``a photo of a {}.``).
        descriptors: the pool (default: a few hundred that come with wsoup, on things in photographs).
        m: most members (default 16; the authors' is 64).
        period: whether texts end in a period during the search (default True, as the authors' descriptors do).
        precision: of the text features: fp32 (the default), bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, so that `wsoup classify` can load it.
        progress: whether to show progress bars (default True).

    Raises:
        DataError, MismatchError, PoolError, ParamsError: as `word_soup`.
    """
    definition = parse(GreedySoup, {"kind": "greedy", "pool": "descriptors", "m": m}, origin="descriptor_soup")
    pool = pools.descriptors([project.file("data/photo_descriptors.txt")]) if descriptors is None else descriptors
    return _found(
        definition,
        pool,
        (features, labels, names_of(labels, class_names)),
        towers=Towers(model, tokenizer, encoder, precision),
        template=template,
        seed=seed,
        period=period,
        progress=progress,
    )


@at_the_door
def template_soup(
    features: Features,
    labels: Labels,
    *,
    class_names: Names | None = None,
    model: object,
    tokenizer: Tokenizer,
    seed: Natural = 0,
    templates: Templates | None = None,
    m: Whole = 8,
    precision: Precision = "fp32",
    encoder: EncoderNames | None = None,
    progress: Flag = True,
) -> Soup:
    """Algorithm 1 on prompt templates: the best one, then each next one that makes the centroid strictly better.

    In this way OpenAI chose seven of its 80 templates.

    Args:
        features: (N, D) image features of this model, L2-normalised; a few images per class are enough.
        labels: (N,) whole numbers in [0, C), or class names.
        class_names: C names in label order (default: of labels that are names, these names in sorted order).
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        seed: recorded in the soup (default 0); nothing is drawn.
        templates: the pool, each with one ``{}`` (default: OpenAI's 80).
        m: most members (default 8).
        precision: of the text features: fp32 (the default), bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, so that `wsoup classify` can load it.
        progress: whether to show progress bars (default True).

    Raises:
        DataError, MismatchError, PoolError, ParamsError: as `word_soup`; PoolError for a template without placeholder.
    """
    definition = parse(GreedySoup, {"kind": "greedy", "pool": "templates", "m": m}, origin="template_soup")
    pool = pools.openai80() if templates is None else checked_templates(templates, origin="templates")
    return _found(
        definition,
        pool,
        (features, labels, names_of(labels, class_names)),
        towers=Towers(model, tokenizer, encoder, precision),
        template=TEMPLATE,
        seed=seed,
        period=True,
        progress=progress,
    )


@at_the_door
def score_texts(
    features: Features,
    labels: Labels,
    *,
    texts: Pool,
    class_names: Names | None = None,
    model: object,
    tokenizer: Tokenizer,
    template: Template = TEMPLATE,
    period: Flag = True,
    precision: Precision = "fp32",
    progress: Flag = True,
) -> dict[str, list[Any]]:
    """Statistics of each text alone with every class name: columns of a table, for example of pandas.

    Args:
        features: (N, D) image features of this model, L2-normalised; a few images per class are enough.
        labels: (N,) whole numbers in [0, C), or class names.
        texts: P descriptors, word chains or templates, each once; "" is the class name alone.
        class_names: C names in label order (default: of labels that are names, these names in sorted order).
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        template: prompt template with one ``{}`` (default ``a photo of a {}.``).
        period: whether prompts end in a period (default True).
        precision: of the text features: fp32 (the default), bf16, fp16 (autocast) or reference.
        progress: whether to show progress bars (default True).

    Returns:
        text, n_images and the columns of a score table (docs/pipeline.md): n_correct, alignment, uniformity, near_ties,
        k2 and gain_se; P values each, in the order of `texts`.

    Raises:
        DataError, MismatchError, PoolError, ParamsError: as `word_soup`.
    """
    towers = Towers(model, tokenizer, None, precision)
    with source_of(
        features,
        labels,
        class_names=names_of(labels, class_names),
        towers=towers,
        template=template,
        seed=0,
        progress=progress,
    ) as source:
        pool = fitting(texts, source=source, origin="texts")
        columns = scored(pool, source=source, period=period, label="score texts")
    table: dict[str, list[Any]] = {"text": pool, "n_images": [len(source.labels)] * len(pool)}
    for name in COLUMNS:
        table[name] = columns[name].tolist()
    return table


@at_the_door
def common_words(count: Whole = COMMON_WORDS) -> list[str]:
    """The most common English words, the most common first: the pool of word soups.

    Args:
        count: how many (default 10,000, as in the paper).

    Raises:
        ParamsError: a number that is not whole or not positive.
    """
    return pools.common_words(count)
