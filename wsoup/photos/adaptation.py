"""Adaptation of a classifier to a pile of unlabelled images, with a guard that keeps the zero-shot classifier.

The guard decides without a label. Adaptation hurts where there are few images for each class; where the texts know
almost nothing about the images, so that clusters get wrong names; where few of the classes occur, so that true classes
are split among names; where many images are of no class; and where it overturns confident predictions. Where it works
it predicts fewer classes than the texts did, or nearly all of them, and a second look (`wsoup.photos.second_look`)
finds the same answers. It then goes only as far as the texts' own probabilities allow: if they are right, the changed
answers cost no more than a few points. If they are not, it may cost more: of 512 piles of other photographs five lost
more than 5 points, and 12.5 and 11.1 at worst, with half foreign photos and with two classes only. All limits come from
labelled photographs (docs/notes/heads.md), and are the same for every pile.
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
from wsoup.photos.estimation import OFF, Adapted, Statistics, estimate, predict_softly
from wsoup.photos.second_look import agreement, cost, lift, parting, pull
from wsoup.runtime import threads

FEWEST = 8
"""Fewest images in a pile, for each class of the classifier."""
INFORMATION = 0.1
"""Smallest information of the texts' predictions. Sketches at chance have 0.08, photographs 0.4."""
OVERTURNED = 2 / 3
"""Largest share of predictions that may change, times 1 - information: confident texts may be overturned less."""
MOST_OVERTURNED = 0.5
"""Largest share that may change however little the texts know."""
SPREAD = 0.8
"""Effective classes, as a share of C, from which predictions may spread over more classes than the texts'."""
LIFT = 0.55
"""Smallest lift of a class, a log ratio: its text must favour the images that get it by three quarters more."""
PARTING = 3.0
"""Largest parting: groups of foreign images become 3 to 10 times as distinct as the texts'; others, 1 to 2 times."""
AGREEMENT = 0.75
"""Smallest agreement of the second look, for a pull of 1; in proportion to it."""
COST = 0.07
"""Accuracy, as a share, that the changed answers may lose if the texts' own probabilities are right."""
STEPS = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.1)
"""How far to go from the texts to the adapted classifier: the longest step within `COST`."""
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
        `predict`, `predict_proba`, `classifier`, `bias`; `adapted` says whether it was adapted, and `note` why.

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
    before, predicted_before = predict_softly(features, by=zero_shot)
    if before.information < INFORMATION:
        told = f"information {before.information:.2f}, adaptation needs {INFORMATION:.2f}"
        return replace(zero_shot, note=f"class texts barely tell these images apart ({told}){KEPT}")
    adapted, after, predicted_after = estimate(
        features, zero_shot=zero_shot, logit_scale=logit_scale, mean=before.mean, off=OFF
    )
    is_unchanged = predicted_before == predicted_after
    unchanged = float(is_unchanged.double().mean())
    # The cheapest signs come first, and the first that rejects decides.
    rejection = reject_adapted(before, after, unchanged=unchanged)
    if not rejection:
        rejection = reject_groups(
            lift=lift(features, zero_shot=zero_shot, texts=before, predictions=predicted_after),
            parting=parting(features, mean=before.mean, before=predicted_before, after=predicted_after),
        )
    if not rejection:  # last, since it estimates twice more
        rejection = reject_second_look(
            agreement=agreement(features, zero_shot=zero_shot, logit_scale=logit_scale, mean=before.mean),
            pull=pull(features, zero_shot=zero_shot, mean=before.mean),
        )
    if rejection:
        return replace(zero_shot, note=rejection)
    return _within_cost(features, zero_shot=zero_shot, adapted=adapted)


def _within_cost(features: Tensor, *, zero_shot: Adapted, adapted: Adapted) -> Adapted:
    """The longest of `STEPS` towards an adapted classifier that costs the texts no more than `COST`."""
    for share in STEPS:
        classifier = torch.lerp(zero_shot.classifier, adapted.classifier, share)
        bias = torch.lerp(zero_shot.bias, adapted.bias, share)
        step = Adapted(classifier, bias, True, "")
        lost = cost(features, zero_shot=zero_shot, by=step)
        if lost <= COST:
            return step
    note = (
        f"even a part of the adaptation would cost {100 * lost:.0f} points if the texts' own probabilities are right, "
        f"more than {100 * COST:.0f} points{KEPT}"
    )
    return replace(zero_shot, note=note)


def reject_adapted(texts: Statistics, adapted: Statistics, *, unchanged: float) -> str:
    """Why not to trust adapted predictions, or "".

    Args:
        texts: of the zero-shot predictions.
        adapted: of the same images, by centres and weights.
        unchanged: share of the images predicted alike.
    """
    changed = 1 - unchanged
    most = min(MOST_OVERTURNED, OVERTURNED * (1 - texts.information))
    if changed > most:
        return (
            f"adaptation would change {100 * changed:.0f} % of the predictions, more than the {100 * most:.0f} % "
            f"allowed for texts of information {texts.information:.2f}{KEPT}"
        )
    if texts.effective_classes < adapted.effective_classes < SPREAD:
        return (
            f"adaptation would spread predictions over more classes ({adapted.effective_classes:.2f} of all, "
            f"effective; zero-shot {texts.effective_classes:.2f}), but not nearly all{KEPT}"
        )
    return ""


def reject_groups(*, lift: float, parting: float) -> str:
    """Why not to trust the groups of images that adaptation made, or ""; arguments as in `second_look`."""
    if lift < LIFT:
        return (
            f"adaptation would give a class to images that its text hardly favours (lift {lift:.2f}, adaptation needs "
            f"{LIFT:.2f}), as where few of the classes occur{KEPT}"
        )
    if parting > PARTING:
        return (
            f"adaptation would make groups {parting:.1f} times as distinct as the texts' (at most {PARTING:.1f}), as "
            f"where many images are of no class{KEPT}"
        )
    return ""


def reject_second_look(*, agreement: float, pull: float) -> str:
    """Why not to trust an answer that depends on how the mean image is read, or ""; arguments as in `second_look`."""
    least = AGREEMENT * pull
    if agreement < least:
        return (
            f"adaptation depends on how the mean image is read ({100 * agreement:.0f} % of the predictions agree, "
            f"{100 * min(least, 1):.0f} % are needed), as where few of the classes occur{KEPT}"
        )
    return ""
