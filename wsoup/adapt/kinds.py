"""Which kinds of adaptation there are. None of them is given a label: their arguments are images, texts and a scale."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from wsoup.adapt import guard
from wsoup.adapt.adapted import Adapted, texts_alone
from wsoup.adapt.center import center
from wsoup.adapt.em import em, estimated
from wsoup.adapt.passes import look
from wsoup.core.errors import DataError, MismatchError, ParamsError, shown_value

KINDS = {"em": em, "center": center}
"""By name, as in params.yaml: what each makes of an estimate."""


def adapt(features: Tensor, *, texts: Tensor, logit_scale: float, kind: str) -> Adapted:
    """A classifier for one pile of unlabelled images, or the texts' own; the order of images does not matter.

    Args:
        features: (N, D) L2-normalised, N from 1; read in blocks, so it may be mapped from a file.
        texts: (D, C) columns of length 1, C from 2, on the CPU as features.
        logit_scale: s of the model, above 0: `model.logit_scale.exp()`. The guard relies on it.
        kind: of `KINDS`.

    Raises:
        DataError: no images, or fewer than two classes.
        MismatchError: texts of another size than the images.
        ParamsError: no such kind, or a logit scale that is no number above 0.
    """
    alone = checked(features, texts=texts, logit_scale=logit_scale, kind=kind)
    first = look(features, by=alone)
    if why_not := guard.before(first[0]):
        return replace(alone, note=why_not)
    return KINDS[kind](estimated(features, alone=alone, logit_scale=logit_scale, first=first))


def checked(features: Tensor, *, texts: Tensor, logit_scale: float, kind: str) -> Adapted:
    """The texts' own classifier, where all fits together; raises as `adapt`."""
    if kind not in KINDS:
        raise ParamsError(f"kind is {shown_value(kind)}; expected one of {', '.join(KINDS)}")
    if not 0 < logit_scale < float("inf"):
        raise ParamsError(f"logit_scale is {logit_scale}; expected a number above 0, such as model.logit_scale.exp()")
    if features.dim() != 2 or not len(features):
        raise DataError(f"features has shape {tuple(features.shape)}; expected (N, D), one row for each image")
    if texts.dim() != 2 or texts.shape[0] != features.shape[1]:
        expected = f"({features.shape[1]}, C)"
        raise MismatchError(f"class texts have shape {tuple(texts.shape)}; expected {expected}, features by classes")
    if texts.shape[1] < 2:
        raise DataError("adaptation needs two classes or more: with one there is nothing to tell apart")
    return texts_alone(texts, logit_scale=logit_scale, kind=kind)
