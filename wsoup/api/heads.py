"""Heads from a few labelled images, and adaptation to unlabelled ones, for a model in memory."""

from typing import Any

import torch

from wsoup.adaptation import em
from wsoup.adaptation.em import Adapted
from wsoup.api.arguments import EncoderNames, Features, Labels, Names, Precision, checked_classifier, checked_labels
from wsoup.api.model import Tokenizer, at_work, device_of, in_memory
from wsoup.api.soups import TEMPLATE
from wsoup.base.arguments import at_the_door
from wsoup.core.arrays import Positive
from wsoup.core.scoring import normalize
from wsoup.heads.head import Head, best_head
from wsoup.heads.kinds import checked
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup, Template
from wsoup.texts.classes import logit_scale_of, soup_features
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import AUTOCAST


@at_the_door
def fit_head(
    features: Features,
    labels: Labels,
    *,
    class_names: Names,
    model: Any,
    tokenizer: Tokenizer,
    soup: Soup | None = None,
    kind: str = "both",
    template: Template | None = None,
    precision: Precision = "fp32",
    encoder: EncoderNames | None = None,
) -> Head:
    """A classifier from a few labelled images of each class: closed form, in seconds.

    Hyperparameters, temperature and abstention are chosen on these images alone, leaving out each shot in turn.
    This needs two images or more of each class; `Head.note` says if there were fewer.

    Args:
        features: (n, D) image features of this model, L2-normalised.
        labels: (n,) whole numbers in [0, C), or class names.
        class_names: C names in label order, each with at least one image.
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        soup: whose texts the head builds on (default: the class name alone).
        kind: ``"prototypes"``, ``"ridge"`` or ``"both"``, their mean; see `wsoup.heads.kinds`.
        template: prompt template with one ``{}`` (default: the soup's).
        precision: of the text features: fp32, bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, recorded in the head.

    Raises:
        DataError: features, labels and names that do not fit together, a class without images, or the same photo under
            two labels.
        ParamsError, ModelError, MismatchError: unknown kind, or an unusable model.
    """
    names = list(class_names)
    x = torch.as_tensor(features)
    y = checked_labels(labels, n_images=len(x), class_names=names)
    with at_work(model, bars=False):
        texts = PromptEncoder(model, tokenizer, device=device_of(model), dtype=AUTOCAST[precision])
        tower = in_memory(model, tokenizer=tokenizer, names=encoder, precision=precision)
        members = (Member(""),)
        soup = soup or Soup("class_name", 0, template or TEMPLATE, tower.id, members, preprocessing=tower.preprocessing)
        template = template or soup.template
        centroids = soup_features(soup, template=template, class_names=names, encoder=texts)[1]  # (C, D)
    shots, note = checked(x.cpu(), y.cpu(), texts=centroids.T.cpu(), logit_scale=logit_scale_of(model), names=names)
    return best_head(shots, kind=kind, soup=soup, template=template, class_names=names, encoder=tower.id, note=note)


@at_the_door
def adapt(features: Features, *, classifier: Any, model: Any = None, logit_scale: Positive | None = None) -> Adapted:
    """A classifier adapted to unlabelled images, or the one given if that is safer.

    Args:
        features: (N, D) image features, L2-normalised: all images that the classifier is meant for.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`.
        model: the model of these features, for its logit scale (default: a logit scale of 100).
        logit_scale: factor of cosines, instead of the model's.

    Returns:
        `predict`, `predict_proba`, `classifier`, `bias`; `adapted` says whether it was adapted, and `note` why.

    Raises:
        DataError, MismatchError, ParamsError: shapes that do not fit together, NaN, no images.
    """
    x = torch.as_tensor(features)
    texts = normalize(checked_classifier(classifier, n_features=x.shape[1])).T.cpu()
    scale = logit_scale_of(model) if logit_scale is None else logit_scale
    return em.adapt(x.cpu(), texts=texts, logit_scale=scale)
