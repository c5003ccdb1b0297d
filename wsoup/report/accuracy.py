"""Tables of accuracies: ours beside the paper's, marked where they are not like for like; texts alone; the counts."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, GIVEN, Right
from wsoup.paper import settings
from wsoup.paper import tables as paper
from wsoup.report.results import MEANS, ROLES, Line, Results, read_lines
from wsoup.report.tables import MARK, Row, Table, TableRow, is_number, mean_and_std

MEASURES = ("accuracy", "alignment", "uniformity")


def averages(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """variant -> row -> mean and deviation over seeds of source, XD and DG, per cent; without what is missing."""
    by_variant: dict[str, dict[str, dict[str, float]]] = {}
    for variant, row, cells in results.rows():
        known = by_variant.setdefault(variant, {}).setdefault(row.key, {})
        for role in ROLES:
            figures = zip((role, f"{role} (std)"), mean_and_std(cells.of(results.datasets(role))), strict=True)
            known |= {name: round(value, 3) for name, value in figures if is_number(value)}
    return by_variant


# ---------------------------------------------------------------------------------------------- beside the paper's


def zero_shot_table(results: Results) -> Table:
    """Every row of the pretrained encoder, with the paper's figures for the same encoder if there are any."""
    rows = [
        (results.label(row), PRETRAINED, row, paper.zero_shot(row.key, encoder=results.encoder))
        for row in results.table
    ]
    return accuracy_table(results, rows=rows, name="zero_shot", title="Zero-shot accuracy")


def finetuned_table(results: Results) -> Table:
    """Every row of every finetuned method; the paper's figures are in its own tables."""
    rows: list[tuple[str, str, TableRow, Mapping[str, float]]] = [
        (variant if row.key == "class_name" else f"{variant} + {results.label(row)}", variant, row, {})
        for variant in results.variants
        if variant != PRETRAINED
        for row in results.table
    ]
    return accuracy_table(results, rows=rows, name="finetuned", title="Accuracy after finetuning")


def paper_tables(results: Results) -> list[Table]:
    """The paper's tables with finetuned models, in its order, as far as this run has rows of them."""
    source = results.datasets("source")[0]
    tables = [
        accuracy_table(
            results,
            rows=[
                (line.label, line.variant, row, line.figures)
                for line in paper.rows(name)
                if line.row and (row := results.row(line.row)) is not None
            ],
            name=name,
            title=title,
        )
        for name, title in paper.TITLES.items()
        if source.startswith("laion") == (name == "laion_source")
    ]
    return [table for table in tables if any(row["variant"] != PRETRAINED for row in table.rows)]


def accuracy_table(
    results: Results, *, rows: Sequence[tuple[str, str, TableRow, Mapping[str, float]]], name: str, title: str
) -> Table:
    """Rows on every dataset: ours, with the paper's figures.

    Args:
        results: the run.
        rows: (label, variant, row, the paper's figures by column); a row without results is left out.
        name, title: of the table.
    """
    columns = ["method", "m"]
    columns += ["stored", "stored (paper)", "stored (diff)"] if name == "parameter_efficiency" else []
    columns += [f"{column}{end}" for column, _ in _columns(results) for end in ("", " (std)", " (paper)", " (diff)")]
    found = [line for row in rows if (line := accuracy_row(results, *row)) is not None]
    lines, reasons = [line for line, _ in found], sorted({reason for _, why in found for reason in why})
    notes = ["Per cent; means over seeds, ± standard deviation over seeds."]
    if any(f"{column} (paper)" in line for line in lines for column in columns):
        notes.append("In brackets the paper's figure (arXiv 2311.13612) and ours minus theirs.")
    notes += [f"{MARK} not comparable with the paper's: {reason}." for reason in reasons]
    if any(str(line["method"]).endswith("upper bound") for line in lines):
        notes.append("The upper bound was selected on the targets' test images: it is no result.")
    return Table(name, title, columns, lines, notes)


def _columns(results: Results) -> list[tuple[str, list[str]]]:
    """(column, its datasets): every dataset, and after those of a role their mean."""
    return [
        column
        for role in ROLES
        if (names := results.datasets(role))
        for column in [*((name, [name]) for name in names), *([(MEANS[role], names)] if role in MEANS else [])]
    ]


def accuracy_row(
    results: Results, label: str, variant: str, row: TableRow, theirs: Mapping[str, float]
) -> tuple[Row, set[str]] | None:
    """One row: ours, deviation, the paper's, difference and mark for every column, and why there are marks.

    None if there are no results.
    """
    cells = results.cells(variant, row)
    if cells is None:
        return None
    about: dict[str, Any] = {"paper": results.paper_settings, "variant": variant, "row": row.key}
    reasons = settings.marks(results.settings, encoder=results.encoder, **about) if theirs else []
    stored = results.parameters.get(variant, 0) + (cells.stored or 0.0)
    line: dict[str, Any] = {"method": label, "variant": variant, "row": row.key, "m": round(cells.texts, 1)}
    line["stored"] = stored
    beside: dict[str, tuple[float, set[str]]] = {}  # column -> the paper's figure, and why it is not like for like
    for column, names in _columns(results):
        line[column], line[f"{column} (std)"] = mean_and_std(cells.of(names))
        figure = theirs.get(_papers_column(results, column, names))
        if figure is not None and is_number(line[column]):
            beside[column] = figure, {*reasons, *chain.from_iterable(_unlike(results, name) for name in names)}
    if "parameters_thousands" in theirs and not paper.encoder_differs(results.encoder, tuned=variant != PRETRAINED):
        model = str(results.encoder["model"])
        known = settings.differs_always(results.settings, model=model, column="stored", **about)
        beside["stored"] = 1000.0 * theirs["parameters_thousands"], set(known)
    for column, (figure, unlike) in beside.items():
        line |= {f"{column} (paper)": figure, f"{column} (diff)": line[column] - figure}
        line |= {f"{column} (mark)": MARK} if unlike else {}
    return line, {reason for _, unlike in beside.values() for reason in unlike}


