"""Section `heads`: closed-form heads by name."""

from typing import Literal

from wsoup.params.section import Name, Section


class HeadParams(Section):
    """One head: its kind and its texts. Everything else is chosen by leave-one-shot-out on the few-shot images."""

    kind: Literal["prototypes", "ridge", "both", "means"]
    """See `wsoup.heads.kinds`; both: their mean; means: class means, without texts."""
    soup: Name
    """Whose class texts to use: class_name, or a name under soups."""


Heads = dict[Name, HeadParams]
