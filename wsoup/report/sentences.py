"""The answer in words: what the soup changes, what finetuning with it adds, and how far a head gets."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wsoup.report.answer import PlaceAnswer, RunAnswer
from wsoup.report.labels import soup_title
from wsoup.report.results import PLACES
from wsoup.statistics.words import ahead, in_short

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


def answer(judged: RunAnswer) -> list[Said]:
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


def _about_soup(judged: RunAnswer, place: PlaceAnswer) -> str:
    """The soup against the class name and the templates, or only that it does no better than guessing."""
    soup = judged.names["soup"]
    accuracy = f"{place.accuracy['soup']:.1f} %"
    if place.chance is not None:
        return f"No better than guessing: the {soup} gets {accuracy}, and chance is {place.chance:.1f} %."
    parts = [f"The {soup} gets {accuracy}."]
    for other in ("class_name", "templates"):
        gain = place.gains.get(("soup", other))
        if gain is not None:
            parts.append(ahead("the soup", f"the {judged.names[other]}", gain))
    return " ".join(parts)


def _about_finetuning(judged: RunAnswer) -> str:
    """What the run's finetuned method gets beside the soup; "" without one."""
    if judged.method is None or judged.method_soup is None:
        return ""
    gains = []
    for role, place in judged.answers.items():
        gains.append(f"{ON[role]} {in_short(place.gains['finetuned', 'soup'])}")
    texts = f"the {soup_title(judged.method_soup)}"
    other = f"the {judged.names['soup']}"
    if judged.method_soup == judged.soup:
        texts = other
        other = "the soup alone"
    elif judged.method_soup == "class_name":
        texts = "the class name"
    return f"Finetuned with {texts} ({judged.method}), against {other}: {'; '.join(gains)}."


def _about_head(judged: RunAnswer) -> str:
    """The head beside the soup, where it has all the classes."""
    got = []
    for role, place in judged.answers.items():
        gain = place.gains.get(("head", "soup"))
        if gain is not None:
            got.append(f"{ON[role]} {place.accuracy['head']:.1f} % ({in_short(gain)})")
    return f"A head, against the soup: {'; '.join(got)}."


def record_sentences(judged: RunAnswer) -> list[str]:
    """The answer as verdict.json holds it, a string for each part."""
    sentences = []
    for about, text in answer(judged):
        if about == "source":
            sentences.append(f"Test images of the source. {text}")
        elif about in PLACES:
            sentences.append(f"{about.upper()}. {text}")
        else:
            sentences.append(text)
    return sentences


def record_accuracy(judged: RunAnswer) -> list[dict[str, str | float]]:
    """Per cent of the answer's rows, in order: {row, source, xd, dg}.

    A head that does not compete is only in the words, which hold its figures.
    """
    told = {part.about for part in answer(judged)} & {"head"}
    rows = []
    for key, name in judged.names.items():
        row: dict[str, str | float] = {"row": name}
        for role, place in judged.answers.items():
            if key in place.accuracy:
                row[role] = round(place.accuracy[key], 2)
        if len(row) > 1 and key not in told:
            rows.append(row)
    return rows


def printed(sentences: Sequence[str], accuracy: Sequence[Mapping[str, str | float]]) -> list[str]:
    """The lines that show an answer: its sentences, wrapped, then the accuracies of its rows."""
    lines = []
    for sentence in sentences:
        lines += textwrap.wrap(sentence, width=WIDTH, subsequent_indent="    ")
    # A place that no row has is none of this run's.
    roles = [role for role in PLACES if any(role in row for row in accuracy)]
    if not roles:
        return lines
    lines.append(_line("per cent", [PLACES[role] for role in roles]))
    for row in accuracy:
        lines.append(_line(str(row["row"]), [_cell(row.get(role)) for role in roles]))
    return lines


def _cell(accuracy: str | float | None) -> str:
    return "" if accuracy is None else f"{accuracy:.2f}"


def _line(first: str, cells: Sequence[str]) -> str:
    """A line of the table under the answer."""
    columns = [f"{cell:>10}" for cell in cells]
    return f"{first[:23]:<24}{''.join(columns)}"


def one_line_of(title: str, items: Sequence[str], *, width: int) -> str:
    """Some texts on one line, cut to some columns."""
    return textwrap.shorten(f"{title}: {', '.join(items)}", width=width, placeholder=" ...")
