"""Adaptation of a classifier to a pile of unlabelled images, as far as the pile bears it.

The guard decides without a label. Adaptation hurts where there are few images for each class; where the texts know
little about the images, so that clusters get wrong names; where few of the classes occur, so that true classes are
split among names; where many images are of no class; and where the images contradict the texts by much. Each has a sign
(`wsoup.photos.second_look`) with a limit. If no sign is beyond its limit, adaptation is bold. If one is, it is
cautious: centres count for less, and only so many answers may change as the texts' own groups of images differ from
each other (`wsoup.photos.partly`); none where the texts tell next to nothing. All limits come from labelled photographs
(docs/notes/adaptation.md), and are the same for every pile. They are at the safe end: looser ones gain more on average
and lose more on some piles.

Each photo counts once, whatever its copies: many copies of one would pass for a class.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from wsoup.api.arguments import Features, checked_classifier
from wsoup.api.model import checked_logit_scale
from wsoup.base.arguments import at_the_door
from wsoup.base.arrays import Positive
from wsoup.base.errors import DataError
from wsoup.base.number_of import number_of
from wsoup.core.class_texts import normalize
from wsoup.heads.duplicates import originals
from wsoup.photos.estimation import BOLD, CAUTIOUS, Adapted, Statistics, calibrated, estimate, predict_softly
from wsoup.photos.partly import between, explained, step
from wsoup.photos.second_look import agreement, cost, lift, spread
from wsoup.runtime import threads

FEWEST = 8
"""Fewest images in a pile, for each class of the classifier."""
LEAST_INFORMATION = 0.15
"""Smallest information of the texts' predictions for any change. Sketches at chance have 0.08, photographs 0.4."""
INFORMATION = 0.25
"""Smallest information of the texts' predictions for bold adaptation."""
COST = 0.07
"""Accuracy, as a share, that the changed answers may lose if the texts' own probabilities are right."""
LIFT = 0.4
"""Smallest lift of a class, a log ratio: its text must favour the images that get it by half more."""
AGREEMENT = 0.85
"""Smallest agreement of the second look."""
CHANGED = 0.3
"""Largest share of answers that change in doubt, as a multiple of the variance that lies between the texts' groups."""
SPREAD = 1.3
"""Spread along the texts up to which the note doubts them. It decides nothing: right texts of few classes, or photos of
one class, may have as little."""
DOUBTED = "photos differ by these texts hardly more than by random ones"
KEPT = ": kept the zero-shot classifier"


@at_the_door
def adapt(
    features: Features, *, classifier: object, model: object = None, logit_scale: Positive | None = None
) -> Adapted:
    """A classifier adapted to unlabelled images, or the one given if that is safer.

    Args:
        features: (N, D) image features, L2-normalised: all images that the classifier is meant for; each counts once,
            whatever its copies.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`; columns are normalised, so
            that a score mean becomes its centroid.
        model: the model of these features, for its logit scale (default: a logit scale of 100).
        logit_scale: factor of cosines, instead of the model's.

    Returns:
        `predict`, `predict_proba`, `classifier`, `bias`; `adapted` says whether it was adapted, and `note` how many
        images get another class, why few or none, and how many are copies.

    Raises:
        DataError, MismatchError, ParamsError: shapes that do not fit together, NaN, no images.
    """
    x = torch.as_tensor(features)
    texts = normalize(checked_classifier(classifier, n_features=x.shape[1])).T.cpu()
    if logit_scale is None:
        logit_scale = checked_logit_scale(model)
    return adapted_to(x.cpu(), texts=texts, logit_scale=logit_scale)


def adapted_to(features: Tensor, *, texts: Tensor, logit_scale: float) -> Adapted:
    """A classifier adapted to one pile of unlabelled images, or the zero-shot one; the order of images is irrelevant.

    Args:
        features: (N, D) L2-normalised, N >= 1; read in blocks, so it may be memory-mapped. If some are copies, the
            others are held in memory.
        texts: (D, C) columns of length 1, C >= 2, on the CPU like the features.
        logit_scale: s of the model, above 0: `model.logit_scale.exp()`. The guard relies on it.

    Raises:
        DataError: fewer than two classes.
    """
    if texts.shape[1] < 2:
        raise DataError("adaptation needs at least two classes")
    n_images = len(features)
    is_original = originals(features) == torch.arange(n_images)
    n_copies = n_images - int(is_original.sum())
    if n_copies == 0:
        return _adapted_to_each(features, texts=texts, logit_scale=logit_scale)
    adapted = _adapted_to_each(features[is_original], texts=texts, logit_scale=logit_scale)
    copies = f"{n_copies:,} of {number_of(n_images, 'image')} are copies, and each photo counts once"
    return replace(adapted, note=f"{adapted.note}; {copies}")


