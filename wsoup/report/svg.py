"""One figure as an SVG file, legible on light and on dark ground: for a README, slides or a paper."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from wsoup.base import project
from wsoup.base.errors import MissingError, ParamsError
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report.figures import FIGURES, figure

TEXT = "#737c87"
"""A grey with a contrast of at least 4 to white and to GitHub's dark ground."""
LINE = "#8a939c66"
WIDTH = 560
"""Pixels of a figure that fills the column on the page, which a file does not have."""
COLOURS = {
    "background": "transparent",
    "title": {"color": TEXT},
    "axis": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelSeparation": 8,
        "labelFontSize": 12,
        "titleFontSize": 12,
    },
    "header": {"labelColor": TEXT, "titleColor": TEXT, "labelFontSize": 12},
    "legend": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "symbolBaseFillColor": "#888",
    },
    "view": {"stroke": LINE},
}


def write_figure(path: str | Path, *, name: str, root: str | Path = ".") -> Path:
    """Write one of the page's figures, of the run in folder `root`, as SVG.

    Args:
        path: the file.
        name: of `FIGURES`.
        root: folder of the run.

    Raises:
        ParamsError: there is no figure of that name.
        MissingError: stage `report` has not run, or the run has no data for this figure.
    """
    if name not in FIGURES:
        raise ParamsError(f"--figure {name!r} must be one of {', '.join(FIGURES)}")
    data = Artifacts(Path(root)).reports / "plots" / f"{name}.json"
    points = store.read_json(store.require(data, made_by="report"))
    if not points:
        raise MissingError(f"{data} is empty: this run has nothing to draw in figure {name}")
    return _write(path, figure(name, points))


def write_points(path: str | Path, points: Sequence[Mapping[str, object]], *, name: str) -> Path:
    """Write a figure that a command draws and no run has, as SVG: its template lies in data/figures."""
    template = project.file(f"data/figures/{name}.json").read_text(encoding="utf-8")
    specification: dict[str, Any] = json.loads(template)
    specification["data"] = {"values": list(points)}
    return _write(path, specification)


def _write(path: str | Path, specification: dict[str, Any]) -> Path:
    # The page has other colours, because it knows whether its reader prefers dark; a picture in a README does not.
    specification["config"] = COLOURS
    if specification.get("width") == "container":
        specification["width"] = WIDTH
    svg: str = vl_convert.vegalite_to_svg(specification)
    store.write_bytes(path, svg.encode())
    return Path(path)
