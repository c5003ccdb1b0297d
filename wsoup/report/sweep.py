"""Rows of many experiments against one param, as a table and as a figure: shots, lambda, the encoder, the source, ...

Read from git like everything in `wsoup.report.compare`: params.yaml and reports/metrics.json of each revision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert

from wsoup.core.disk import store
from wsoup.core.errors import MissingError, ParamsError
from wsoup.core.params.section import parse_yaml
from wsoup.report import plots
from wsoup.report.compare import PARAMS, WORKSPACE, experiments, read_at
from wsoup.report.means import is_number
from wsoup.report.settings import flat
from wsoup.report.tables import Table

METRICS = "reports/metrics.json"
MEANS = {"source": "source", "xd_mean": "XD mean", "dg_mean": "DG mean", "harmonic_mean": "harmonic mean"}
"""Means in metrics.json -> their names in the figure; the last one only base-to-new runs have."""
SUFFIXES = (".svg", ".json")


def sweep(
    param: str,
    *,
    rows: Sequence[str],
    variant: str = "pretrained",
    revisions: Sequence[str] = (),
    root: str | Path = ".",
) -> Table:
    """Means of rows over many revisions or experiments, against one param: one line a revision and row.

    Args:
        param: dotted key in params.yaml.
        rows: rows of metrics.json, for example ``word_soup``, or ``coop/word_soup`` for one of another variant.
        variant: ``pretrained`` or a finetuned method, for rows that name none.
        revisions: which; none means the workspace and all experiments.
        root: the repository.

    Raises:
        ParamsError: no revision has this param and one of the rows.
    """
    keys = {row: row if "/" in row else f"{variant}/{row}" for row in rows}
    lines: list[dict[str, Any]] = []
    for revision, params, metrics in _runs(revisions, root=Path(root)):
        for row, key in keys.items():
            method, _, name = key.partition("/")
            means = metrics.get(method, {}).get(name)
            if param in params and means is not None:
                value = params[param]
                value = value if is_number(value) or isinstance(value, str) else json.dumps(value)
                shown = f"{value:g}" if isinstance(value, float) else value
                line = {column_of(param): shown, "value": value, "row": row, "revision": revision}
                lines.append(line | _means(means))
    for row, key in keys.items():
        if not any(line["row"] == row for line in lines):
            raise ParamsError(f"no revision has both the param {param!r} and the row {key} in {METRICS}")
    lines.sort(key=lambda line: (0, line["value"], "") if is_number(line["value"]) else (1, 0, line["value"]))
    return _table(lines, param=param, keys=keys)


def _runs(revisions: Sequence[str], *, root: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(revision, params by dotted key, metrics), of `revisions` or of all experiments and the workspace, each once."""
    seen: list[Any] = []
    # The workspace comes last: it often is an experiment that has just run, and that one has a name.
    for revision in revisions or [*experiments(root=root), WORKSPACE]:
        try:
            params = flat(parse_yaml(read_at(revision, PARAMS, root=root), origin=f"{PARAMS} of {revision}"))
            metrics = json.loads(read_at(revision, METRICS, root=root))
        except MissingError:
            if revisions:
                raise
            continue  # an experiment that did not come to a report
        if revisions or (params, metrics) not in seen:
            seen.append((params, metrics))
            yield revision, params, metrics


def column_of(param: str) -> str:
    """The column of the param's values: its name, but where that is the name of a mean."""
    return "source dataset" if param == "source" else param


