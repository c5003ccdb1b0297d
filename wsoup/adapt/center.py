"""The mean image taken off: s (f - m).t_c, m the mean of the pile.

It takes away how much each class text likes all images of a pile, by a bias of -s m.t_c: right where classes are there
in about equal parts, and wrong where the mean image is mostly some classes' own. What of them is there is estimated by
`wsoup.adapt.em`. All of the mean is taken off (a fixed rule), or nothing.
"""

from __future__ import annotations

from torch import Tensor

from wsoup.adapt import guard
from wsoup.adapt.adapted import Adapted, texts_alone
from wsoup.adapt.em import estimated
from wsoup.adapt.passes import look

KIND = "center"


def center(features: Tensor, *, texts: Tensor, logit_scale: float) -> Adapted:
    """Take the mean image off, or leave the texts alone where the guard says so; arguments as `wsoup.adapt.em.em`."""
    alone = texts_alone(texts, logit_scale=logit_scale, kind=KIND, note="")
    before = look(features, by=alone)
    why_not = guard.before(before)
    if not why_not:
        _, after = estimated(features, alone=alone, logit_scale=logit_scale, first=before)
        why_not = guard.all_there(after)
    if why_not:
        return texts_alone(texts, logit_scale=logit_scale, kind=KIND, note=why_not)
    return Adapted(KIND, alone.classifier, -(before.mean.float() @ alone.classifier), True, "")
