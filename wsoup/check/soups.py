"""Sections `soups` and `heads`: the kinds of soup and of head that params.yaml may name.

No stage depends on these lists: stage `soup@<name>` depends on the module of its own kind (`wsoup.search.grow.kind`).
"""

from typing import Annotated, Literal

from pydantic import Field

from wsoup.params.section import Name, Section
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.grow.joint import JointSoup
from wsoup.search.grow.sample import SampleSoup
from wsoup.search.grow.top import TopSoup

SoupParams = GreedySoup | ChainsSoup | TopSoup | SampleSoup | JointSoup
Soups = Annotated[dict[Name, Annotated[SoupParams, Field(discriminator="kind")]], Field(min_length=1)]
"""Definitions by name. `word` and `descriptor` are the paper's; others may be added."""


class HeadParams(Section):
    """One head: its kind and its texts. Everything else is chosen by leave-one-shot-out on the few-shot images."""

    kind: Literal["prototypes", "ridge", "both"]
    """See `wsoup.heads.kinds`; both: their mean."""
    soup: Name
    """Whose class texts to use: class_name, or a name under soups."""


Heads = dict[Name, HeadParams]
