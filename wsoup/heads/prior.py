"""How many photos a class's text counts as, before any photo is left out.

Texts that lie about their mean as the classes' photos lie about theirs know much, and count as more photos than texts
that lie otherwise. Where photos differ in few ways, one photo says little of its class, and a text counts as more of
them. Left-out photos then move this number (`wsoup.heads.choose`), the more of them the further, but not below a least
number: they are of the same style as the others, and cannot tell what holds in another one.

The formula was chosen on folders of photographs, for heads that hardly ever fall below their texts, in their own style
and in others (docs/notes/heads.md).
"""

from __future__ import annotations

from typing import NamedTuple

from wsoup.heads.fewshot import FewShot
from wsoup.heads.likeness import likeness, noise, unevenness

SCALE = 200.0
"""Photos that a text would count as with an agreement and a spread of 1."""
LEAST = 0.01
"""Added to the agreement: few photos cannot show that texts know nothing."""
OF_SPREAD = 1.5
"""Power of the spread of the cosines of photos."""
OF_UNEVENNESS = 2
"""Power of the unevenness of the classes."""
FEWEST = 0.15
"""Fewest photos that a text counts as."""
FLOOR = 120.0
"""Photos that a text counts as at least with a spread of 1, where classes have many photos."""
OF_FLOOR = 3
"""Power of the spread in that number."""


class PhotosPerText(NamedTuple):
    """Of how many photos of its class a text counts as.

    Attributes:
        expected: before any photo is left out.
        least: whatever left-out photos say; 0 with one photo a class.
    """

    expected: float
    least: float


def photos_per_text(shots: FewShot) -> PhotosPerText:
    """What to expect of these texts and photos."""
    of = likeness(shots)
    known = (of.agreement + LEAST) * of.spread**OF_SPREAD
    least = FLOOR * of.spread**OF_FLOOR * (1 - noise(shots))
    expected = max(FEWEST, least, SCALE * known * unevenness(shots) ** OF_UNEVENNESS)
    return PhotosPerText(expected, least)
