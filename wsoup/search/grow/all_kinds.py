"""Section `soups`: the kinds of soup that params.yaml may name.

No stage depends on this list: stage `soup@<name>` depends on the module of its own kind (`wsoup.search.grow.kind`).
"""

from typing import Annotated

from pydantic import Field

from wsoup.params.section import Name
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.grow.held_out import HeldOutSoup
from wsoup.search.grow.sample import SampleSoup
from wsoup.search.grow.top import TopSoup

SoupParams = GreedySoup | ChainsSoup | TopSoup | SampleSoup | HeldOutSoup
Soups = Annotated[dict[Name, Annotated[SoupParams, Field(discriminator="kind")]], Field(min_length=1)]
"""Definitions by name. `word` and `descriptor` are the paper's; others may be added."""
