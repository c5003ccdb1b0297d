"""``wsoup report``: one self-contained HTML page of a run. No network: Vega and its data are inside.

The page is written by the command and not by the stage, because it also shows seconds and the machine, which differ
from run to run; everything under DVC is the same for the same inputs.
"""

from __future__ import annotations

import base64
import io
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import vl_convert
import yaml
from PIL import Image

from wsoup import __version__, store
from wsoup.artifacts import Artifacts
from wsoup.errors import DataError
from wsoup.images.decode import load_rgb
from wsoup.params.whole import Params, load_params
from wsoup.report import ablations, analyses, plots
from wsoup.report.results import PRETRAINED, ROWS, Results, load_results, mean_and_std, paired_interval
from wsoup.report.tables import (
    MEANS,
    cell,
    finetuned_table,
    is_number,
    paired_table,
    paper_tables,
    shown_columns,
    size_table,
    zero_shot_table,
)

TEMPLATE = Path(__file__).with_name("page.html")
FIGURES = {
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is no text.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer a token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "landscape": "First seed. From left to right the text turns from one member of the word soup (A) into another (B), "
    "upwards the prompt from its start into the trained one. Values between the measured points are linear.",
    "growth": "A line is one chain of a word soup, or one descriptor soup; hover for the word.",
}
THUMBNAIL = 72
"""Side of a gallery image in pixels at most."""