def _means(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """The means of one row of metrics.json, each with its deviation; None where there is none."""
    deviations = {f"{mean} (std)": metrics.get(f"{mean.removesuffix('_mean')}_std") for mean in MEANS}
    return {mean: metrics.get(mean) for mean in MEANS} | deviations


def _table(lines: list[dict[str, Any]], *, param: str, keys: Mapping[str, str]) -> Table:
    notes = ["Per cent, ± standard deviation over seeds; `wsoup compare` says what is more than noise."]
    halves = any(line["harmonic_mean"] is not None for line in lines)
    averages = [line for row in keys for line in _averages(lines, row=row)] if param == "source" else []
    if averages:
        notes.append(
            "Averages are over sources, runs of the same source taken together; that of harmonic_mean is the mean of "
            "the lines above it, not the harmonic mean of the other averages."
        )
    # Base-to-new runs have few of the means; other runs show all theirs, also those that are empty.
    there = [mean for mean in MEANS if any(line[mean] is not None for line in lines)]
    means = there if halves else [mean for mean in MEANS if mean != "harmonic_mean"]
    columns = [column_of(param), *(["row"] if len(keys) > 1 else []), "revision"]
    columns += [f"{mean}{end}" for mean in means for end in ("", " (std)")]
    what = " ".join(next(iter(keys.values())).split("/")) if len(keys) == 1 else f"{len(keys)} rows"
    return Table(f"sweep-{param}", f"{what} against {param}", columns, lines + averages, notes)


def _averages(lines: Sequence[Mapping[str, Any]], *, row: str) -> list[dict[str, Any]]:
    """One line of one row's averages over the sources of base-to-new runs; none where there is one source only."""
    by_source: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["row"] == row and line["harmonic_mean"] is not None:
            by_source.setdefault(line["value"], []).append(line)
    if len(by_source) < 2:
        return []
    average: dict[str, Any] = {column_of("source"): f"average of {len(by_source)}", "row": row, "revision": ""}
    for mean in MEANS:
        values = [[line[mean] for line in of_source] for of_source in by_source.values()]
        if not any(None in of_source for of_source in values):
            average[mean] = float(np.mean([np.mean(of_source) for of_source in values]))
    return [average]


# -------------------------------------------------------------------------------------------------------- figure


def points(table: Table) -> list[dict[str, Any]]:
    """The points of a sweep's figure: {value, row, mean, accuracy, std}.

    Lines that show the same are one point: the workspace often is one of the experiments.
    """
    shown = [
        {
            "value": line["value"],
            "row": line["row"],
            "mean": title,
            "accuracy": line[mean],
            "std": line[f"{mean} (std)"] or 0.0,
        }
        for line in table.rows
        for mean, title in MEANS.items()
        if line["revision"] and is_number(line.get(mean))
    ]
    return list({json.dumps(point): point for point in shown}.values())


def figure(rows: Sequence[Mapping[str, Any]], *, param: str) -> dict[str, Any]:
    """A Vega-Lite specification: the means against numbers, joined by lines, or against names, side by side."""
    specification = plots.figure("sweep", rows)
    specification["title"] = f"Accuracy against {param}"
    if len({row["mean"] for row in rows}) == 3:  # in one line, where a second would leave an empty place
        specification["columns"] = 3
    shared = specification["spec"]["encoding"]
    shared["x"]["title"] = param
    if not all(is_number(row["value"]) for row in rows):
        axis = {"labelAngle": -30}
        shared["x"] = {"field": "value", "type": "nominal", "title": param, "sort": None, "axis": axis}
        shared["xOffset"] = {"field": "row", "type": "nominal", "sort": None}
        specification["spec"]["layer"][0]["mark"] = {"type": "point", "filled": True, "opacity": 1, "tooltip": True}
    return specification


def check_figure(path: Path) -> None:
    """ParamsError where a figure cannot be written under this name."""
    if path.suffix not in SUFFIXES:
        raise ParamsError(f"--figure {path} must end in {' or '.join(SUFFIXES)} (the Vega-Lite specification)")


def write_figure(path: Path, *, table: Table, param: str) -> None:
    """Write the figure of a sweep: an SVG, or its Vega-Lite specification as JSON."""
    specification = figure(points(table), param=param)
    if path.suffix == ".json":
        store.write_json(path, specification)
        return
    svg = vl_convert.vegalite_to_svg({**specification, "background": "white"})
    store.write_bytes(path, svg.encode())
