"""A soup of every kind on a small pool, and every value that a setting of its kind may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest

from wsoup.base.errors import ParamsError
from wsoup.params.section import Sections, parse
from wsoup.search.grow.all_kinds import SoupParams, Soups

GROWTH = {"k0": 4, "k1": 12, "patience": 10, "max_words": 3}
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"m": 3},
    "chains": {"m": 3, **GROWTH},
    "top": {"m": 3, "k1": 12, "rank_by": "count_k2"},
    "sample": {"m": 3, "k1": 12},
    "held_out": {"m": 3, "per_split": 2},
}
"""Settings of each kind besides its pool, those without a default at least."""
FILE = "tests/helpers/soup_cases.py"
NUMBERS = (0, 1, 2, 0.5)
"""What a number that has a default is tried as, where it may be."""


class Wanted(Sections):
    soups: Soups


def kind_of(model: type[SoupParams]) -> str:
    """Its name in params.yaml."""
    (name,) = get_args(model.model_fields["kind"].annotation)
    return name


def file_of(model: type[SoupParams]) -> str:
    """The file of a kind, to be named in a message."""
    return f"{model.__module__.replace('.', '/')}.py"


MODELS: dict[str, type[SoupParams]] = {kind_of(model): model for model in get_args(SoupParams)}


def define(kind: str, **changes: object) -> SoupParams:
    """A soup of the pool of words; its kind alone says what is wrong with it."""
    settings = {"kind": kind, "pool": "words", **KINDS[kind], **changes}
    return parse(Wanted, {"soups": {"soup": settings}}, origin=FILE).soups["soup"]


def choices(annotation: Any) -> Iterator[Any]:
    """Every value of a choice, of true or false, and of what may be null; none of a number or a text.

    >>> list(choices(Literal["count", "likelihood"] | None)), list(choices(bool)), list(choices(int))
    (['count', 'likelihood', None], [False, True], [])
    """
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif annotation is bool:
        yield from (False, True)
    elif annotation is type(None):
        yield None
    else:
        for part in get_args(annotation):
            yield from choices(part)


def varied() -> list[Any]:
    """A soup of every kind with each setting at every value of its choice; a number with a default at some others."""
    kinds = [kind for kind in MODELS if kind in KINDS]
    cases = [pytest.param(define(kind, m=6), id=kind) for kind in kinds]
    for kind in kinds:
        for setting, field in MODELS[kind].model_fields.items():
            values = [*choices(field.annotation)]
            if not values and isinstance(field.default, int | float):
                values = [value for value in NUMBERS if _may_be(kind, setting, value)]
            for value in values:
                if setting != "kind":
                    cases.append(pytest.param(define(kind, **{"m": 6, setting: value}), id=f"{kind} {setting} {value}"))
    return cases


def _may_be(kind: str, setting: str, value: object) -> bool:
    try:
        define(kind, **{"m": 6, setting: value})
    except ParamsError:
        return False
    return True
