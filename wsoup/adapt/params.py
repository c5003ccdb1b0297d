"""Section `adapt`: adapt a soup's classifier to each target's unlabelled images."""

from typing import Literal

from wsoup.params.section import Name, Section


class AdaptParams(Section):
    """One adaptation: its kind and its texts."""

    kind: Literal["em", "center"]
    """em: class centres and weights of the images; center: their mean subtracted (see `wsoup.adapt.kinds`)."""
    soup: Name
    """Whose texts to adapt: class_name, or a name under soups."""


Adaptations = dict[Name, AdaptParams]
