"""One figure as an SVG file, legible on light and on dark ground: for a README, slides or a paper."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from wsoup.base import project
from wsoup.base.errors import MissingError, ParamsError
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report.figures import FIGURES, figure, legible

TEXT = "#737c87"
"""A grey with a contrast of at least 4 to white and to GitHub's dark ground."""
LINE = "#8a939c66"
DRAWN_BY = "\n<!-- drawn by wsoup report, "
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


def check_known(name: str) -> None:
    """Raise ParamsError unless the page has a figure of that name."""
    if name not in FIGURES:
        raise ParamsError(f"--figure {name!r} must be one of {', '.join(FIGURES)}")


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
    check_known(name)
    data = Artifacts(Path(root)).reports / "plots" / f"{name}.json"
    points = store.read_json(store.require(data, made_by="report"))
    if not points:
        raise MissingError(f"{data} is empty: this run has nothing to draw in figure {name}")
    return _write(path, figure(name, points))


def write_points(path: str | Path, points: Sequence[Mapping[str, object]], *, name: str) -> Path:
    """Write a figure that a command draws and no run has, as SVG: its template lies in data/figures."""
    template = project.file(f"data/figures/{name}.json").read_text(encoding="utf-8")
    specification: dict[str, Any] = json.loads(template)
    specification["data"] = {"values": legible(points)}
    return _write(path, specification)


def _write(path: str | Path, specification: dict[str, Any]) -> Path:
    # The page has other colours, because it knows whether its reader prefers dark; a picture in a README does not.
    specification["config"] = COLOURS
    if specification.get("width") == "container":
        specification["width"] = WIDTH
    svg: str = vl_convert.vegalite_to_svg(specification)
    store.write_bytes(path, _sealed(svg).encode())
    return Path(path)


def is_figure(path: Path) -> bool:
    """Whether a file is a figure as `write_figure` wrote it, and nobody has edited it since."""
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    svg, mark, _ = text.rpartition(DRAWN_BY)
    return bool(mark) and _sealed(svg) == text


def _sealed(svg: str) -> str:
    """A figure with its digest in a comment at its end, by which an edit is noticed."""
    own = hashlib.sha256(svg.encode()).hexdigest()[:16]
    return f"{svg}{DRAWN_BY}{own} -->\n"
