"""When not to adapt: what can be said without a label of whether a pile's own structure may be trusted with the names.

Adaptation hurts where the texts know next to nothing of these images, so that clusters get wrong names; where few of
the classes are there, so that true classes are split among names; and where it overturns what the texts are sure of.
Where it goes well it finds few classes, and fewer than the texts answered, or nearly all of them.
The limits below are from photographs with labels (docs/heads.md says which), and are the same for every pile.
"""

from __future__ import annotations

from wsoup.adapt.passes import Seen

INFORMATION = 0.1
"""Least share of log C that the texts' answers tell of the class. Sketches at chance tell 0.08, photographs 0.4."""
OVERTURNED = 2 / 3
"""Most answers that may change, as a share of what the texts leave open: the more they tell, the fewer."""
SPREAD = 0.8
"""Number of effective classes, as a share of C, from which all classes may be there, so that answers may spread."""
CLASSES = 0.9
"""Least number of effective classes, as a share of C, for the mean image to be no class's own."""


def before(texts: Seen) -> str:
    """Why the texts' answers are nothing to build on; "" where they are."""
    if texts.information < INFORMATION:
        told = f"{texts.information:.2f} of {INFORMATION:.2f}"
        return f"the texts tell too little apart here ({told}): their answer stays"
    return ""


def after(texts: Seen, adapted: Seen, *, stays: float) -> str:
    """Why adapted answers are not to be trusted, by what both add up to; "" where they are.

    Args:
        texts: by the texts alone.
        adapted: the same images by centres and weights.
        stays: share of the images whose answer is the same.
    """
    turned, most = 1 - stays, OVERTURNED * (1 - texts.information)
    if turned > most:
        return (
            f"adaptation would overturn {100 * turned:.0f} % of the texts' answers, and they tell too much apart "
            f"({texts.information:.2f}) to be wrong in more than {100 * most:.0f} %: theirs stay"
        )
    if texts.effective_classes < adapted.effective_classes < SPREAD:
        return (
            f"adaptation would spread answers over more classes ({adapted.effective_classes:.2f} effective, of the "
            f"texts' {texts.effective_classes:.2f}), though not over all: the texts' answer stays"
        )
    return ""


def all_there(adapted: Seen) -> str:
    """Why the mean image is not to be taken off: some classes are rare or absent; "" where all are there."""
    if adapted.effective_classes < CLASSES:
        return (
            f"classes are not there in equal parts ({adapted.effective_classes:.2f} of {CLASSES:.2f} effective), so "
            "their mean image is some classes' own: the texts' answer stays"
        )
    return ""
