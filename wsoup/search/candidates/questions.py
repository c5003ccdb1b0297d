"""Questions about classes to paste into a language model; `wsoup.search.candidates.replies` reads what comes back.

Nothing is sent anywhere. The wording is published: that of classification by description (Menon & Vondrick 2023,
sachit-menon/classify_by_description_release, generate_descriptors.py) for descriptors, and that of CuPL (Pratt et al.
2023, sarahpratt/CuPL, generate_image_prompts.py) for sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wsoup.base.folder_names import composed

AT_ONCE = 40
"""Classes in one request: a longer answer is often cut."""


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
    # A class that is there in two Unicode forms is asked about once.
    distinct = list(dict.fromkeys(map(composed, class_names)))
    for start in range(0, len(distinct), AT_ONCE):
        names = distinct[start : start + AT_ONCE]
        questions = "\n".join(f'"{question.format("CLASS")}"' for question in style.questions)
        keys = json.dumps({name: ["...", "..."] for name in names}, ensure_ascii=False, indent=0)
        yield (
            f"For each class below, {style.task} (wording of {style.source}):\n{questions}\n\n"
            f"Answer with JSON alone, with exactly these keys:\n{keys}\n"
        )
