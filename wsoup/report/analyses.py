"""The tables behind the tables: single texts, alignment and uniformity, what a method takes to store, raw counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import GIVEN, soup_label, soup_title
from wsoup.evaluate.rows import methods as methods_of
from wsoup.finetune.params import MethodParams
from wsoup.report.accuracy import bound_notes
from wsoup.report.means import ROLES, is_number, mean_and_std
from wsoup.report.results import Cells, Results
from wsoup.report.tables import Table


def single_texts(path: Path, *, results: Results) -> Table:
    """Members of the first seed's soups alone, beside random texts: accuracy, change against no text, alignment.

    Args:
        path: texts.parquet of stage evaluate.
        results: the class name alone, to compare with.
    """
    base, kinds = results.cells(PRETRAINED, results.table[0]), {m.name: m.alone for m in methods_of(results.table)}
    plain = {} if base is None else dict(zip(base.datasets, base.accuracy.mean(axis=1), strict=True))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in store.read_table(path).to_pylist():
        if kinds.get(line["method"]) is None:  # of a soup that params.yaml no longer has
            continue
        row = found.setdefault((line["method"], line["text"]), {"kind": kinds[line["method"]], "text": line["text"]})
        name = line["dataset"]
        row[name] = 100.0 * line["n_correct"] / line["n_images"]
        row[f"{name} change"] = row[name] - plain[name]
        row[f"{name} alignment"] = line["alignment"]
    for row in found.values():
        for role in ROLES:
            names = results.datasets(role)
            if names:
                row[role] = float(np.mean([row[name] for name in names]))
                row[f"{role} change"] = float(np.mean([row[f"{name} change"] for name in names]))
                row[f"{role} alignment"] = float(np.mean([row[f"{name} alignment"] for name in names]))
    columns = ["kind", "text"]
    for name in [*(role for role in ROLES if results.datasets(role)), *results.datasets()]:
        columns += [name, f"{name} change", f"{name} alignment"]
    notes = ["Per cent, change in points against the class name alone, and alignment; random texts are the grey rows."]
    return Table("single_texts", "Members of the soups, each alone", columns, list(found.values()), notes)


def given_texts(path: Path, *, results: Results) -> Table:
    """Texts of ``evaluate.texts`` alone, beside the class name: accuracy, alignment, uniformity and their differences.

    As the paper shows single descriptors such as "a type of pet."; a difference is the text's minus the class name's.

    Args:
        path: texts.parquet of stage evaluate.
        results: the class name alone, to compare with.
    """
    base = results.cells(PRETRAINED, results.table[0])
    if base is None:
        return Table("given_texts", "Texts of your own, each alone", [], [])
    whats = {"accuracy": base.accuracy, "alignment": base.alignment, "uniformity": base.uniformity}
    plain = {what: dict(zip(base.datasets, values.mean(axis=1), strict=True)) for what, values in whats.items()}
    texts: dict[str, dict[str, dict[str, float]]] = {"(class name only)": plain}
    for line in store.read_table(path).to_pylist():
        if line["method"] == GIVEN:
            measured = {**line, "accuracy": 100.0 * line["n_correct"] / line["n_images"]}
            for what in whats:
                texts.setdefault(line["text"], {}).setdefault(what, {})[line["dataset"]] = measured[what]
    groups = {role: results.datasets(role) for role in ROLES if results.datasets(role)}
    groups |= {name: [name] for name in results.datasets()}
    lines = []
    for text, found in texts.items():
        cells: dict[str, Any] = {"text": text}
        for group, names in groups.items():
            for what in whats:
                cells[f"{group} {what}"] = float(np.mean([found[what][name] for name in names]))
                change = np.mean([found[what][name] - plain[what][name] for name in names])
                cells[f"change of {group} {what}"] = None if found is plain else float(change)
        lines.append(cells)
    pairs = [(group, what) for group in groups for what in whats]
    columns = [f"{start}{group} {what}" for group, what in pairs for start in ("", "change of ")]
    notes = [
        "Per cent and points; alignment and uniformity are mean cosines. Changes are against the class name alone."
    ]
    return Table("given_texts", "Texts of your own, each alone", ["text", *columns], lines, notes)


def alignment(results: Results) -> Table:
    """Alignment and uniformity of every row, mean over the datasets of a role and seeds."""
    lines = []
    for variant, row, cells in results.rows():
        if row.mode != "centroid":
            continue
        line: dict[str, Any] = {"variant": variant, "method": row.label}
        for role in ROLES:
            for what in ("alignment", "uniformity"):
                line[f"{role} {what}"] = mean_and_std(cells.of(results.datasets(role), what=what))[0]
        lines.append(line)
    columns = ["variant", "method", *(f"{role} {what}" for role in ROLES for what in ("alignment", "uniformity"))]
    notes = ["Mean cosine of an image with its own class (alignment) and with the other classes (uniformity)."]
    return Table("alignment", "Alignment and uniformity", columns, lines, notes)


def base_to_new(results: Results, *, halves: tuple[str, str]) -> Table:
    """Accuracy on the base half, the new half and their harmonic mean H, of every row.

    Args:
        results: the run.
        halves: the base and the new half, as in `results.halves`.
    """
    base, new = halves
    lines = []
    for variant, row, cells in results.rows():
        line: dict[str, Any] = {"variant": variant, "method": row.label, "m": round(cells.texts, 1)}
        values = {"base": cells.of([base]), "new": cells.of([new]), "H": results.harmonic(cells)}
        for name, by_seed in values.items():
            line[name], line[f"{name} (std)"] = mean_and_std(by_seed)
        lines.append(line)
    columns = ["variant", "method", "m", *(f"{name}{end}" for name in ("base", "new", "H") for end in ("", " (std)"))]
    said = {name: "{n_classes} classes, {n_images} test images".format(**results.facts[name]) for name in halves}
    notes = [
        f"Per cent; means over seeds, ± standard deviation over seeds. Base: {base} ({said[base]}), new: {new} "
        f"({said[new]}), each among its own class names.",
        "H is the harmonic mean of base and new, taken for each seed.",
    ]
    notes += bound_notes(lines)
    return Table("base_to_new", "Base to new classes", columns, lines, notes)


def parameters(results: Results, *, methods: Mapping[str, MethodParams]) -> Table:
    """Numbers that each method stores, and what they buy: a word soup one integer a token, a soft token D floats.

    Args:
        results: the run.
        methods: section finetune.methods, to say what each trains.
    """
    lines = []
    for method in methods_of(results.table):
        if method.soup is not None:
            for m, cells in results.curve(PRETRAINED, method=method, mode="centroid").items():
                about = {"method": f"{soup_label(method.soup)} m={m}", "trained": "nothing"}
                about["texts"] = soup_title(method.soup)
                lines.append({**about, **_stored(results, cells=cells, stored=cells.stored)})
    shown = {row.method.name for row in results.table if row.terminal_tuned}
    for variant, count in results.parameters.items():
        for row in results.table:
            tuned = results.cells(variant, row)
            if tuned is None or row.method.name not in shown or row.mode != "centroid" or row.offsets:
                continue
            texts = "class name" if row.method.soup is None else soup_title(row.method.soup)
            about = {"method": variant if row.method.soup is None else f"{variant} + {texts}", "texts": texts}
            about["trained"] = methods[variant].tune.kind
            lines.append({**about, **_stored(results, cells=tuned, stored=count + (tuned.stored or 0.0))})
    columns = ["method", "trained", "texts", "stored", *(f"{role}{end}" for role in ROLES for end in ("", " (std)"))]
    return Table("parameters", "Numbers stored, and accuracy", columns, lines, ["Mean over seeds; per cent."])


def _stored(results: Results, *, cells: Cells, stored: float | None) -> dict[str, Any]:
    line: dict[str, Any] = {"stored": None if stored is None else round(stored, 1)}
    for role in ROLES:
        line[role], line[f"{role} (std)"] = mean_and_std(cells.of(results.datasets(role)))
    return line


def counts(results: Results) -> Table:
    """Counts of every row of the tables: what ``wsoup compare`` reads at two revisions."""
    lines = []
    for variant, row, cells in results.rows():
        for d, dataset in enumerate(cells.datasets):
            for k, seed in enumerate(cells.seeds):
                if is_number(float(cells.n_correct[d, k])):
                    lines.append(
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
                    )
    columns = ["variant", "row", "dataset", "role", "seed", "n_correct", "n_images", "images"]
    return Table("counts", "Counts behind the tables", columns, lines)
