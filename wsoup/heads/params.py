"""Section `heads`: closed-form heads on the source's few-shot images and the class texts of a soup."""

from __future__ import annotations

from typing import Literal

from wsoup.core.params.section import Name, Section


class HeadParams(Section):
    """One head: its kind and its texts. All else is chosen by leaving out each shot of the few-shot images in turn."""

    kind: Literal["chosen", "prototypes", "tip", "gda", "ridge"]
    """See `wsoup.heads.kinds`; chosen: prototypes, or what of ridge and gda is better by more than chance."""
    soup: Name
    """Whose texts stand beside the images: class_name, or a name under soups."""


Heads = dict[Name, HeadParams]
