"""A head on a soup from a few labelled photos, and adaptation to a pile without labels, of a model in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wsoup.adapt import kinds as adapting
from wsoup.adapt.adapted import Adapted
from wsoup.api.arguments import EncoderNames, Features, Names, Precision, checked_classifier, checked_labels
from wsoup.api.model import Tokenizer, at_work, device_of, identity
from wsoup.api.soups import TEMPLATE
from wsoup.core.arguments import Template, at_the_door
from wsoup.core.arrays import Positive
from wsoup.core.scoring import normalize
from wsoup.heads import fewshot
from wsoup.heads.choose import ANY
from wsoup.heads.head import Head, made
from wsoup.soup import soup as soups
from wsoup.texts.classes import logit_scale_of, soup_features
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import AUTOCAST, preprocessing_of


@at_the_door
def fit_head(
    features: Features,
    labels: Any,
    *,
    class_names: Names,
    model: Any,
    tokenizer: Tokenizer,
    soup: soups.Soup | None = None,
    kind: str | Sequence[str] | None = None,
    template: Template | None = None,
    precision: Precision = "fp32",
    encoder: EncoderNames | None = None,
) -> Head:
    """A classifier for classes of which there are a few labelled images: closed form, in seconds.

    Kind, hyperparameters, temperature and abstention are chosen on these images alone, by leaving out each shot in
    turn. Two images of each class or more are needed for that; `Head.note` says where they were not there.

    Args:
        features: (n, D) image features of this model, L2-normalised.
        labels: (n,) whole numbers in [0, C), or class names.
        class_names: C names in label order, each with an image at least.
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        soup: whose texts stand beside the images; None: the class name alone.
        kind: of `wsoup.heads.kinds`, or several, of which a later one must be better than by chance; None: prototypes,
            ridge and gda.
        template: prompt template with one ``{}``; None: the soup's own.
        precision: of the text features: fp32, bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, to be kept in the head.

    Raises:
        DataError: features, labels or names that do not fit each other, a class without an image, or the same photo
            under two labels.
        ParamsError, ModelError, MismatchError: another kind, or a model that will not do.
    """
    names = list(class_names)
    y = checked_labels(labels, n_images=len(features), class_names=names)
    with at_work(model, bars=False):
        texts = PromptEncoder(model, tokenizer, device=device_of(model), dtype=AUTOCAST[precision])
        about = identity(model, tokenizer, names=encoder, precision=precision)
        name, how = (soups.Member(""),), preprocessing_of(model)
        of = soup or soups.Soup("class_name", 0, template or TEMPLATE, about, name, preprocessing=how)
        wanted = template or of.template
        centroids = soup_features(of, template=wanted, class_names=names, encoder=texts)[1]  # (C, D)
    scale = logit_scale_of(model)
    shots, said = fewshot.checked(features.cpu(), y.cpu(), texts=centroids.T.cpu(), logit_scale=scale, names=names)
    kinds = [kind] if isinstance(kind, str) else list(ANY if kind is None else kind)
    return made(shots, kinds=kinds, soup=of, template=wanted, class_names=names, encoder=about, note=said)


@at_the_door
def adapt(
    features: Features, *, classifier: Any, kind: str = "em", model: Any = None, logit_scale: Positive | None = None
) -> Adapted:
    """A classifier adapted to a pile of unlabelled images, or the texts' own where that is safer.

    Args:
        features: (N, D) image features, L2-normalised: the whole pile, which is also what it is for.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`.
        kind: ``"em"`` (class centres and weights) or ``"center"`` (the mean image taken off).
        model: whose features these are, for its logit scale; or give `logit_scale`. Without either it is 100.
        logit_scale: what cosines are multiplied by.

    Returns:
        `predict`, `predict_proba`, `classifier`, `bias`; `adapted` says which of the two it is, and `note` why.

    Raises:
        DataError, MismatchError, ParamsError: shapes that do not fit each other, NaN, no images, another kind.
    """
    texts = normalize(checked_classifier(classifier, n_features=features.shape[1])).T.cpu()
    scale = logit_scale_of(model) if logit_scale is None else logit_scale
    return adapting.adapt(features.cpu(), texts=texts, logit_scale=scale, kind=kind)
