"""Rows of many DVC experiments in one table and figure: against any param, or the paper's table of model scaling.

params.yaml and reports/ of each revision are read from git, as in `wsoup.report.compare`. For model scaling, each
encoder is a separate experiment, run with `dvc exp run --temp`: the workspace stays as it is, nothing is finetuned.
"""

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert

from wsoup.base.errors import MissingError, ParamsError, WsoupError
from wsoup.disk import store
from wsoup.params.section import parse_yaml, read_yaml
from wsoup.report import paper, plots
from wsoup.report.compare import PARAMS, WORKSPACE, experiments, read_at
from wsoup.report.labels import table as rows_of
from wsoup.report.results import is_number
from wsoup.report.settings import flat
from wsoup.report.tables import MARK, Table, with_std

METRICS = "reports/metrics.json"
MEANS = {"source": "source", "xd_mean": "XD mean", "dg_mean": "DG mean", "harmonic_mean": "harmonic mean"}
"""Means in metrics.json -> their names in the figure; only base-to-new runs have the last one."""

SCALING = "model_scaling"
PREFIX = "scaling-"
ZERO_SHOT = "reports/tables/zero_shot"
ENCODER_TITLES = {paper.ENCODER: "Open-AI CLIP ViT-B/16", **paper.SCALING_ENCODERS}
"""The paper's models; ViT-B/16 is in its table of zero-shot methods instead."""


def sweep(
    param: str,
    *,
    rows: Sequence[str],
    variant: str = "pretrained",
    revisions: Sequence[str] = (),
    root: str | Path = ".",
) -> Table:
    """Means of rows in many revisions or experiments, against one param: one line per revision and row.

    Args:
        param: dotted key in params.yaml.
        rows: rows of metrics.json, such as ``word_soup``, or ``coop/word_soup`` for a row of another variant.
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
                line = {_column(param): shown, "value": value, "row": row, "revision": revision}
                deviations = {f"{mean} (std)": means.get(f"{mean.removesuffix('_mean')}_std") for mean in MEANS}
                lines.append(line | {mean: means.get(mean) for mean in MEANS} | deviations)
    for row, key in keys.items():
        if not any(line["row"] == row for line in lines):
            raise ParamsError(f"no revision has both the param {param!r} and the row {key} in {METRICS}")
    lines.sort(key=lambda line: (0, line["value"], "") if is_number(line["value"]) else (1, 0, line["value"]))
    return _sweep_table(lines, param=param, keys=keys)


def _runs(revisions: Sequence[str], *, root: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(revision, params by dotted key, metrics), of `revisions` or of all experiments and the workspace, each once."""
    seen: list[Any] = []
    # The workspace comes last: it often equals the latest experiment, which has a name.
    for revision in revisions or [*experiments(root=root), WORKSPACE]:
        try:
            params = flat(parse_yaml(read_at(revision, PARAMS, root=root), origin=f"{PARAMS} of {revision}"))
            metrics = json.loads(read_at(revision, METRICS, root=root))
        except MissingError:
            if revisions:
                raise
            continue  # an experiment that failed before its report
        if revisions or (params, metrics) not in seen:
            seen.append((params, metrics))
            yield revision, params, metrics


def _column(param: str) -> str:
    """Column of the param's values: its name, unless a mean has that name."""
    return "source dataset" if param == "source" else param


def _sweep_table(lines: list[dict[str, Any]], *, param: str, keys: Mapping[str, str]) -> Table:
    notes = ["Per cent, ± standard deviation over seeds; `wsoup compare` says what is more than noise."]
    averages = [line for row in keys for line in _averages(lines, row=row)] if param == "source" else []
    if averages:
        notes.append(
            "Averages are over sources, runs of the same source taken together; that of harmonic_mean is the mean of "
            "the lines above it, not the harmonic mean of the other averages."
        )
    # Base-to-new runs show only the means that they have; other runs show all, even empty ones.
    available = [mean for mean in MEANS if any(line[mean] is not None for line in lines)]
    means = available if "harmonic_mean" in available else [mean for mean in MEANS if mean != "harmonic_mean"]
    columns = [_column(param), *(["row"] if len(keys) > 1 else []), "revision", *with_std(means)]
    what = " ".join(next(iter(keys.values())).split("/")) if len(keys) == 1 else f"{len(keys)} rows"
    return Table(f"sweep-{param}", f"{what} against {param}", columns, lines + averages, notes)


