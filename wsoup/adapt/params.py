"""Section `adapt`: class texts of a soup, adapted to each target's images without their labels."""

from __future__ import annotations

from typing import Literal

from wsoup.core.params.section import Name, Section


class AdaptParams(Section):
    """One adaptation: its kind and its texts."""

    kind: Literal["em", "center"]
    """em: class centres and weights of the images; center: their mean taken off (`wsoup.adapt`)."""
    soup: Name
    """Whose texts are adapted: class_name, or a name under soups."""


Adaptations = dict[Name, AdaptParams]
