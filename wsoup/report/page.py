"""``wsoup report``: one self-contained HTML page of a run. No network: Vega and its data are inside.

The page is written by the command and not by the stage, because it also shows seconds and the machine, which differ
from run to run; everything under DVC is the same for the same inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from wsoup import __version__, store
from wsoup.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.rows import soup_label
from wsoup.params.whole import Params, load_params
from wsoup.report import ablations, about, analyses, plots
from wsoup.report.accuracy import finetuned_table, paper_tables, zero_shot_table
from wsoup.report.gallery import changed_by, gallery
from wsoup.report.means import MEANS, is_number, mean_and_std, paired_interval
from wsoup.report.results import Results, load_results
from wsoup.report.summaries import paired_table, size_table
from wsoup.report.tables import Table, cell, shown_columns

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


def write_page(path: str | Path, *, params_file: str | Path = "params.yaml", root: str | Path = ".") -> Path:
    """Write the page of the run in folder `root` to `path`, from its artifacts and reports/plots.

    Each figure is also written beside it as ``figures/<name>.svg``.

    Raises:
        MissingError: a stage has not run.
    """
    root = Path(root)
    artifacts = Artifacts(root)
    params = load_params(params_file)
    results = load_results(
        artifacts.results,
        datasets=params.datasets,
        soups=list(params.soups),
        methods=list(params.finetune.methods),
        evaluate=params.evaluate,
        sections=params.model_dump(mode="json", by_alias=True),
    )
    figures = _figures(root / "reports/plots")
    context = {
        "version": __version__,
        "headlines": headlines(results, params=params),
        "tables": [_table(table) for table in _tables(results, params=params, artifacts=artifacts)],
        "open_tables": 1 if len(results.variants) == 1 and results.halves is None else 2,
        "figures": figures,
        "soups": soups(artifacts, params=params),
        "gallery": gallery(artifacts, params=params),
        "changed_by": changed_by(artifacts),
        "facts": about.facts(results),
        "datasets": about.datasets(results, artifacts=artifacts),
        "mixed": about.mixed(results),
        "timings": about.timings(store.cache_dir() / "timings.jsonl"),
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
    """The means of the class name alone and of each soup, with what they gain and its interval."""
    base = results.cells(PRETRAINED, results.table[0])
    cards = []
    for row in (row for row in results.table if row.card is not None):
        name, cells = str(row.card), results.cells(PRETRAINED, row)
        for role, title in MEANS.items():
            names = results.datasets(role)
            if cells is None or base is None or not names:
                continue
            mean, _ = mean_and_std(cells.of(names))
            gain = ""
            if row is not results.table[0] and is_number(mean):
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


def _tables(results: Results, *, params: Params, artifacts: Artifacts) -> list[Table]:
    made = [] if results.halves is None else [analyses.base_to_new(results, halves=results.halves)]
    made.append(zero_shot_table(results))
    if results.variants != [PRETRAINED]:
        made += [finetuned_table(results), *paper_tables(results)]
        made += [ablations.diversity(results, methods=params.finetune.methods)]
    report = params.report
    texts = artifacts.results / PRETRAINED / "texts.parquet"
    return [
        *made,
        paired_table(results, samples=report.bootstrap_samples, confidence=report.confidence),
        analyses.single_texts(texts, results=results),
        analyses.alignment(results),
        analyses.parameters(results, methods=params.finetune.methods),
        size_table(results),
    ]


def _table(table: Table) -> dict[str, Any]:
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
    """Every soup of every seed: members, and per cent after each word or descriptor and what it added."""
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
        shown.append({"title": f"{soup_label(name)}, seed {soup.seed}", "members": members})
    return shown