def _papers_column(results: Results, column: str, names: Sequence[str]) -> str:
    """The paper's column of a dataset, or of a mean over the same datasets; "" if it has none."""
    if not all(_is_papers(results, name) for name in names):
        return ""
    if column not in MEANS.values():
        return paper.COLUMNS[column]
    same = len(names) == (10 if column == MEANS["xd"] else 4) and "imagenet" not in names  # a target of another source
    return column if same else ""


def _is_papers(results: Results, name: str) -> bool:
    """Whether a dataset is one of the paper's: by name, by layout on disk, and with all its classes."""
    layout = str(results.facts[name].get("layout"))
    same_layout = layout in ("coop", f"coop:{name}") or (name == "laion" and layout.startswith("laion:"))
    return name in paper.COLUMNS and same_layout


def _unlike(results: Results, name: str) -> Iterable[str]:
    """Why one of the paper's datasets is not as in the paper."""
    facts = results.facts[name]
    if not facts.get("paper_comparable", True):
        yield f"{name}: {facts.get('reason', 'another split')}"
    yield from settings.dataset_differs(results.settings, name)


# ------------------------------------------------------------------------------------------------ texts and counts


def single_texts(path: Path, *, results: Results) -> Table:
    """Texts alone, as in the paper's tables 1 and 2: members of the first seed's soups, random ones, those given.

    Args:
        path: texts.parquet of stage evaluate.
        results: with the class name alone, to compare with. On its source the paper's figures are beside ours.
    """
    kinds = {row.method.name: row.alone for row in results.table if row.alone} | {GIVEN: "given"}
    sources = [] if paper.encoder_differs(results.encoder, tuned=True) else results.datasets("source")
    theirs = {name: paper.single_texts(name) for name in sources}
    groups = {role: names for role in ROLES if (names := results.datasets(role))}
    groups |= {name: [name] for name in results.datasets()}
    ours = (PRETRAINED, CLASS_NAME.name, "centroid")
    base = {line.dataset: line for line in results.lines if (line.variant, line.method, line.mode) == ours}
    texts: dict[tuple[str, str], dict[str, Line]] = {}
    for line in read_lines(path, variant=PRETRAINED, datasets=results.roles):
        texts.setdefault((line.method, line.text or ""), {})[line.dataset] = line
    if any(method == GIVEN for method, _ in texts):
        texts = {(GIVEN, ""): base, **texts}
    rows = []
    for (method, text), lines in texts.items():
        row: dict[str, object] = {"kind": kinds.get(method), "text": text or paper.NO_TEXT}
        for group, names in groups.items():
            figures = theirs.get(group, {}).get(text, {}) if method == GIVEN else {}
            row |= _measures(group, [lines[name] for name in names], [base[name] for name in names], figures)
        rows.append(row)
    return Table(
        "single_texts",
        "Members of the soups, each alone",
        columns=list(dict.fromkeys(chain(("kind", "text"), *rows))),
        rows=[row for row in rows if row["kind"]],  # others are of a soup that params.yaml no longer has
        notes=[
            "Per cent, change in points against the class name alone, and mean cosines with an image's own class "
            "(alignment) and with the others (uniformity); random texts are the grey rows."
        ],
    )


def _measures(group: str, ours: list[Line], base: list[Line], theirs: Mapping[str, float]) -> dict[str, object]:
    """Cells of a text on a group of datasets: measures, the change of accuracy against a base, the paper's figures."""
    after, before = (np.array([[getattr(line, key) for line in lines] for key in MEASURES]) for lines in (ours, base))
    columns = {"accuracy": group, "alignment": f"{group} alignment", "uniformity": f"{group} uniformity"}
    means = dict(zip(columns, after.mean(axis=1).tolist(), strict=True))
    cells: dict[str, object] = {group: means["accuracy"], f"{group} change": float((after - before)[0].mean())}
    cells |= {column: means[measure] for measure, column in columns.items()}
    for measure, figure in theirs.items():
        cells |= {f"{columns[measure]} (paper)": figure, f"{columns[measure]} (diff)": means[measure] - figure}
    return cells


def counts(results: Results, *, together: Mapping[str, Right]) -> Table:
    """Counts that ``wsoup compare`` reads at two revisions: of every row of the tables, and of right images by row."""
    order = results.datasets()
    seen = [
        (variant, row.key, line.dataset, line.seed, line.n_correct, line.n_images)
        for variant, row, cells in results.rows()
        for line in sorted(cells.lines, key=lambda line: (order.index(line.dataset), line.seed))
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
            "images": str(results.facts[dataset].get("images", ""))[:16],
        }
        for variant, row, dataset, seed, n_correct, n_images in seen
    ]
    return Table("counts", "Counts behind the tables", columns=[*rows[0]], rows=rows)