def _averages(lines: Sequence[Mapping[str, Any]], *, row: str) -> list[dict[str, Any]]:
    """One line: a row's average over the sources of base-to-new runs; none if there is only one source."""
    by_source: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["row"] == row and line["harmonic_mean"] is not None:
            by_source.setdefault(line["value"], []).append(line)
    if len(by_source) < 2:
        return []
    average: dict[str, Any] = {_column("source"): f"average of {len(by_source)}", "row": row, "revision": ""}
    for mean in MEANS:
        values = [[line[mean] for line in of_source] for of_source in by_source.values()]
        if not any(None in of_source for of_source in values):
            average[mean] = float(np.mean([np.mean(of_source) for of_source in values]))
    return [average]


def points(table: Table) -> list[dict[str, Any]]:
    """Data of a sweep's figure, without duplicates: {value, row, mean, accuracy, std}."""
    rows = [
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
    return list({json.dumps(row): row for row in rows}.values())


def figure(rows: Sequence[Mapping[str, Any]], *, param: str) -> dict[str, Any]:
    """A Vega-Lite specification: the means as lines over numbers, or side by side for names."""
    specification = plots.figure("sweep", rows)
    specification["title"] = f"Accuracy against {param}"
    if len({row["mean"] for row in rows}) == 3:  # a second line of panels would have an empty place
        specification["columns"] = 3
    shared = specification["spec"]["encoding"]
    shared["x"]["title"] = param
    if not all(is_number(row["value"]) for row in rows):
        axis = {"labelAngle": -30}
        shared["x"] = {"field": "value", "type": "nominal", "title": param, "sort": None, "axis": axis}
        shared["xOffset"] = {"field": "row", "type": "nominal", "sort": None}
        specification["spec"]["layer"][0]["mark"] = {"type": "point", "filled": True, "opacity": 1, "tooltip": True}
    return specification


def write_figure(path: Path, *, table: Table, param: str) -> None:
    """Write the figure of a sweep: an SVG, or its Vega-Lite specification as JSON."""
    specification = figure(points(table), param=param)
    if path.suffix.lower() == ".json":
        store.write_json(path, specification)
    else:
        store.write_bytes(path, vl_convert.vegalite_to_svg({**specification, "background": "white"}).encode())


# ----------------------------------------------------------------------------------------------- model scaling


def encoder_of(text: str) -> dict[str, Any]:
    """Keys of section `encoder`, from ``MODEL/TAG`` or, for local weights, a YAML file.

    >>> encoder_of("ViT-B-32/openai")
    {'model': 'ViT-B-32', 'pretrained': 'openai'}
    """
    if text.endswith((".yaml", ".yml")):
        section = read_yaml(text)
        if {"model", "pretrained"} <= set(section):
            return dict(section)
        raise ParamsError(f"--encoder {text}: expected the keys of section encoder, at least model and pretrained")
    model, _, tag = text.rpartition("/")
    if not (model and tag):
        raise ParamsError(f"--encoder {text!r} must be MODEL/TAG, such as ViT-B-32/openai, or a YAML file")
    return {"model": model, "pretrained": tag}


def experiment_name(encoder: Mapping[str, Any]) -> str:
    """The experiment of one encoder: its model and its tag, or its model alone for weights of the same name."""
    model, tag = str(encoder["model"]), Path(str(encoder["pretrained"])).stem
    return PREFIX + re.sub(r"[^A-Za-z0-9]+", "-", model if tag == model else f"{model}-{tag}").strip("-")


def run_encoders(encoders: Sequence[Mapping[str, Any]], *, root: Path = Path()) -> list[str]:
    """Run the experiments that are missing, one per encoder; returns the names of all.

    Raises:
        WsoupError: an experiment failed; finished ones are kept, and the same command continues from there.
    """
    finished, names = experiments(root=root), [experiment_name(encoder) for encoder in encoders]
    methods = read_yaml(root / PARAMS)["finetune"]["methods"]
    zero_shot = [*(f"~finetune.methods.{name}" for name in methods), "landscape.methods=[]"]
    for name, encoder in zip(names, encoders, strict=True):
        if name in finished:
            print(f"{name} has been run: `dvc exp remove {name}` to run it again", file=sys.stderr)
            continue
        # Hydra, which parses them, takes JSON values.
        changes = [f"encoder.{key}={json.dumps(value, ensure_ascii=False)}" for key, value in encoder.items()]
        options = [part for change in changes + zero_shot for part in ("--set-param", change)]
        process = subprocess.run(["dvc", "exp", "run", "--temp", "--name", name, *options], cwd=root, check=False)
        if process.returncode:
            raise WsoupError(
                f"experiment {name} failed (see above); it runs in a copy of what git tracks, so datasets, descriptors "
                "and weights need absolute paths in params.yaml. Finished ones are kept: run the same command again"
            )
    return names


def scaling_table(revisions: Sequence[str] = (), *, root: Path = Path()) -> Table:
    """The rows of model_scaling.csv for every encoder that revisions have, beside the paper's.

    Args:
        revisions: which; none means the workspace and every experiment of `run_encoders`.
        root: the repository.

    Raises:
        MissingError: there is no revision, or one has no zero-shot table.
    """
    names = list(revisions) or [name for name in experiments(root=root) if name.startswith(PREFIX)]
    if not revisions and (root / f"{ZERO_SHOT}.csv").exists():
        names.append(WORKSPACE)
    if not names:
        raise MissingError("there is no experiment with another encoder; add --run, or name revisions")
    tables: dict[tuple[str, str], Table] = {}
    for revision in names:
        encoder = parse_yaml(read_at(revision, PARAMS, root=root), origin=f"{PARAMS} of {revision}")["encoder"]
        pair = str(encoder["model"]).removesuffix(paper.QUICK_GELU), str(encoder["pretrained"])
        title = ENCODER_TITLES.get(pair, f"{pair[0]} / {Path(pair[1]).name}")
        tables.setdefault(pair, _encoder_table(revision, title=title, root=root))
    order = [*ENCODER_TITLES, *sorted(set(tables) - set(ENCODER_TITLES))]
    ordered = [tables[pair] for pair in order if pair in tables]
    return Table(
        SCALING,
        "Zero-shot accuracy by encoder",
        list(dict.fromkeys(column for table in ordered for column in table.columns)),
        [row for table in ordered for row in table.rows],
        list(dict.fromkeys(note for table in ordered for note in table.notes)),
    )


def _encoder_table(revision: str, *, title: str, root: Path) -> Table:
    """Rows of a revision's zero-shot table that the paper's table has, with their marks."""
    scaling = [row for row in rows_of(["descriptor", "word"]) if row.scaling]
    labels = {label: row.scaling for row in scaling for label in (row.label, row.plain)}
    lines = list(csv.DictReader(io.StringIO(read_at(revision, f"{ZERO_SHOT}.csv", root=root))))
    text = read_at(revision, f"{ZERO_SHOT}.md", root=root)
    marked = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|") and f"{MARK})" in line}
    rows = []
    for line in lines:
        label = line["method"].removeprefix("'")  # which defuses it for spreadsheets
        if label in labels:
            row = {key: float(value) if value else None for key, value in line.items() if key != "method"}
            beside = [key.removesuffix(" (paper)") for key in line if key.endswith(" (paper)")]
            marks = {f"{column} (mark)": MARK for column in beside if label in marked}
            rows.append({**row, **marks, "model": title, "method": labels[label]})
    notes = [line for line in text.splitlines() if line and not line.startswith(("#", "|"))]
    notes = [f"{title}: {note}" if note.startswith(MARK) else note for note in notes]
    return Table(SCALING, title, ["model", *(lines[0] if lines else [])], rows, notes)


def write_scaling(table: Table, *, folder: Path) -> Path:
    """Write reports/model_scaling.csv, .md and .json; `saved_scaling` reads the last one for the page."""
    table.write(folder)
    parts = {name: getattr(table, name) for name in ("title", "columns", "rows", "notes")}
    store.write_json(folder / f"{SCALING}.json", parts)
    return folder / f"{SCALING}.md"


def saved_scaling(folder: Path) -> list[Table]:
    """The table that `write_scaling` left in a folder, or none."""
    path = folder / f"{SCALING}.json"
    return [Table(SCALING, **store.read_json(path))] if path.exists() else []
