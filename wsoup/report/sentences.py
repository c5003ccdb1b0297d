"""The answer in words: what the soup changes, what finetuning with it adds, and how far a head gets."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from wsoup.report.answer import JudgedRun, PlaceAnswer
from wsoup.report.labels import soup_title
from wsoup.report.results import PLACES
from wsoup.statistics.advice import in_words, signed

WIDTH = 100
"""Columns of the answer."""
ON = {"source": "source", "xd": "XD", "dg": "DG"}


class Said(NamedTuple):
    """A part of the answer.

    Attributes:
        about: a role, or finetuned, or head.
        text: one or more sentences.
    """

    about: str
    text: str


def answer(judged: JudgedRun) -> list[Said]:
    """What the run answers: about the source, XD and DG first, then about finetuning, then about a head."""
    said = []
    for role, place in judged.answers.items():
        text = place.advice
        if text is None:
            text = _about_soup(judged, place)
        said.append(Said(role, text))
    finetuning = _about_finetuning(judged)
    if finetuning:
        said.append(Said("finetuned", finetuning))
    competes = any(place.advice for place in judged.answers.values())
    if "head" in judged.names and not competes:
        said.append(Said("head", _about_head(judged)))
    return said


def _about_soup(judged: JudgedRun, place: PlaceAnswer) -> str:
    """The soup against the class name and the templates, or only that it does no better than guessing."""
    soup = judged.names["soup"]
    accuracy = f"{place.accuracy['soup']:.1f} %"
    if place.chance is not None:
        return f"No better than guessing: the {soup} gets {accuracy}, and chance is {place.chance:.1f} %."
    parts = [f"The {soup} gets {accuracy}."]
    for other in ("class_name", "templates"):
        gain = place.gains.get(("soup", other))
        if gain is not None:
            parts.append(f"Over the {judged.names[other]}: {in_words(gain)}.")
    return " ".join(parts)


def _about_finetuning(judged: JudgedRun) -> str:
    """What the run's finetuned method adds to the soup; "" without one."""
    if judged.method is None or judged.method_soup is None:
        return ""
    gains = []
    for role, place in judged.answers.items():
        gain = place.gains[("finetuned", "soup")]
        interval = f"[{signed(gain.low)}, {signed(gain.high)}]"
        gains.append(f"{ON[role]} {signed(gain.mean)} {interval}, {gain.word}")
    texts = f"the {soup_title(judged.method_soup)}"
    if judged.method_soup == judged.soup:
        texts = "it"
    elif judged.method_soup == "class_name":
        texts = "the class name"
    soup = judged.names["soup"]
    return f"Finetuning with {texts} ({judged.method}) adds points to the {soup}: {'; '.join(gains)}."


def _about_head(judged: JudgedRun) -> str:
    """Whether a head is better where it has all the classes."""
    got = []
    for role, place in judged.answers.items():
        if "head" in place.accuracy:
            got.append(f"{ON[role]} {place.accuracy['head']:.1f} %")
    figures = ", ".join(got)
    gain = judged.answers["source"].gains[("head", "soup")]
    better = "better" if gain.word == "better" else "not reliably better"
    return f"For photos of exactly these classes a head is {better}: {figures}."


def answer_lines(judged: JudgedRun) -> list[str]:
    """At most 15 lines: the answer in words, then the accuracies of its rows.

    A head that does not compete is only in the words, which hold its figures.
    """
    said = answer(judged)
    lines = []
    for part in said:
        text = part.text
        if part.about == "source":
            text = f"Test images of the source. {text}"
        elif part.about in PLACES:
            text = f"{part.about.upper()}. {text}"
        lines += textwrap.wrap(text, width=WIDTH, subsequent_indent="    ")
    header = [PLACES[role] for role in judged.answers]
    lines.append(_line("per cent", header))
    # A head's sentence holds its figures already, and the answer is to fit a screen.
    told = {part.about for part in said} & {"head"}
    for key, name in judged.names.items():
        cells = []
        for place in judged.answers.values():
            accuracy = place.accuracy.get(key)
            cells.append("" if accuracy is None else f"{accuracy:.2f}")
        if any(cells) and key not in told:
            lines.append(_line(name, cells))
    return lines


def _line(first: str, cells: Sequence[str]) -> str:
    """A line of the table under the answer."""
    columns = [f"{cell:>10}" for cell in cells]
    return f"{first[:23]:<24}{''.join(columns)}"