def write_page(path: str | Path, *, params_file: str | Path = "params.yaml", root: str | Path = ".") -> Path:
    """Write the page of the run in folder `root` to `path`, from its artifacts and reports/plots.

    Each figure is also written beside it as ``figures/<name>.svg``.

    Raises:
        MissingError: a stage has not run.
    """
    root = Path(root)
    params = load_params(params_file)
    results = load_results(
        Artifacts(root).results,
        datasets=params.datasets,
        methods=list(params.finetune.methods),
        evaluate=params.evaluate,
    )
    figures = _figures(root / "reports/plots")
    context = {
        "version": __version__,
        "headlines": headlines(results, params=params),
        "tables": [_table(table) for table in _tables(results, params=params, root=root)],
        "open_tables": 1 if len(results.variants) == 1 and results.halves is None else 2,
        "figures": figures,
        "soups": soups(Artifacts(root), params=params),
        "gallery": gallery(root, params=params),
        "facts": _facts(results),
        "datasets": _datasets(results, root=root),
        "timings": timings(store.cache_dir() / "timings.jsonl"),
        "params": Path(params_file).read_text(encoding="utf-8"),
        "bundle": vega_bundle(),
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["script_json"] = script_json
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    with store.replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    for figure in figures:
        with store.replacing(Path(path).parent / "figures" / f"{figure['name']}.svg") as temporary:
            temporary.write_text(vl_convert.vegalite_to_svg(_at_fixed_width(figure["spec"])), encoding="utf-8")
    return Path(path)


def vega_bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    library: Any = vl_convert  # its type stub asks for an argument that is optional
    bundle: str = library.javascript_bundle()
    return bundle


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no ``<`` is left that could end it."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True).replace("<", "\\u003c")


def headlines(results: Results, *, params: Params) -> list[dict[str, str]]:
    """The means of the class name alone and of both soups, with what they gain and its interval."""
    base = results.cells(PRETRAINED, ROWS[0])
    cards = []
    for key, name in (
        ("class_name", "Class name only"),
        ("descriptor_soup", "Descriptor soup"),
        ("word_soup_score_mean", "Word soup"),
    ):
        cells = results.cells(PRETRAINED, next(row for row in ROWS if row.key == key))
        for role, title in MEANS.items():
            names = results.datasets(role)
            if cells is None or base is None or not names:
                continue
            mean, _ = mean_and_std(cells.of(names))
            gain = ""
            if key != "class_name" and is_number(mean):
                difference, low, high = paired_interval(
                    base.of(names),
                    cells.of(names),
                    samples=params.report.bootstrap_samples,
                    confidence=params.report.confidence,
                    seed=0,
                )
                gain = f"{difference:+.2f} points ({low:+.2f} to {high:+.2f})"
            cards.append({"name": name, "title": title, "value": f"{mean:.2f} %", "gain": gain})
        if cells is not None and results.halves is not None:
            mean, _ = mean_and_std(results.harmonic(cells))
            cards.append({"name": name, "title": "H of base and new", "value": f"{mean:.2f} %", "gain": ""})
    return cards


def _tables(results: Results, *, params: Params, root: Path) -> list[Any]:
    made = [] if results.halves is None else [analyses.base_to_new(results, halves=results.halves)]
    made.append(zero_shot_table(results))
    if results.variants != [PRETRAINED]:
        made += [finetuned_table(results), *paper_tables(results)]
        made += [ablations.diversity(results, methods=params.finetune.methods)]
    report = params.report
    texts = root / "artifacts/results" / PRETRAINED / "texts.parquet"
    return [
        *made,
        paired_table(results, samples=report.bootstrap_samples, confidence=report.confidence),
        analyses.single_texts(texts, results=results),
        analyses.alignment(results),
        analyses.parameters(results, methods=params.finetune.methods),
        size_table(results),
    ]


def _table(table: Any) -> dict[str, Any]:
    """A table as the page shows it: text of each cell and what it sorts by; `grey` marks random texts and bounds."""
    columns = shown_columns(table.columns)
    rows = []
    for row in table.rows:
        grey = str(row.get("kind", "")).startswith("random") or "upper bound" in str(row.get("method", ""))
        values = [row.get(column) for column in columns]
        cells = [
            {"text": cell(row, column), "sort": value if is_number(value) else str(value or "")}
            for column, value in zip(columns, values, strict=True)
        ]
        rows.append({"grey": grey, "cells": cells})
    return {"name": table.name, "title": table.title, "columns": columns, "rows": rows, "notes": table.notes}


def _figures(folder: Path) -> list[dict[str, Any]]:
    figures = []
    for name, caption in FIGURES.items():
        rows = store.read_json(store.require(folder / f"{name}.json", made_by="report"))
        if rows:
            figures.append({"name": name, "caption": caption, "spec": plots.figure(name, rows)})
    return figures


def _at_fixed_width(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The same for paper: on white, and as wide as a README where the page's width would decide."""
    width = {"width": 640} if specification.get("width") == "container" else {}
    return {**specification, **width, "background": "white"}


def soups(artifacts: Artifacts, *, params: Params) -> list[dict[str, Any]]:
    """Word soups, then descriptor soups: members, and per cent after each word or descriptor and what it added."""
    shown = []
    found = plots.read_soups(artifacts, soups=list(params.soups), seeds=params.seeds)
    for name, soup in ((name, soup) for name, of_seeds in found.items() for soup in of_seeds):
        members = []
        before = None
        for member in soup.members:
            steps = []
            if soup.kind == "chains":
                before = None
            for step in member.trace:
                after = 100.0 * step.n_correct / (member.n_images or 1)
                steps.append({"added": step.added, "after": after, "gain": None if before is None else after - before})
                before = after
            members.append({"text": member.text, "steps": steps})
        shown.append({"title": f"{name.capitalize()} soup, seed {soup.seed}", "members": members})
    return shown


def gallery(root: Path, *, params: Params) -> list[dict[str, Any]]:
    """For each dataset, images that the first seed's word soup turned right and wrong, as data URIs."""
    flips = store.read_table(root / "artifacts/results" / PRETRAINED / "flips.parquet").to_pylist()
    shown = []
    for name, dataset in params.datasets.items():
        lines = [line for line in flips if line["dataset"] == name]
        manifest = root / f"artifacts/manifests/{name}.parquet"
        if not lines or not manifest.exists():
            continue
        names = store.table_attributes(manifest)["class_names"]
        paths = store.read_table(manifest, columns=["path"])["path"]
        groups = []
        for title, column in (("now right", "after"), ("now wrong", "before")):
            found = [line for line in lines if line[column] == line["label"]]
            spread = _spread(found, count=params.report.gallery)
            pictures = [
                {
                    "image": _data_uri(root / dataset.root / paths[line["row"]].as_py()),
                    "label": names[line["label"]],
                    "before": names[line["before"]],
                    "after": names[line["after"]],
                }
                for line in spread
            ]
            groups.append({"title": title, "count": len(found), "pictures": [p for p in pictures if p["image"]]})
        shown.append({"name": name, "role": dataset.role, "groups": groups})
    return shown


def _spread(lines: Sequence[Any], *, count: int) -> list[Any]:
    """`count` of the lines at equal distances, so that they are of many classes."""
    if not lines or not count:
        return []
    places = np.unique(np.linspace(0, len(lines) - 1, min(count, len(lines))).round().astype(int))
    return [lines[i] for i in places.tolist()]


def _data_uri(path: Path) -> str | None:
    """A small PNG or JPEG of an image file; None where it cannot be read any more."""
    try:
        image = load_rgb(str(path))
    except DataError:
        return None
    kind = "png" if max(image.size) <= THUMBNAIL else "jpeg"
    image.thumbnail((2 * THUMBNAIL, 2 * THUMBNAIL), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, format=kind, **({"quality": 80} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"


def _facts(results: Results) -> list[tuple[str, str]]:
    encoder = {key: value for key, value in results.encoder.items() if value is not None}
    return [
        ("encoder", yaml.safe_dump(encoder, sort_keys=True).strip()),
        ("seeds", ", ".join(map(str, results.seeds))),
        ("finetuned", ", ".join(v for v in results.variants if v != PRETRAINED) or "nothing"),
        (
            "machine",
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        ),
    ]


def _datasets(results: Results, *, root: Path) -> list[dict[str, Any]]:
    """What each dataset was: sizes, whether its split is the paper's, and a fingerprint of its manifest."""
    rows = []
    for name, facts in results.facts.items():
        manifest = root / f"artifacts/manifests/{name}.parquet"
        paper = facts.get("paper_comparable")
        rows.append(
            {
                "name": name,
                "role": facts.get("role", ""),
                "classes": facts["n_classes"],
                "images": facts["n_images"],
                "template": facts.get("template", ""),
                "paper": ""
                if paper is None
                else "the paper's split"
                if paper
                else facts.get("reason", "another split"),
                "fingerprint": store.sha256_file(manifest)[:16] if manifest.exists() else "",
            }
        )
    return rows


def timings(path: Path) -> list[dict[str, Any]]:
    """Seconds and memory of each stage's latest run on this machine, in the order in which they ran."""
    if not path.exists():
        return []
    latest: dict[str, Mapping[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        latest.pop(entry["stage"], None)
        latest[entry["stage"]] = entry
    return [dict(entry) for entry in latest.values()]
