"""Tables that explain accuracies: single texts, cosines, gains, costs, numbers stored, the diversity loss, counts."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, CURVE, GIVEN, Right
from wsoup.finetune.params import MethodParams
from wsoup.paper.tables import NO_TEXT, encoder_differs
from wsoup.paper.tables import single_texts as single_texts_of
from wsoup.report.labels import methods_of, soup_label, soup_title
from wsoup.report.plots import lambda_of
from wsoup.report.results import PLACES, ROLES, Cells, Results, is_number, mean_and_std
from wsoup.report.tables import Table, averaged, with_std
from wsoup.report.verdict import SoupVerdict
from wsoup.soup.soup import Soup

COSINES = ("alignment", "uniformity")
MEASURES = ("accuracy", *COSINES)
STEPS = {"ranking": "ranked", "search": "searched"}
"""Steps that cost texts and tokens, and their names in columns."""
Measured = Mapping[str, Mapping[str, float]]
"""Measure -> dataset -> value."""


# ------------------------------------------------------------------------------------------------ single texts


def single_texts(path: Path, *, results: Results) -> Table:
    """Members of the first seed's soups alone, beside random texts: accuracy, change against no text, mean cosines.

    Args:
        path: texts.parquet of stage evaluate.
        results: with the class name alone, to compare with.
    """
    kinds = {row.method.name: row.alone for row in results.table if row.alone}
    groups, rows = _groups(results), []
    for (method, text), measured in _measured(path).items():
        if kinds.get(method) is not None:  # None: of a soup that params.yaml no longer has
            row: dict[str, object] = {"kind": kinds[method], "text": text}
            for group, measure, value, change in _changes(measured, _class_name(results), groups):
                row |= (
                    {f"{group} {measure}": value} if measure in COSINES else {group: value, f"{group} change": change}
                )
            rows.append(row)
    ends = ("", " change", *(f" {measure}" for measure in COSINES))
    return Table(
        "single_texts",
        "Members of the soups, each alone",
        columns=["kind", "text", *(f"{group}{end}" for group in groups for end in ends)],
        rows=rows,
        notes=[
            "Per cent, change in points against the class name alone, and mean cosines with an image's own class "
            "(alignment) and with the others (uniformity); random texts are the grey rows."
        ],
    )


def given_texts(path: Path, *, results: Results) -> Table:
    """Texts of ``evaluate.texts`` alone, beside the class name: accuracy, alignment, uniformity and their changes.

    As the paper's tables 1 and 2, whose figures for the source are beside ours.

    Args:
        path: texts.parquet of stage evaluate.
        results: with the class name alone, to compare with.
    """
    class_name, groups = _class_name(results), _groups(results)
    given = {text: measured for (method, text), measured in _measured(path).items() if method == GIVEN}
    theirs = {}
    if not encoder_differs(results.encoder, tuned=True):
        theirs = {name: single_texts_of(name) for name in results.datasets("source")}
    rows = []
    for text, measured in {"": class_name, **given}.items():
        row: dict[str, object] = {"text": text or NO_TEXT}
        for group, measure, value, change in _changes(measured, class_name, groups):
            row[f"{group} {measure}"] = value
            row[f"change of {group} {measure}"] = change if text else None
            figure = theirs.get(group, {}).get(text, {}).get(measure)
            if figure is not None:
                row |= {f"{group} {measure} (paper)": figure, f"{group} {measure} (diff)": value - figure}
        rows.append(row)
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "text"))
    note = "Per cent and points; alignment and uniformity are mean cosines. Changes are against the class name alone."
    return Table("given_texts", "Texts of your own, each alone", ["text", *columns], rows, [note])


def _measured(path: Path) -> Mapping[tuple[str, str], Measured]:
    """(method, text) -> measures of each text that was evaluated alone."""
    by_text: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for line in store.read_table(path).to_pylist():
        measured = by_text.setdefault((line["method"], line["text"]), {measure: {} for measure in MEASURES})
        line["accuracy"] = 100.0 * line["n_correct"] / line["n_images"]
        for measure, by_dataset in measured.items():
            by_dataset[line["dataset"]] = line[measure]
    return by_text


def _class_name(results: Results) -> Measured:
    """Measures of the class name alone."""
    cells = results.class_name
    return {
        measure: {} if cells is None else dict(zip(cells.datasets, getattr(cells, measure).mean(axis=1), strict=True))
        for measure in MEASURES
    }


def _groups(results: Results) -> dict[str, list[str]]:
    """Groups of datasets that columns are about: each role, and each dataset."""
    roles = {role: names for role in ROLES if (names := results.datasets(role))}
    return roles | {name: [name] for name in results.datasets()}


def _changes(
    measured: Measured, base: Measured, groups: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, float, float]]:
    """(group, measure, its mean, its change against the base)."""
    for (group, names), measure in product(groups.items(), MEASURES):
        after, before = (np.array([of[measure][name] for name in names]) for of in (measured, base))
        yield group, measure, float(after.mean()), float((after - before).mean())


# ------------------------------------------------------------------------------------------------ rows of a run


def alignment(results: Results) -> Table:
    """Alignment and uniformity of every row, mean over the datasets of a role and seeds."""
    rows = [
        {"variant": variant, "method": results.label(row)}
        | {
            f"{role} {measure}": mean_and_std(values)[0]
            for measure in COSINES
            for role, values in results.by_role(cells, what=measure).items()
        }
        for variant, row, cells in results.rows()
        if row.mode == "centroid"
    ]
    return Table(
        "alignment",
        "Alignment and uniformity",
        columns=["variant", "method", *(f"{role} {measure}" for role in ROLES for measure in COSINES)],
        rows=rows,
        notes=["Mean cosine of an image with its own class (alignment) and with the other classes (uniformity)."],
    )


def parameters(results: Results, *, trained: Mapping[str, str]) -> Table:
    """Numbers that each method stores, and its accuracy: a word soup stores one integer a token, a soft token D floats.

    Args:
        results: the run.
        trained: what each finetuned method trains, and what each head is.
    """
    rows = []
    for method in methods_of(results.table):
        if method.soup is not None:
            for m, cells in results.curve(PRETRAINED, method=method, mode="centroid").items():
                about: dict[str, object] = {"method": f"{soup_label(method.soup)} m={m}", "trained": "nothing"}
                rows.append(about | {"texts": soup_title(method.soup)} | _stored(results, cells, stored=cells.stored))
    whole = [row for row in results.table if row.mode == "centroid" and not row.offsets]
    others = (None, "descriptor", CURVE)  # soups that finetuned models are not shown with, as in the paper
    plain = [row for row in whole if row.method is CLASS_NAME or row.method.soup not in others]
    for (variant, count), row in product(results.parameters.items(), plain):
        tuned, soup = results.cells(variant, row), row.method.soup
        if tuned is not None:
            texts = "class name" if soup is None else soup_title(soup)
            about = {"method": variant if soup is None else f"{variant} + {texts}", "texts": texts}
            about |= {"trained": trained[variant]}
            rows.append(about | _stored(results, tuned, stored=count + (tuned.stored or 0.0)))
    return Table(
        "parameters",
        "Numbers stored, and accuracy",
        columns=["method", "trained", "texts", "stored", *with_std(ROLES)],
        rows=rows,
        notes=["Mean over seeds; per cent."],
    )


def _stored(results: Results, cells: Cells, *, stored: float | None) -> dict[str, object]:
    return {"stored": None if stored is None else round(stored, 1), **averaged(results.by_role(cells))}


def diversity(results: Results, *, methods: Mapping[str, MethodParams]) -> Table:
    """Every method trained over a soup: lambda, divergence at the end, and accuracy with its soup and without."""
    rows = []
    over_soups = [name for name in methods if name in results.divergence and methods[name].soup != "class_name"]
    over_soups.sort(key=lambda name: (methods[name].tune.kind, methods[name].soup, lambda_of(methods[name])))
    for name in over_soups:
        method, divergence = methods[name], results.divergence[name]
        row: dict[str, object] = {"method": name, "trained": method.tune.kind, "soup": method.soup}
        final = averaged({"members' KL": np.array([divergence[max(divergence)]])})
        row |= {"lambda": lambda_of(method), **final, "members' KL": round(final["members' KL"], 4)}
        for key, title in ((f"{method.soup}_soup", "soup"), ("class_name", "class name")):
            evaluated = results.row(key)
            if evaluated is not None and (cells := results.cells(name, evaluated)) is not None:
                row |= averaged({f"{role}, {title}": values for role, values in results.by_role(cells).items()})
        rows.append(row)
    columns = ["method", "trained", "soup", "lambda"]
    columns += with_std(["members' KL", *(f"{role}, {title}" for title in ("soup", "class name") for role in ROLES)])
    return Table(
        "diversity",
        "Lambda, members' divergence and accuracy",
        columns=columns,
        rows=rows,
        notes=[
            "Per cent. Members' KL: divergence between the predictions of two members in nats, mean over pairs, images "
            "and seeds, at the end of training. lambda is the initial model's share of the target; 0 is plain training."
        ],
    )


def counts(results: Results, *, together: Mapping[str, Right]) -> Table:
    """Counts that ``wsoup compare`` reads at two revisions: of every row of the tables, and of right images by row."""
    seen = [
        (variant, row.key, dataset, seed, int(cells.n_correct[d, k]), int(cells.n_images[d, k]))
        for variant, row, cells in results.rows()
        for d, dataset in enumerate(cells.datasets)
        for k, seed in enumerate(cells.seeds)
        if is_number(float(cells.n_correct[d, k]))
    ]
    seen += [
        (PRETRAINED, row, dataset, seed, int(hits.sum()), len(hits))
        for row, by_dataset in together.items()
        for dataset, right in by_dataset.items()
        for seed, hits in zip(results.seeds, right, strict=True)
    ]
    rows = [
        {
            "variant": variant,
            "row": row,
            "dataset": dataset,
            "role": results.roles[dataset],
            "seed": seed,
            "n_correct": n_correct,
            "n_images": n_images,
            "images": str(results.facts.get(dataset, {}).get("images", ""))[:16],
        }
        for variant, row, dataset, seed, n_correct, n_images in seen
    ]
    return Table("counts", "Counts behind the tables", columns=[*rows[0]], rows=rows)


# ------------------------------------------------------------------------------------------------ cost of a soup


def cost_table(comparisons: Sequence[SoupVerdict], *, soups: Mapping[str, Sequence[Soup]]) -> Table:
    """Texts and tokens that ranking and search of every soup encode (`wsoup.search.rank.source`), beside its gains.

    Args:
        comparisons: of soups, among them with the class name.
        soups: all seeds of each, by name; soups whose files have no cost are left out.
    """
    rows = []
    for name, seeds in _costed(soups).items():
        row: dict[str, object] = {"soup": soup_title(name), "thousand tokens": _tokens(seeds) / 1e3}
        for step, title in STEPS.items():
            row[f"texts {title}"] = round(float(np.mean([soup.cost[step].texts for soup in seeds])))
            row[f"thousand tokens {title}"] = float(np.mean([soup.cost[step].tokens for soup in seeds])) / 1e3
        over_name = [each for each in comparisons if (each.soup, each.rival) == (name, CLASS_NAME.name)]
        rows.append(row | {f"gain, {PLACES[each.role]}": each.fixed.mean for each in over_name})
    columns = ["soup", *(f"{what} {title}" for title in STEPS.values() for what in ("texts", "thousand tokens"))]
    columns += ["thousand tokens", *dict.fromkeys(f"gain, {PLACES[each.role]}" for each in comparisons)]
    return Table(
        "cost",
        "What soups cost",
        columns=columns,
        rows=rows,
        notes=[
            "Means over seeds. A text is encoded with every class: tokens are those after the prompt of every class.",
            "A ranking counts in every soup that starts from it. Gains are points over the class name only.",
        ],
    )


def _costed(soups: Mapping[str, Sequence[Soup]]) -> dict[str, Sequence[Soup]]:
    """Soups whose files have a cost."""
    return {name: seeds for name, seeds in soups.items() if all(soup.cost for soup in seeds)}


def _tokens(seeds: Sequence[Soup]) -> float:
    """Of ranking and search together, mean over seeds."""
    return float(np.mean([sum(cost.tokens for cost in soup.cost.values()) for soup in seeds]))
