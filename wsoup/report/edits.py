"""How params differ: those of two runs, or a run's from what params.yaml says by now."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wsoup.base.errors import ParamsError
from wsoup.paper.settings import flat
from wsoup.params.reading import read_yaml
from wsoup.params.section import parse
from wsoup.report.load import RunParams, recorded
from wsoup.report.record import Record
from wsoup.report.sentences import WIDTH, one_line_of

LONGEST_VALUE = 24
"""Characters of a value that are shown."""
SHOWN_BEFORE = 8
"""Of these, those before the first that differs."""
SHOWN_ENTRIES = 3
"""Entries that a list gained or lost; of more, their number is shown."""


def changed_params(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    """Every dotted key whose value differs, with both values; ``-`` where a side lacks it.

    A key that one side lacks is not edited if the other side states its default.
    """
    old = flat(before)
    new = flat(after)
    says_more = flat(_without_defaults(before)).keys() | flat(_without_defaults(after)).keys()
    changed = {}
    for key in {**old, **new}:
        was = old.get(key, "-")
        now = new.get(key, "-")
        is_said = key in says_more or (key in old and key in new)
        # Of an empty section, what it had or will have is named by itself.
        if was != now and is_said and {} not in (was, now):
            changed[key] = (was, now)
    return changed


def in_words(edits: Mapping[str, tuple[object, object]]) -> list[str]:
    """``soups.word.k0 250 -> 50`` for every edited key; of a long list what was added and removed."""
    return [f"{key} {_came_and_went(was, now) or _both(was, now)}" for key, (was, now) in edits.items()]


def _came_and_went(was: object, now: object) -> str:
    """``+ 'facts' - 'words'`` for two lists that are not both short; "" for other values, or if only the order differs.

    >>> _came_and_went(["words", "descriptors"], ["words", "descriptors", "facts"])
    "+ 'facts'"
    """
    if not isinstance(was, list) or not isinstance(now, list):
        return ""
    if max(len(repr(was)), len(repr(now))) <= LONGEST_VALUE:
        return ""
    came = [each for each in now if each not in was]
    went = [each for each in was if each not in now]
    return " ".join([*_marked("+", came), *_marked("-", went)])


def _marked(sign: str, entries: Sequence[object]) -> list[str]:
    shown = [f"{sign} {_cut(repr(each))}" for each in entries[:SHOWN_ENTRIES]]
    n_more = len(entries) - len(shown)
    return [*shown, f"{sign} {n_more} more"] if n_more else shown


def _both(was: object, now: object) -> str:
    """Two values, cut at their end, or around where they begin to differ if that would be cut off."""
    old, new = (value if isinstance(value, str) else repr(value) for value in (was, now))
    if _cut(old) == _cut(new):
        n_shared = next((i for i, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1), len(old))
        start = max(n_shared - SHOWN_BEFORE, 0)
        old, new = f"...{old[start:]}", f"...{new[start:]}"
    return f"{_cut(old)} -> {_cut(new)}"


def _cut(text: str) -> str:
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE - 3]}..."


def edited(record: Record, *, root: Path) -> list[str]:
    """Lines on what `dvc repro` would meet if params.yaml has changed since a record was written.

    Raises:
        ParamsError: it is not YAML.
    """
    title = "params.yaml has changed since (run `dvc repro`)"
    return edited_since(record, sections=read_yaml(root / "params.yaml"), origin="params.yaml", title=title)


def edited_since(record: Record, *, sections: Mapping[str, object], origin: str, title: str) -> list[str]:
    """What differs in `sections` of params.yaml from those that a record is of, or why these cannot be read."""
    now = {name: section for name, section in recorded(sections).items() if name in record.params}
    changed = changed_params(record.params, now)
    if not changed:
        return []
    problem = _problem_of(sections, origin=origin)
    # Records of older versions have sections that this one does not read.
    if problem and not _problem_of(record.params, origin=origin):
        return textwrap.wrap(f"{origin} has changed since and cannot be read: {problem}", width=WIDTH)
    return [one_line_of(title, in_words(changed), width=WIDTH)]


def _problem_of(sections: Mapping[str, Any], *, origin: str) -> str:
    """Why what a report depends on cannot be read from the sections of a params.yaml; "" if it can."""
    try:
        parse(RunParams, recorded(sections), origin=origin)
    except ParamsError as error:
        return str(error)
    return ""


def _without_defaults(sections: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a record holds, without optional keys that say what is meant without them.

    A record that this version cannot read is left as it is.
    """
    try:
        params = parse(RunParams, sections, origin="params")
    except ParamsError:
        return sections
    return {name: _stated(section, getattr(params, name)) for name, section in sections.items()}


def _stated(written: Any, read: Any) -> Any:
    """A part of params.yaml as `_without_defaults` leaves it; `read` is what it became."""
    if not isinstance(written, Mapping):
        return written
    if isinstance(read, Mapping):
        return {key: _stated(value, read[key]) for key, value in written.items()}
    kept = {}
    for name, about in type(read).model_fields.items():
        key = about.alias or name
        value = getattr(read, name)
        is_default = not about.is_required() and value == about.get_default(call_default_factory=False)
        if key in written and not is_default:
            kept[key] = _stated(written[key], value)
    return kept
