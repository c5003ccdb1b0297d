"""When not to adapt: what can be said without a label of whether a pile's own structure may be trusted with the names.

Adaptation hurts where the texts know next to nothing of these images, so that clusters get wrong names; where few of
the classes are there, so that true classes are split among names; and where it overturns most of what the texts say.
The limits below are from photographs with labels (docs/heads.md says which), and are the same for every pile.
"""

from __future__ import annotations

from wsoup.adapt.passes import Seen

INFORMATION = 0.18
"""Least share of log C that the texts' answers tell of the class. Sketches at chance tell 0.08, photographs 0.4."""
AGREEMENT = 0.5
"""Least share of images whose answer stays."""
CLASSES = 0.85
"""Least number of effective classes, as a share of C, for the mean image to be no class's own."""


def before(texts: Seen) -> str:
    """Why the texts' answers are nothing to build on; "" where they are."""
    if texts.information < INFORMATION:
        told = f"{texts.information:.2f} of {INFORMATION:.2f}"
        return f"the texts tell too little apart here ({told}): their answer stays"
    return ""


def after(share: float) -> str:
    """Why an adapted answer is not to be trusted, by the share of images whose answer stays; "" where it is."""
    if share < AGREEMENT:
        return f"adaptation would overturn {100 * (1 - share):.0f} % of the texts' answers: theirs stay"
    return ""


def all_there(adapted: Seen) -> str:
    """Why the mean image is not to be taken off: some classes are rare or absent; "" where all are there."""
    if adapted.effective_classes < CLASSES:
        return (
            f"classes are not there in equal parts ({adapted.effective_classes:.2f} of {CLASSES:.2f} effective), so "
            "their mean image is some classes' own: the texts' answer stays"
        )
    return ""
