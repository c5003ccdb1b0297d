"""Adaptation of a classifier to a pile of unlabelled images, with a guard that keeps the zero-shot classifier.

The guard decides without a label. Adaptation hurts where there are few images for each class; where the texts know
little about the images, so that clusters get wrong names; where few of the classes occur, so that true classes are
split among names; where many images are of no class; and where the images contradict the texts by much. Each has a sign
(`wsoup.photos.second_look`) with a limit, and the first that is beyond it decides. All limits come from labelled
photographs (docs/notes/adaptation.md), and are the same for every pile. They are at the safe end: looser ones gain more
on average and lose more on some piles.
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
from wsoup.core.class_texts import normalize
from wsoup.photos.estimation import Adapted, estimate, predict_softly
from wsoup.photos.second_look import agreement, cost, lift
from wsoup.runtime import threads

FEWEST = 8
"""Fewest images in a pile, for each class of the classifier."""
INFORMATION = 0.25
"""Smallest information of the texts' predictions. Sketches at chance have 0.08, photographs 0.4."""
COST = 0.07
"""Accuracy, as a share, that the changed answers may lose if the texts' own probabilities are right."""
LIFT = 0.4
"""Smallest lift of a class, a log ratio: its text must favour the images that get it by half more."""
AGREEMENT = 0.8
"""Smallest agreement of the second look."""
KEPT = ": kept the zero-shot classifier"


@at_the_door
def adapt(
    features: Features, *, classifier: object, model: object = None, logit_scale: Positive | None = None
) -> Adapted:
    """A classifier adapted to unlabelled images, or the one given if that is safer.

    Args:
        features: (N, D) image features, L2-normalised: all images that the classifier is meant for.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`.
        model: the model of these features, for its logit scale (default: a logit scale of 100).
        logit_scale: factor of cosines, instead of the model's.

    Returns:
        `predict`, `predict_proba`, `classifier`, `bias`; `adapted` says whether it was adapted, and `note` why not,
        or how many images get another class.

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
        features: (N, D) L2-normalised, N >= 1; read in blocks, so it may be memory-mapped.
        texts: (D, C) columns of length 1, C >= 2, on the CPU like the features.
        logit_scale: s of the model, above 0: `model.logit_scale.exp()`. The guard relies on it.

    Raises:
        DataError: fewer than two classes.
    """
    n_images = len(features)
    n_classes = texts.shape[1]
    if n_classes < 2:
        raise DataError("adaptation needs at least two classes")
    scaled = logit_scale * texts.float()
    # Each class contiguous, as the centres are.
    classifier = scaled.T.contiguous().T
    zero_shot = Adapted(classifier, texts.new_zeros(n_classes).float(), False, "")
    if n_images < FEWEST * n_classes:
        note = f"{n_images} images for {n_classes} classes, adaptation needs {FEWEST} for each{KEPT}"
        return replace(zero_shot, note=note)
    with threads.one_thread_for(features.numel() * n_classes):
        return _guarded(features, zero_shot=zero_shot, logit_scale=logit_scale)


def _guarded(features: Tensor, *, zero_shot: Adapted, logit_scale: float) -> Adapted:
    texts, _ = predict_softly(features, by=zero_shot)
    if texts.information < INFORMATION:
        told = f"information {texts.information:.2f}, adaptation needs {INFORMATION:.2f}"
        return replace(zero_shot, note=f"class texts barely tell these images apart ({told}){KEPT}")
    adapted, predictions = estimate(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale, off=0.0)
    # The cheapest signs come first.
    rejection = reject_answers(
        cost=cost(features, zero_shot=zero_shot, predictions=predictions),
        lift=lift(features, zero_shot=zero_shot, texts=texts, predictions=predictions),
    )
    if not rejection:
        rejection = reject_second_look(
            agreement(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale, predictions=predictions)
        )
    if rejection:
        return replace(zero_shot, note=rejection)
    changed = int((zero_shot.predict(features) != predictions).sum())
    share = f"{100 * changed / len(features):.0f} %"
    note = (
        f"adapted to {len(features):,} images: {changed:,} of them ({share}) get another class than by the texts alone"
    )
    return replace(adapted, note=note)


def reject_answers(*, cost: float, lift: float) -> str:
    """Why not to trust adapted answers, or ""; arguments as in `second_look`."""
    if cost > COST:
        return (
            f"adaptation would cost {100 * cost:.1f} points if the texts' own probabilities are right, more than "
            f"{100 * COST:.0f}, as where many images are of no class{KEPT}"
        )
    if lift < LIFT:
        return (
            f"adaptation would give a class to images that its text hardly favours (lift {lift:.2f}, adaptation needs "
            f"{LIFT:.2f}), as where few of the classes occur{KEPT}"
        )
    return ""


def reject_second_look(agreement: float) -> str:
    """Why not to trust an answer that depends on how the mean image is read, or ""."""
    if agreement < AGREEMENT:
        return (
            f"adaptation depends on how the mean image is read ({100 * agreement:.0f} % of the predictions agree, "
            f"{100 * AGREEMENT:.0f} % are needed), as where few of the classes occur{KEPT}"
        )
    return ""
