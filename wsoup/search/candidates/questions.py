"""Questions about classes to paste into a language model, and what comes back as a file that params.yaml takes.

Nothing is sent anywhere. The wording is published: that of classification by description (Menon & Vondrick 2023,
sachit-menon/classify_by_description_release, generate_descriptors.py) for descriptors, and that of CuPL (Pratt et al.
2023, sarahpratt/CuPL, generate_image_prompts.py) for sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wsoup.base.errors import PoolError, one_line
from wsoup.search.candidates.gpt_classes import folded

AT_ONCE = 40
"""Classes in one request: a longer answer is often cut."""
SHOWN = 5
_FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*•–]|\d+[.)])\s+(.*)$")
_MARKS = "*_#`:\"' "


class Style(NamedTuple):
    """What is asked.

    Attributes:
        task: what to write about each class.
        questions: the published ones, with ``{}`` for the class.
        source: who published them.
        key: of a dataset in params.yaml, which takes the answer.
    """

    task: str
    questions: Sequence[str]
    source: str
    key: str


STYLES = {
    "descriptors": Style(
        "list five to ten short phrases, each of one visual feature, without the name of the class",
        ("What are useful visual features for distinguishing a {} in a photo?",),
        "classification by description",
        "gpt_descriptors",
    ),
    "sentences": Style(
        "write ten whole sentences, each with the name of the class, that answer these questions in turn",
        (
            "Describe what a {} looks like",
            "How can you identify a {}?",
            "What does a {} look like?",
            "Describe an image from the internet of a {}",
            "A caption of an image of a {}:",
        ),
        "CuPL",
        "sentences",
    ),
}


def requests(class_names: Sequence[str], *, style: Style) -> Iterator[str]:
    """The texts to paste, each about at most `AT_ONCE` classes, with the form of the answer."""
    for start in range(0, len(class_names), AT_ONCE):
        names = class_names[start : start + AT_ONCE]
        questions = "\n".join(f'"{question.format("CLASS")}"' for question in style.questions)
        keys = json.dumps({name: ["...", "..."] for name in names}, ensure_ascii=False, indent=0)
        yield (
            f"For each class below, {style.task} (wording of {style.source}):\n{questions}\n\n"
            f"Answer with JSON alone, with exactly these keys:\n{keys}\n"
        )


class Answer(NamedTuple):
    """What a language model wrote.

    Attributes:
        texts: of each class, in label order.
        unknown: keys that are no class.
    """

    texts: dict[str, list[str]]
    unknown: list[str]


def read_answer(contents: Sequence[str], *, class_names: Sequence[str], origin: str) -> Answer:
    """The texts of every class from one or several answers: JSON, with or without a fence, or a list for each class.

    Args:
        contents: the answers as they were copied.
        class_names: C names in label order.
        origin: their files, for messages.

    Raises:
        PoolError: a class without texts; names all of these.
    """
    name_of = {folded(name): name for name in class_names}
    texts: dict[str, list[str]] = {name: [] for name in class_names}
    unknown = []
    for content in contents:
        for heading, of_class in _by_heading(content, known=name_of).items():
            name = name_of.get(folded(heading))
            if name is None:
                unknown.append(heading)
            else:
                texts[name] += [text for text in of_class if text not in texts[name]]
    missing = [name for name, of_class in texts.items() if not of_class]
    if missing:
        listed = ", ".join(map(repr, missing[:SHOWN]))
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise PoolError(
            f"{origin}: no texts for {len(missing)} of {len(class_names)} classes: {listed}{more}; ask for them again "
            "and give both answers"
        )
    return Answer(texts, unknown)


def _by_heading(content: str, *, known: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Texts by key of a JSON object, or by the heading above each list."""
    fenced = _FENCE.search(content)
    inside = fenced[1] if fenced else content
    start, end = inside.find("{"), inside.rfind("}")
    if 0 <= start < end:
        try:
            value = json.loads(inside[start : end + 1])
        except ValueError:
            value = None
        if isinstance(value, dict):
            return {str(key): _texts(texts) for key, texts in value.items()}
    return _lists(content, known=known)


def _texts(value: object) -> list[str]:
    """The texts in a value of JSON: a list of them, or one text with a line each."""
    parts = value if isinstance(value, list) else str(value).splitlines()
    return [one_line(part, limit=1000) for part in parts if isinstance(part, str) and part.strip()]


def _lists(content: str, *, known: Mapping[str, str]) -> dict[str, list[str]]:
    """Items below each heading. A line is a heading if it names a class, or if it is not an item of a list."""
    by_heading: dict[str, list[str]] = {}
    heading = ""
    for line in content.splitlines():
        item = _ITEM.match(line)
        text = item[1] if item else line
        name = text.strip(_MARKS)
        if not name:
            continue
        if folded(name) in known or (item is None and not _is_prose(line)):
            heading = name
        elif item is not None and heading:
            by_heading.setdefault(heading, []).append(one_line(text.strip(), limit=1000))
    return by_heading


def _is_prose(line: str) -> bool:
    """Whether a line that is no item is a sentence around the answer, such as "Here are the features:"."""
    return len(line.split()) > 8
