"""The tables behind the tables: single texts, alignment and uniformity, what a method takes to store, raw counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import GIVEN, soup_label, soup_title
from wsoup.evaluate.rows import methods as methods_of
from wsoup.report.accuracy import bound_notes
from wsoup.report.means import ROLES, is_number, mean_and_std
from wsoup.report.results import Cells, Results
from wsoup.report.tables import Table, averaged, with_std

COSINES = ("alignment", "uniformity")
MEASURES = ("accuracy", *COSINES)
Measured = Mapping[str, Mapping[str, float]]
"""Measure -> dataset -> value."""


def single_texts(path: Path, *, results: Results) -> Table:
    """Members of the first seed's soups alone, beside random texts: accuracy, change against no text, mean cosines.

    Args:
        path: texts.parquet of stage evaluate.
        results: the class name alone, to compare with.
    """
    kinds = {method.name: method.alone for method in methods_of(results.table)}
    groups, lines = _groups(results), []
    for (method, text), measured in _alone(path).items():
        if kinds.get(method) is not None:  # None is of a soup that params.yaml no longer has
            line: dict[str, Any] = {"kind": kinds[method], "text": text}
            for group, what, value, change in _beside(measured, _class_name(results), groups):
                line |= {f"{group} {what}": value} if what in COSINES else {group: value, f"{group} change": change}
            lines.append(line)
    ends = ("", " change", *(f" {what}" for what in COSINES))
    columns = ["kind", "text", *(f"{group}{end}" for group in groups for end in ends)]
    notes = [
        "Per cent, change in points against the class name alone, and mean cosines with an image's own class "
        "(alignment) and with the others (uniformity); random texts are the grey rows."
    ]
    return Table("single_texts", "Members of the soups, each alone", columns, lines, notes)


def given_texts(path: Path, *, results: Results) -> Table:
    """Texts of ``evaluate.texts`` alone, beside the class name: accuracy, alignment, uniformity and their differences.

    As the paper shows single descriptors such as "a type of pet."; a difference is the text's minus the class name's.

    Args:
        path: texts.parquet of stage evaluate.
        results: the class name alone, to compare with.
    """
    plain, groups = _class_name(results), _groups(results)
    given = {text: measured for (method, text), measured in _alone(path).items() if method == GIVEN}
    lines = []
    for text, measured in {"(class name only)": plain, **given}.items():
        line: dict[str, Any] = {"text": text}
        for group, what, value, change in _beside(measured, plain, groups):
            line[f"{group} {what}"] = value
            line[f"change of {group} {what}"] = change if text in given else None
        lines.append(line)
    columns = [f"{start}{group} {what}" for group, what in product(groups, MEASURES) for start in ("", "change of ")]
    notes = [
        "Per cent and points; alignment and uniformity are mean cosines. Changes are against the class name alone."
    ]
    return Table("given_texts", "Texts of your own, each alone", ["text", *columns], lines, notes)


def _alone(path: Path) -> Mapping[tuple[str, str], Measured]:
    """(method, text) -> what was measured of each text that was counted alone."""
    alone: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for line in store.read_table(path).to_pylist():
        measured = alone.setdefault((line["method"], line["text"]), {what: {} for what in MEASURES})
        line["accuracy"] = 100.0 * line["n_correct"] / line["n_images"]
        for what, by_dataset in measured.items():
            by_dataset[line["dataset"]] = line[what]
    return alone


def _class_name(results: Results) -> Measured:
    """The same of the class name alone."""
    cells = results.class_name
    return {
        what: {} if cells is None else dict(zip(cells.datasets, getattr(cells, what).mean(axis=1), strict=True))
        for what in MEASURES
    }


def _groups(results: Results) -> dict[str, list[str]]:
    """What columns are of: the datasets of each role together, and each dataset."""
    roles = {role: names for role in ROLES if (names := results.datasets(role))}
    return roles | {name: [name] for name in results.datasets()}


def _beside(
    measured: Measured, plain: Measured, groups: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, float, float]]:
    """(group, measure, its mean, its change against the class name alone)."""
    for (group, names), what in product(groups.items(), MEASURES):
        here, before = (np.array([of[what][name] for name in names]) for of in (measured, plain))
        yield group, what, float(here.mean()), float((here - before).mean())


def alignment(results: Results) -> Table:
    """Alignment and uniformity of every row, mean over the datasets of a role and seeds."""
    lines = [
        {"variant": variant, "method": results.label(row)}
        | {
            f"{role} {what}": mean_and_std(values)[0]
            for what in COSINES
            for role, values in results.by_role(cells, what=what).items()
        }
        for variant, row, cells in results.rows()
        if row.mode == "centroid"
    ]
    columns = ["variant", "method", *(f"{role} {what}" for role in ROLES for what in COSINES)]
    notes = ["Mean cosine of an image with its own class (alignment) and with the other classes (uniformity)."]
    return Table("alignment", "Alignment and uniformity", columns, lines, notes)


def base_to_new(results: Results, *, halves: tuple[str, str]) -> Table:
    """Accuracy on the base half, the new half and their harmonic mean H, of every row.

    Args:
        results: the run.
        halves: the base and the new half, as in `results.halves`.
    """
    base, new = halves
    lines = [
        {"variant": variant, "method": results.label(row), "m": round(cells.texts, 1)}
        | averaged({"base": cells.of([base]), "new": cells.of([new]), "H": results.harmonic(cells)})
        for variant, row, cells in results.rows()
    ]
    said = {name: "{n_classes} classes, {n_images} test images".format(**results.facts[name]) for name in halves}
    notes = [
        f"Per cent; means over seeds, ± standard deviation over seeds. Base: {base} ({said[base]}), new: {new} "
        f"({said[new]}), each among its own class names.",
        "H is the harmonic mean of base and new, taken for each seed.",
    ]
    columns = ["variant", "method", "m", *with_std(("base", "new", "H"))]
    return Table("base_to_new", "Base to new classes", columns, lines, notes + bound_notes(lines))


def parameters(results: Results, *, trained: Mapping[str, str]) -> Table:
    """Numbers that each method stores, and what they buy: a word soup one integer a token, a soft token D floats.

    Args:
        results: the run.
        trained: what each finetuned method trains, and what each head is.
    """
    lines = []
    for method in methods_of(results.table):
        if method.soup is not None:
            for m, cells in results.curve(PRETRAINED, method=method, mode="centroid").items():
                about = {"method": f"{soup_label(method.soup)} m={m}", "trained": "nothing"}
                lines.append(about | {"texts": soup_title(method.soup)} | _stored(results, cells, stored=cells.stored))
    shown = {row.method.name for row in results.table if row.terminal_tuned}
    rows = [row for row in results.table if row.method.name in shown and row.mode == "centroid" and not row.offsets]
    for (variant, count), row in product(results.parameters.items(), rows):
        tuned, soup = results.cells(variant, row), row.method.soup
        if tuned is not None:
            texts = "class name" if soup is None else soup_title(soup)
            about = {"method": variant if soup is None else f"{variant} + {texts}", "texts": texts}
            about["trained"] = trained[variant]
            lines.append(about | _stored(results, tuned, stored=count + (tuned.stored or 0.0)))
    columns = ["method", "trained", "texts", "stored", *with_std(ROLES)]
    return Table("parameters", "Numbers stored, and accuracy", columns, lines, ["Mean over seeds; per cent."])


def _stored(results: Results, cells: Cells, *, stored: float | None) -> dict[str, Any]:
    return {"stored": None if stored is None else round(stored, 1)} | averaged(results.by_role(cells))


def counts(results: Results) -> Table:
    """Counts of every row of the tables: what ``wsoup compare`` reads at two revisions."""
    lines = [
        {
            "variant": variant,
            "row": row.key,
            "dataset": dataset,
            "role": results.roles[dataset],
            "seed": seed,
            "n_correct": int(cells.n_correct[d, k]),
            "n_images": int(cells.n_images[d, k]),
            "images": str(results.facts.get(dataset, {}).get("images", ""))[:16],
        }
        for variant, row, cells in results.rows()
        for d, dataset in enumerate(cells.datasets)
        for k, seed in enumerate(cells.seeds)
        if is_number(float(cells.n_correct[d, k]))
    ]
    columns = ["variant", "row", "dataset", "role", "seed", "n_correct", "n_images", "images"]
    return Table("counts", "Counts behind the tables", columns, lines)
