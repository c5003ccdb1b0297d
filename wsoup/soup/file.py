"""A soup file that comes from anywhere: what it holds is checked before any of it is used."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wsoup.core.errors import MismatchError, MissingError, one_line
from wsoup.disk import store

KEYS = ("kind", "seed", "template", "encoder", "members")
"""What a soup file holds at least."""
TYPES = {"kind": str, "seed": int, "template": str, "encoder": dict, "members": list, "made_with": dict, "cost": dict}
MOST_MEMBERS = 10_000
"""As params.yaml has it."""
LONGEST_TEXT = 10_000
"""Letters of one text; no model's context holds a tenth."""
LARGEST_WEIGHT = 1e6
"""Of the class name, in members; as params.yaml has it."""


def read(path: str | Path) -> dict[str, Any]:
    """The values in a soup file, each of its type and within bounds.

    Raises:
        MissingError: no such file.
        MismatchError: no soup; the first thing that is wrong is named.
    """
    if not Path(path).exists():
        raise MissingError(f"{path} does not exist; soups are made by stage 'soup': run `dvc repro`")
    return checked(store.read_json(path), origin=path)


def checked(value: Any, *, origin: str | Path) -> dict[str, Any]:
    """A soup's values, each of its type and within bounds; MismatchError, naming `origin`, where one is not."""
    wrong = next(_wrong(value), None)
    if wrong is not None:
        raise MismatchError(f"{one_line(origin)} is not a soup: {one_line(wrong, limit=300)}")
    return value


def _wrong(value: Any) -> Iterator[str]:
    """What is wrong with a soup's values, one clause each; what comes later relies on what comes first."""
    missing = set(KEYS) - set(value if isinstance(value, dict) else ())
    if missing:
        yield f"it lacks {', '.join(sorted(missing))}"
    for key, kind in TYPES.items():
        if key in value and (not isinstance(value[key], kind) or isinstance(value[key], bool)):
            yield f"{key} is not as expected"
    encoder = value["encoder"]
    if not isinstance(encoder.get("model"), str) or not isinstance(encoder.get("pretrained", 0), str | None):
        yield "encoder is not as expected: it names model and pretrained"
    if len(value["members"]) > MOST_MEMBERS:
        yield f"it has {len(value['members']):,} members, {MOST_MEMBERS:,} are the most"
    if not 0 <= value["seed"] < 2**63:
        yield "seed is out of range"
    for where, text in _texts(value):
        if len(text) > LONGEST_TEXT or any(letter == "\0" or unicodedata.category(letter) == "Cs" for letter in text):
            yield f"a part of it, {where}, is not as expected: {text[:40]!r} is too long, or no text"
    for number, member in enumerate(value["members"], start=1):
        if not _is_member(member):
            yield f"a part of it, member {number}, is not as expected"
    cost = value.get("cost", {})
    for part in cost.values():
        counts = list(part.values()) if isinstance(part, dict) and set(part) == {"texts", "tokens", "flops"} else [""]
        if not all(_is_count(count, most=10**30) for count in counts):
            yield "a part of it, cost, is not as expected"
    weight = value.get("class_name_weight", 0.0)
    if not isinstance(weight, int | float) or not 0 <= weight <= LARGEST_WEIGHT:
        yield f"class_name_weight is not as expected, a number from 0 to {LARGEST_WEIGHT:g}"
    if not _is_count(value.get("class_name_correct")):
        yield "class_name_correct is not as expected, a count"


def _texts(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text that is shown or encoded, and what it is; half a member has none, which `_is_member` says."""
    yield from (("kind", value["kind"]), ("template", value["template"]))
    for name in ("encoder", "made_with"):
        yield from ((name, text) for pair in value.get(name, {}).items() for text in pair if isinstance(text, str))
    for member in value["members"]:
        if isinstance(member, dict):
            trace = member.get("trace")
            steps = [step.get("added") for step in trace if isinstance(step, dict)] if isinstance(trace, list) else []
            yield from (("a member", text) for text in (member.get("text"), *steps) if isinstance(text, str))


def _is_member(member: Any) -> bool:
    if not isinstance(member, dict) or not isinstance(member.get("text"), str):
        return False
    right, of = member.get("n_correct"), member.get("n_images")
    if not _is_count(right) or not _is_count(of) or (right is not None and of is not None and right > of):
        return False
    trace = member.get("trace")
    return isinstance(trace, list) and all(
        isinstance(step, dict) and isinstance(step.get("added"), str) and _is_count(step.get("n_correct", ""))
        for step in trace
    )


def _is_count(value: Any, *, most: int = 2**63) -> bool:
    """Whether it is a count, or None where nothing was counted."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most)