def _adapted_to_each(features: Tensor, *, texts: Tensor, logit_scale: float) -> Adapted:
    """`adapted_to` of a pile without copies."""
    n_images = len(features)
    n_classes = texts.shape[1]
    scaled = logit_scale * texts.float()
    # Each class contiguous, as the centres are.
    classifier = scaled.T.contiguous().T
    zero_shot = Adapted(classifier, texts.new_zeros(n_classes).float(), False, "")
    if n_images < FEWEST * n_classes:
        note = f"{number_of(n_images, 'image')} for {n_classes} classes, adaptation needs {FEWEST} for each{KEPT}"
        return replace(zero_shot, note=note)
    with threads.one_thread_for(features.numel() * n_classes):
        return _guarded(features, zero_shot=zero_shot, logit_scale=logit_scale)


def _guarded(features: Tensor, *, zero_shot: Adapted, logit_scale: float) -> Adapted:
    texts, answers = predict_softly(features, by=zero_shot)
    if texts.information < LEAST_INFORMATION:
        told = f"information {texts.information:.2f}, adaptation needs {LEAST_INFORMATION:.2f}"
        return replace(zero_shot, note=f"class texts barely tell these images apart ({told}){KEPT}")
    bold, doubt = _bold(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale)
    chance = _of_chance(spread(features, zero_shot=zero_shot, texts=texts))
    if not doubt:
        return replace(bold, note=_changed(features, by=bold, answers=answers) + chance)
    variance = explained(features, answers=answers, n_classes=len(zero_shot.bias))
    at_most = int(CHANGED * variance * len(features))
    cautious, _ = estimate(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale, trust=CAUTIOUS)
    start = calibrated(zero_shot, texts=texts)
    share = step(features, start=start, end=cautious, at_most=at_most)
    if share == 0:
        return replace(zero_shot, note=doubt + KEPT + chance)
    partly = between(start, cautious, share=share)
    changed = _changed(features, by=partly, answers=answers)
    return replace(partly, note=f"{changed}; cautiously, because {doubt}{chance}")


def _of_chance(spread: float) -> str:
    """A doubt about the texts themselves, which no adaptation can settle, or ""."""
    if spread > SPREAD:
        return ""
    return (
        f"; {DOUBTED} ({spread:.2f} times as much): see that the texts are this model's and name what the photos show"
    )


def _changed(features: Tensor, *, by: Adapted, answers: Tensor) -> str:
    """How many images get another class than their answers by the texts (N,)."""
    changed = int((by.labels_of(features) != answers).sum())
    share = f"{100 * changed / len(features):.0f} %"
    return (
        f"adapted to {len(features):,} images: {changed:,} of them ({share}) get another class than by the texts alone"
    )


def _bold(features: Tensor, *, zero_shot: Adapted, texts: Statistics, logit_scale: float) -> tuple[Adapted, str]:
    """Boldly adapted, and why not to trust it, or ""."""
    if texts.information < INFORMATION:
        told = f"information {texts.information:.2f}, less than {INFORMATION:.2f}"
        return zero_shot, f"class texts tell little about these images ({told})"
    bold, predictions = estimate(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale, trust=BOLD)
    # The cheapest signs come first.
    doubt = doubt_answers(
        cost=cost(features, zero_shot=zero_shot, predictions=predictions),
        lift=lift(features, zero_shot=zero_shot, texts=texts, predictions=predictions),
    )
    if not doubt:
        doubt = doubt_second_look(
            agreement(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale, predictions=predictions)
        )
    return bold, doubt


def doubt_answers(*, cost: float, lift: float) -> str:
    """Why not to trust bold answers, or ""; arguments as in `second_look`."""
    if cost > COST:
        return (
            f"bold adaptation would cost {100 * cost:.1f} points if the texts' own probabilities are right, more than "
            f"{100 * COST:.0f}, as where many images are of no class"
        )
    if lift < LIFT:
        return (
            f"bold adaptation would give a class to images that its text hardly favours (lift {lift:.2f}, less than "
            f"{LIFT:.2f}), as where few of the classes occur"
        )
    return ""


def doubt_second_look(agreement: float) -> str:
    """Why not to trust bold answers that depend on how the mean image is read, or ""."""
    if agreement < AGREEMENT:
        return (
            f"bold adaptation depends on how the mean image is read ({100 * agreement:.0f} % of the predictions agree, "
            f"less than {100 * AGREEMENT:.0f}), as where few of the classes occur"
        )
    return ""
