"""The figures of a run as Vega-Lite draws them on the page: templates of data/plots with their data and captions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wsoup.base import project
from wsoup.disk import store
from wsoup.disk.files import Artifacts, tamed
from wsoup.report.answer import RunAnswer
from wsoup.report.plots_landscape import interpolated

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of the library inside the page; the templates name the older one that ``dvc plots`` loads."""
FIGURES = {
    "gains": "Points gained over the class name only; bars are {confidence:.0%} intervals over images and seeds, "
    "datasets held fixed, corrected (Holm) on each place: {corrected}; another soup for its rivals.",
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is the class "
    "name alone.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer per token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "training": "The averaged weights on the same few test images of every dataset; bars are ± one standard deviation "
    "over seeds.",
    "landscape": "0-1 loss, first seed. Tuned tokens change to the right to the words of the soup's first member (B), "
    "upwards to random words (A). Values between the measured points are interpolated linearly.",
    "landscape_lines": "0-1 loss along the lines from the tuned tokens (0) to either initialisation (1), and beyond.",
}
"""Captions, the first screen's figure first."""


LOOK = {
    "font": "system-ui, sans-serif",
    "title": {"anchor": "start", "fontSize": 15},
    # Labels that touch read as one number.
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelSeparation": 8},
    "header": {"labelFontSize": 13},
    # Symbols are black by default, which cannot be seen in dark mode.
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "symbolBaseFillColor": "#888"},
}
"""How Vega draws on the page: no text smaller than 12 pixels."""


def figures(artifacts: Artifacts, *, judged: RunAnswer) -> list[dict[str, object]]:
    """Every figure that has data, as stage `report` wrote it."""
    drawn: list[dict[str, object]] = []
    for name, caption in FIGURES.items():
        path = store.require(artifacts.reports / "plots" / f"{name}.json", made_by="report")
        points = store.read_json(path)
        if points:
            if name == "gains":
                caption = caption.format(confidence=judged.confidence, corrected=_corrected(judged))
            drawn.append({"name": name, "caption": caption, "spec": figure(name, points)})
    return drawn


def _corrected(judged: RunAnswer) -> str:
    """What the intervals of the answer's rows are corrected for."""
    if any(place.advice for place in judged.answers.values()):
        return "the rows of the answer for their number"
    return "the run's soup for its comparisons with class name and templates; what stands beside it for its own"


def figure(name: str, rows: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """A template with the data of one revision: a complete Vega-Lite specification."""
    template = project.file(f"data/plots/{name}.json").read_text(encoding="utf-8")
    specification: dict[str, Any] = json.loads(template, object_hook=_without_revisions)
    specification["$schema"] = SCHEMA
    specification["config"] = LOOK
    rows = legible(rows)
    specification["data"] = {"values": rows}
    if name == "landscape":
        # A run without targets has only the panels of the training images.
        means = {row["mean"] for row in rows}
        panels = specification["vconcat"]
        specification["vconcat"] = [panel for panel in panels if panel["title"]["text"] in means]
        specification["data"] = {"values": interpolated(rows)}
    return specification


def legible(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Data of a figure whose texts turn no others round, as a class's name may."""
    return [{key: tamed(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows]


def _without_revisions(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a specification without the channels that distinguish revisions."""
    kept = {}
    for key, value in part.items():
        is_revision = isinstance(value, dict) and value.get("field") == "rev"
        if not is_revision:
            kept[key] = value
    return kept
