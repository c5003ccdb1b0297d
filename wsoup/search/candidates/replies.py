"""What a language model answered about classes (`wsoup.search.candidates.questions`), as texts of each class."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wsoup.base.errors import PoolError, one_line, shown_value
from wsoup.base.folder_names import composed
from wsoup.search.candidates.gpt import each_once
from wsoup.search.candidates.gpt_classes import folded

SHOWN = 5
_FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_OBJECT = re.compile(r"\{\s*[\"'“”„/]")
_ITEM = re.compile(r"^(\s*(?:[-*•–]|\d+[.)]))\s+(.*)$")
_MARKS = "*_#`:\"' "
_EMPHASIS = re.compile(r"(?<!\w)(\*\*|__|[*_`])(?=\S)(.+?)(?<=\S)\1(?!\w)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|'([^']+)'|‘([^’]+)’|„([^“]+)“")
_UNREADABLE = re.compile("[\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
"""Control characters but white space, marks that turn the direction of writing, and halves of a surrogate pair."""


class Answer(NamedTuple):
    """What a language model wrote.

    Attributes:
        texts: of each class, in label order.
        unknown: keys that are no class.
    """

    texts: dict[str, list[str]]
    unknown: list[str]


def read_answer(contents: Mapping[str, str], *, class_names: Sequence[str]) -> Answer:
    """The texts of every class from one or several answers: JSON, with or without a fence, or a list for each class.

    Args:
        contents: the answers as they were copied, by their files.
        class_names: C names in label order.

    Raises:
        PoolError: broken JSON, a key twice, or what is no text; a class without texts (names all of these).
    """
    texts: dict[str, list[str]] = {name: [] for name in class_names}
    unknown = []
    for file, content in contents.items():
        for heading, value in _by_heading(content, class_names=class_names, file=file):
            names = _named(heading, class_names=class_names)
            if not names:
                unknown.append(heading)
                continue
            of_heading = list(_texts(value, origin=f"{file}: class {names[0]!r}"))
            for name in names:
                texts[name] += [text for text in of_heading if text not in texts[name]]
    missing = [name for name, of_class in texts.items() if not of_class]
    if missing:
        listed = ", ".join(map(repr, missing[:SHOWN]))
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise PoolError(
            f"{', '.join(contents)}: no texts for {len(missing)} of {len(texts)} classes: {listed}{more}; ask for them "
            "again and give both answers"
        )
    return Answer(texts, unknown)


def _named(heading: str, *, class_names: Sequence[str]) -> list[str]:
    """The class that a heading names, in each Unicode form that the classes have; by its folded name if by no other."""
    exact = [name for name in dict.fromkeys(class_names) if composed(name) == composed(heading)]
    return exact or [name for name in dict.fromkeys(class_names) if folded(name) == folded(heading)]


def _by_heading(content: str, *, class_names: Sequence[str], file: str) -> Iterator[tuple[str, object]]:
    """Each key of the JSON objects with its value, or each heading with the items below it.

    An answer of several fenced parts has an object in each.
    """
    fenced = [part.span(1) for part in _FENCE.finditer(content)]
    has_object = False
    for start, end in fenced or [(0, len(content))]:
        opening = _OBJECT.search(content, start, end)
        if opening is not None:
            has_object = True
            yield from _of_object(content, opening.start(), end, file=file).items()
    if not has_object:
        yield from _lists(content, known={folded(name) for name in class_names}).items()


def _of_object(content: str, start: int, end: int, *, file: str) -> Mapping[str, object]:
    """The JSON object that begins at `start`, without the words after it."""
    end = content.rfind("}", start, end) + 1 or end
    try:
        # Every object is read with each_once, and an object comes first.
        by_key: dict[str, object] = json.loads(content[start:end], object_pairs_hook=each_once)
    except json.JSONDecodeError as error:
        line = content.count("\n", 0, start + error.pos) + 1
        raise PoolError(
            f"{file}: not JSON, line {line}: {error.msg}; expected one object, {{class: [text, ...]}}: correct it "
            "there, or ask again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PoolError(f"{file}: {one_line(error)}; expected {{class: [text, ...]}} with each class once") from None
    return by_key


def _texts(value: object, *, origin: str) -> Iterator[str]:
    """The texts in a value of JSON: a list of them, or one text with a line each; raises PoolError naming `origin`."""
    parts = value.splitlines() if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise PoolError(f"{origin} has {shown_value(value)}; expected a list of texts; correct it, or ask again")
    for part in parts:
        if not isinstance(part, str):
            raise PoolError(f"{origin} has {shown_value(part)}, which is no text; correct it, or ask again")
        if _UNREADABLE.search(part):
            raise PoolError(
                f"{origin} has {shown_value(part)}, with a character that cannot be shown; expected "
                "words; correct it, or ask again"
            )
        text = _plain(part)
        if text and not text.strip(".… "):
            raise PoolError(
                f"{origin} has {shown_value(text)}, the placeholder of the question; expected a text; ask again"
            )
        if text:
            yield one_line(text, limit=1000)


def _plain(text: str) -> str:
    """A text without Markdown's marks (bold, code, links) and without quotation marks around it."""
    text = text.strip()
    before = ""
    while text != before:
        before = text
        text = _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", text))
        quoted = _QUOTED.fullmatch(text)
        if quoted:
            text = quoted[quoted.lastindex or 0].strip()
    return text


def _lists(content: str, *, known: set[str]) -> dict[str, list[str]]:
    """Items below each heading. A line is a heading if it is not an item of a list.

    Where the first line that names a class is an item, every item with its bullet that names one is a heading.
    """
    lines = [_line(line) for line in content.splitlines()]
    naming = [bullet for bullet, text in lines if folded(text.strip(_MARKS)) in known]
    bullet_of_headings = naming[0] if naming else ""
    by_heading: dict[str, list[str]] = {}
    heading = ""
    for bullet, text in lines:
        name = text.strip(_MARKS)
        if not name:
            continue
        is_class = folded(name) in known
        if is_class and bullet in ("", bullet_of_headings):
            heading = name
        elif bullet and heading:
            by_heading.setdefault(heading, []).append(text)
        elif not bullet and not _is_prose(text):
            heading = name
    return by_heading


def _line(line: str) -> tuple[str, str]:
    """The bullet of an item with the space before it, all numbers alike ("" for another line), and its text."""
    item = _ITEM.match(line)
    return (re.sub(r"\d+", "1", item[1]), item[2]) if item else ("", line)


def _is_prose(line: str) -> bool:
    """Whether a line that is no item is a sentence around the answer, such as "Here are the features:"."""
    return len(line.split()) > 8
