"""The answer in words: what the soup changes, what finetuning with it adds, and how far a head gets."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wsoup.evaluate.row_key import row_in_mode
from wsoup.evaluate.rows import CLASS_NAME, row_name
from wsoup.paper import tables as paper
from wsoup.report.answer import BESIDE, SOUP_FIRST, PlaceAnswer, RunAnswer
from wsoup.report.labels import soup_title
from wsoup.report.results import PLACES
from wsoup.statistics.words import ahead, in_short, signed, worded

WIDTH = 100
"""Columns of the answer."""
ON = {"source": "source", "xd": "XD", "dg": "DG"}
VERDICT = "verdict"
SEARCHED = "the other soups, chosen on the few-shot photos, on the same test images, over the class name:"
"""What stands above their rows."""


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
            subject = "it" if gain.mean > 0 else "the soup"
            parts.append(ahead(subject, f"the {judged.names[other]}", gain))
    return " ".join(parts)


def _about_finetuning(judged: RunAnswer) -> str:
    """What the run's finetuned method gets beside itself without the soup, or beside the soup; "" without a method."""
    if judged.method is None or judged.method_soup is None:
        return ""
    if judged.without is not None:
        texts = f"the {soup_title(judged.method_soup)}"
        rival = f"the same without ({judged.without})"
        gains = _on_places(judged, ("finetuned", "without")) + _of_paper(judged)
    else:
        texts = _texts_of_method(judged, soup=judged.method_soup)
        # The run's soup has been named just before.
        rival = "the soup alone" if judged.method_soup == judged.soup else f"the {judged.names['soup']}"
        gains = _on_places(judged, ("finetuned", "soup"))
    return f"Finetuned with {texts} ({judged.method}), against {rival}: {gains}."


def _texts_of_method(judged: RunAnswer, *, soup: str) -> str:
    """The texts that a method was finetuned with: ``the word soup``, ``the class name``."""
    if soup == judged.soup:
        return f"the {judged.names['soup']}"
    if soup == "class_name":
        return "the class name"
    return f"the {soup_title(soup)}"


def _of_paper(judged: RunAnswer) -> str:
    """The paper's gain of the run's method, where it has both methods; else ""."""
    row = row_in_mode(row_name(str(judged.method_soup)), judged.mode)
    gains = paper.gain_of_method(str(judged.method), over=str(judged.without), row=row)
    if not gains:
        return ""
    figures = [f"{place.removesuffix(' mean')} {signed(gain)}" for place, gain in gains.items()]
    return f" (the paper, with CLIP: {', '.join(figures)})"


def _on_places(judged: RunAnswer, pair: tuple[str, str]) -> str:
    """A gain on each place."""
    gains = [f"{ON[role]} {in_short(place.gains[pair])}" for role, place in judged.answers.items()]
    return "; ".join(gains)


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
            sentences.append(f"Source. {text}")
        elif about in PLACES:
            sentences.append(f"{about.upper()}. {text}")
        else:
            sentences.append(text)
    return sentences


def about_intervals(judged: RunAnswer) -> str:
    """What the answer's intervals are: for how many comparisons they are corrected, on the place with most of them."""
    first = 0
    beside = 0
    for place in judged.answers.values():
        for (row, other), gain in place.gains.items():
            competes = place.advice is not None and row != "finetuned"
            if competes or (row, other) in SOUP_FIRST:
                first = max(first, gain.together)
            elif (row, other) in BESIDE:
                beside = max(beside, gain.together)
    asks_which = any(place.advice for place in judged.answers.values())
    counted = f"{first} {'with the class name' if asks_which else 'of the soup'}"
    if beside:
        counted += f", {beside} of the {'finetuned method' if asks_which else 'other rows'}"
    if judged.without is not None:
        counted += ", 1 of the method over itself without a soup"
    return (
        f"Intervals: {judged.confidence:.0%}, corrected (Holm) for the comparisons on a place: {counted}. "
        "Each further one, such as another head's, widens them."
    )


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


def record_searched(judged: RunAnswer) -> list[dict[str, str | float]]:
    """Per cent of every other soup, with its verdict over the class name: {row, source, "source verdict", ...}.

    Means over seeds. They were chosen on the few-shot photos, so the advice, which may judge on these, leaves them out.
    """
    rows: dict[str, dict[str, str | float]] = {}
    for comparison in judged.comparisons:
        if comparison.rival == CLASS_NAME.name and comparison.soup != judged.soup:
            row = rows.setdefault(comparison.soup, {"row": soup_title(comparison.soup)})
            class_name = judged.answers[comparison.role].accuracy["class_name"]
            row[comparison.role] = round(class_name + comparison.fixed.mean, 2)
            row[f"{comparison.role} {VERDICT}"] = worded(comparison.fixed)
    return list(rows.values())


def printed(
    sentences: Sequence[str],
    accuracy: Sequence[Mapping[str, str | float]],
    searched: Sequence[Mapping[str, str | float]] = (),
) -> list[str]:
    """The lines that show an answer: its sentences, wrapped, then the accuracies of its rows, then searched soups."""
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
    if searched:
        lines.append(SEARCHED)
    for row in searched:
        verdicts = [f"{ON[role]} {row[f'{role} {VERDICT}']}" for role in roles if role in row]
        figures = _line(str(row["row"]), [_cell(row.get(role)) for role in roles])
        lines.append(f"{figures}   {', '.join(verdicts)}")
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
