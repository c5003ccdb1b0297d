"""The mean image taken off: s (f - m).t_c, m the mean of the pile.

It takes away how much each class text likes all images of a pile, by a bias of -s m.t_c: right where classes are there
in about equal parts, and wrong where the mean image is mostly some classes' own. What of them is there is estimated by
`wsoup.adapt.em`. All of the mean is taken off (a fixed rule), or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from wsoup.adapt import guard
from wsoup.adapt.adapted import Adapted
from wsoup.adapt.em import Estimate

KIND = "center"


def center(estimate: Estimate) -> Adapted:
    """The mean image taken off, or the texts alone where the guard says so."""
    alone, why_not = estimate.alone, estimate.why_not or guard.all_there(estimate.after)
    if why_not:
        return replace(alone, note=why_not)
    return Adapted(KIND, alone.classifier, -(estimate.before.mean.float() @ alone.classifier), True, "")
