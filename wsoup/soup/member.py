"""The parts of a soup: its members, how each came about, and what finding them cost.

Their bounds (`Words`, `Count`) hold for soup files, which come from anywhere; what the library makes itself is within.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from wsoup.core.arguments import Words

Count = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Sum = Annotated[int, Field(ge=0, lt=10**30, strict=True)]
ALL = ConfigDict(revalidate_instances="always")
"""Values that were made in memory are looked at as those of a file are."""


@dataclass(frozen=True)
class Step:
    """One thing added, and the count of correct images after it."""

    __pydantic_config__ = ALL

    added: Words
    n_correct: Count


@dataclass(frozen=True)
class Member:
    """One text of a soup and how it came about.

    Attributes:
        text: a descriptor or a chain of words, bare; "" is the class name alone.
        n_correct: images right, of `n_images`. Of Algorithm 1: by the soup up to and with this member; of a word chain:
            by the chain alone, finished with its final period. None where nothing was counted.
        n_images: images that it was judged on, or None.
        trace: what was added, and the count after it, as it stood in the search.
    """

    __pydantic_config__ = ALL
    text: Words
    n_correct: Count | None = None
    n_images: Count | None = None
    trace: tuple[Step, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As a soup file holds it."""
        counts = {"n_correct": self.n_correct, "n_images": self.n_images}
        trace = [{"added": step.added, "n_correct": step.n_correct} for step in self.trace]
        return {"text": self.text, **{k: v for k, v in counts.items() if v is not None}, "trace": trace}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Member:
        """What `as_json` made."""
        return cls(**{**value, "trace": tuple(Step(**step) for step in value["trace"])})


@dataclass(frozen=True)
class Cost:
    """What a ranking or a search encoded (`wsoup.search.rank.cost`).

    Attributes:
        texts: candidates, each of which is encoded with every class.
        tokens: tokens through the text tower, over all classes.
        flops: multiplications and additions in their matrix products, without attention; None where the tower is one
            that only `encode_text` knows.
    """

    __pydantic_config__ = ALL
    texts: Sum
    tokens: Sum
    flops: Sum | None

    def __add__(self, other: Cost) -> Cost:
        flops = None if self.flops is None or other.flops is None else self.flops + other.flops
        return Cost(self.texts + other.texts, self.tokens + other.tokens, flops)

    def as_json(self) -> dict[str, int | None]:
        """As files hold it."""
        return asdict(self)


NOTHING = Cost(0, 0, 0)
"""Where nothing was encoded."""
