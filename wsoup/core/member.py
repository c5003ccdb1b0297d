"""`Member`: one text of a soup, how it grew, and what finding it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from wsoup.base.arguments import Natural, Words
from wsoup.base.errors import one_line
from wsoup.core.prompts import is_template

REVALIDATED = ConfigDict(revalidate_instances="always")
"""Values built in memory are validated like those read from a file."""
Total = Annotated[int, Field(ge=0, lt=10**30, strict=True)]


@dataclass(frozen=True)
class Step:
    """One addition to a member, and the number of correct images after it."""

    __pydantic_config__ = REVALIDATED

    added: Words
    n_correct: Natural


@dataclass(frozen=True)
class Member:
    """One text of a soup.

    Attributes:
        text: a descriptor or a chain of words, bare; "" is the class name alone; with ``{}`` it is a whole template.
        n_correct: correct images out of `n_images`: of a greedy soup, by the soup up to and including this member; of a
            word chain, by the chain alone, with its final period. None if nothing was counted.
        n_images: images it was judged on, or None.
        trace: each addition and the count after it, as seen by the search.
    """

    __pydantic_config__ = REVALIDATED

    text: Words
    n_correct: Natural | None = None
    n_images: Natural | None = None
    trace: tuple[Step, ...] = ()

    def as_json(self) -> dict[str, object]:
        """JSON value of the member; counts are left out if there are none."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Member:
        """Inverse of `as_json`, without validation."""
        trace = tuple(Step(**step) for step in value["trace"])
        return cls(**{**value, "trace": trace})


@dataclass(frozen=True)
class Cost:
    """What a ranking or a search encoded (`wsoup.search.rank.meter`).

    Attributes:
        texts: candidates, each encoded with every class.
        tokens: tokens through the text tower, over all classes.
        flops: multiplications and additions in their matrix products, without attention; None for a text tower that
            is only known through `encode_text`.
    """

    __pydantic_config__ = REVALIDATED

    texts: Total
    tokens: Total
    flops: Total | None

    def __add__(self, other: Cost) -> Cost:
        flops = None
        if self.flops is not None and other.flops is not None:
            flops = self.flops + other.flops
        return Cost(self.texts + other.texts, self.tokens + other.tokens, flops)

    def as_json(self) -> dict[str, int | None]:
        """JSON value of the cost."""
        return asdict(self)


NOTHING = Cost(0, 0, 0)
"""Cost if nothing was encoded."""


def _checked_member(value: object, validate: ValidatorFunctionWrapHandler) -> Member:
    """A validated member; JSON must have a trace."""
    if isinstance(value, Mapping) and "trace" not in value:
        raise ValueError("expected a trace")
    member: Member = validate(value)
    if is_template(member.text) and member.text.count("{}") > 1:
        raise ValueError(f"{one_line(member.text, limit=60)!r} holds {{}} more than once: which is the class name?")
    if member.n_correct is None or member.n_images is None:
        return member
    if member.n_correct > member.n_images:
        raise ValueError(f"{member.n_correct} right of {member.n_images} images")
    return member


Members = Annotated[
    tuple[Annotated[Member, WrapValidator(_checked_member)], ...], Field(min_length=1, max_length=10_000)
]
