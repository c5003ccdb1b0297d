"""Accuracy of classifiers as a count; heads from a few labelled images, and adaptation to unlabelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsoup.api import adaptation
from wsoup.api.model import (
    EncoderNames,
    Features,
    Labels,
    Precision,
    Tokenizer,
    at_work,
    checked_classifier,
    checked_labels,
    in_memory,
)
from wsoup.api.photos import Names
from wsoup.api.soups import TEMPLATE
from wsoup.base.arguments import Share, at_the_door
from wsoup.base.errors import MismatchError
from wsoup.core.arrays import Positive
from wsoup.core.scoring import correct, normalize
from wsoup.heads.head import Head, best_head
from wsoup.heads.kinds import checked
from wsoup.soup.soup import Member, Soup, Template
from wsoup.statistics.noise import compare_images
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder


@dataclass(frozen=True)
class Gain:
    """Gain of a classifier over a baseline on the same images.

    Attributes:
        n_gained, n_lost: images that only the classifier gets right, and that only the baseline gets right.
        points: the gain in per cent of all images.
        low, high: its confidence interval (`wsoup.statistics.noise`).
        confidence: level of the interval.
    """

    n_gained: int
    n_lost: int
    points: float
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, right: np.ndarray, baseline_right: np.ndarray, *, confidence: float) -> Gain:
        """From two (N,) bool arrays: which images each gets right."""
        gain = compare_images({"": right[None]}, {"": baseline_right[None]}).fixed
        low, high = gain.interval(confidence)
        counts = int((right & ~baseline_right).sum()), int((baseline_right & ~right).sum())
        return cls(*counts, gain.mean, max(-100.0, low), min(100.0, high), confidence)

    def __str__(self) -> str:
        noise = "" if self.low > 0 or self.high < 0 else ", which may be noise"
        return (
            f"{self.points:+.2f} points [{self.low:+.2f}, {self.high:+.2f}]{noise} "
            f"({self.n_gained} images gained, {self.n_lost} lost)"
        )


@dataclass(frozen=True)
class Accuracy:
    """A count of correct images.

    Attributes:
        n_correct, n_images: counts.
        gain: over the baseline, if one was given.
    """

    n_correct: int
    n_images: int
    gain: Gain | None = None

    @property
    def percent(self) -> float:
        """Per cent of the images."""
        return 100.0 * self.n_correct / self.n_images

    def __str__(self) -> str:
        gain = f", {self.gain}" if self.gain else ""
        return f"{self.percent:.2f} % ({self.n_correct} of {self.n_images}){gain}"


@at_the_door
def zero_shot_accuracy(
    features: Features,
    labels: Labels,
    *,
    classifier: object,
    baseline: object = None,
    class_names: Names | None = None,
    confidence: Share = 0.95,
) -> Accuracy:
    """Count the images that a classifier gets right, and its gain over a baseline.

    Args:
        features: (N, D) image features, L2-normalised.
        labels: (N,) whole numbers in [0, C), or class names.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`; or a head; or what `adapt`
            returns.
        baseline: another classifier, for example `soup.class_name_soup().classifier(...)`: class names alone.
        class_names: C names in label order, if labels are names.
        confidence: level of the gain's interval.

    Raises:
        DataError, MismatchError: shapes that do not fit together, labels out of range.
    """
    x = torch.as_tensor(features)
    right = _right(x, labels, classifier, class_names=class_names, name="classifier")
    gain = None
    if baseline is not None:
        baseline_right = _right(x, labels, baseline, class_names=class_names, name="baseline")
        gain = Gain.of(right, baseline_right, confidence=confidence)
    return Accuracy(int(right.sum()), len(right), gain)


def _right(
    x: Tensor, labels: Labels, classifier: object, *, class_names: Sequence[str] | None, name: str
) -> np.ndarray:
    """(N,) bool: which images a classifier gets right."""
    head = classifier if isinstance(classifier, Head | adaptation.Adapted) else None
    weights = head.classifier.T if head else checked_classifier(classifier, n_features=x.shape[1], name=name)  # (C, D)
    names = [str(i) for i in range(len(weights))] if class_names is None else class_names
    if len(names) != len(weights):
        raise MismatchError(f"{name} has {len(weights)} classes, class_names has {len(names)}")
    x, y = x.to(weights.device), checked_labels(labels, n_images=len(x), class_names=names).to(weights.device)
    return (head.predict(x) == y if head else correct(x, y, weights)).cpu().numpy()


@at_the_door
def fit_head(
    features: Features,
    labels: Labels,
    *,
    class_names: Names,
    model: object,
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
        ParamsError, ModelError, MismatchError: fewer than two classes, unknown kind, or an unusable model.
    """
    x, names = torch.as_tensor(features).cpu(), list(class_names)
    y = checked_labels(labels, n_images=len(x), class_names=names).cpu()
    with at_work(model, bars=False):
        tower = in_memory(model, tokenizer=tokenizer, names=encoder, precision=precision)
        bare = Soup("class_name", 0, template or TEMPLATE, tower.id, (Member(""),), preprocessing=tower.preprocessing)
        soup, template = soup or bare, template or (soup or bare).template
        texts = class_texts(soup, template=template, class_names=names, encoder=PromptEncoder.of(tower))  # (C, D)
    shots, note = checked(x, y, texts=texts.T, logit_scale=logit_scale_of(model), names=names)
    return best_head(shots, kind=kind, soup=soup, template=template, class_names=names, encoder=tower.id, note=note)


@at_the_door
def adapt(
    features: Features, *, classifier: object, model: object = None, logit_scale: Positive | None = None
) -> adaptation.Adapted:
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
    return adaptation.adapt(x.cpu(), texts=texts, logit_scale=scale)
