"""The tables of accuracies, ours beside the paper's and the difference, marked where it is not like with like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import TableRow
from wsoup.report import paper, settings
from wsoup.report.means import MEANS, ROLES, is_number, mean_and_std
from wsoup.report.results import Results
from wsoup.report.tables import MARK, Table


def zero_shot_table(results: Results) -> Table:
    """Every row of the pretrained encoder, beside the paper's for the same encoder where there is one."""
    rows = [
        (results.label(row), PRETRAINED, row, paper.zero_shot(row, encoder=results.encoder)) for row in results.table
    ]
    return accuracy_table(results, rows=rows, name="zero_shot", title="Zero-shot accuracy")


def finetuned_table(results: Results) -> Table:
    """Every row of every finetuned method; the paper's are in its own tables."""
    rows: list[tuple[str, str, TableRow, Mapping[str, float]]] = [
        (variant if row.key == "class_name" else f"{variant} + {results.label(row)}", variant, row, {})
        for variant in results.variants
        if variant != PRETRAINED
        for row in results.table
    ]
    return accuracy_table(results, rows=rows, name="finetuned", title="Accuracy after finetuning")


def paper_tables(results: Results) -> list[Table]:
    """The paper's tables with finetuned models, as far as this run has their rows, in the paper's order."""
    source = results.datasets("source")[0]
    made = [
        accuracy_table(
            results,
            rows=[
                (label, variant, row, figures)
                for label, variant, key, figures in paper.beside(name)
                if (row := results.row(key)) is not None
            ],
            name=name,
            title=title,
        )
        for name, title in paper.TITLES.items()
        if source.startswith("laion") == (name == "laion_source")
    ]
    return [table for table in made if any(row["variant"] != PRETRAINED for row in table.rows)]


def accuracy_table(
    results: Results, *, rows: Sequence[tuple[str, str, TableRow, Mapping[str, float]]], name: str, title: str
) -> Table:
    """Rows on every dataset: ours, and the paper's figures beside them.

    Args:
        results: the run.
        rows: (label, variant, row, the paper's figures by column); a row that the run has not is left out.
        name, title: of the table.
    """
    columns = ["method", "m"]
    columns += ["stored", "stored (paper)", "stored (diff)"] if name == "parameter_efficiency" else []
    columns += [f"{column}{end}" for column, _ in _columns(results) for end in ("", " (std)", " (paper)", " (diff)")]
    lines = [line for row in rows if (line := accuracy_row(results, *row)) is not None]
    notes = ["Per cent; means over seeds, ± standard deviation over seeds."]
    if any(f"{column} (paper)" in line for line in lines for column in columns):
        notes.append("In brackets the paper's figure (arXiv 2311.13612) and ours minus theirs.")
    marked = sorted({why for line in lines for why in line["why"]})
    notes += [f"{MARK} not comparable with the paper's: {why}." for why in marked]
    notes += bound_notes(lines)
    return Table(name, title, columns, lines, notes)


def bound_notes(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What has to be said below a table that shows the upper bound."""
    shown = any(line["method"].endswith("upper bound") for line in lines)
    return ["The upper bound was selected on the targets' test images: it is no result."] if shown else []


def _columns(results: Results) -> list[tuple[str, list[str]]]:
    """(column, its datasets): every dataset, and behind those of a role their mean."""
    return [
        column
        for role in ROLES
        if (names := results.datasets(role))
        for column in [*((name, [name]) for name in names), *([(MEANS[role], names)] if role in MEANS else [])]
    ]


def accuracy_row(
    results: Results, label: str, variant: str, row: TableRow, theirs: Mapping[str, float]
) -> dict[str, Any] | None:
    """One row: ours, deviation, the paper's, difference and mark for every column; None where there is no result."""
    cells = results.cells(variant, row)
    if cells is None:
        return None
    compared = settings.marks(results.settings, paper=results.theirs, encoder=results.encoder, variant=variant, row=row)
    why = set(compared if theirs else ())
    line: dict[str, Any] = {"method": label, "variant": variant, "row": row.key, "m": round(cells.texts, 1)}
    line["stored"] = results.parameters.get(variant, 0) + (cells.stored or 0.0)
    for column, names in _columns(results):
        figure = theirs.get(_papers_column(results, column, names))
        reasons = why.union(*(_unlike(results, name) for name in names))
        line.update(_beside(column, cells.of(names), figure, marks=reasons))
    if "parameters_thousands" in theirs and not paper.encoder_differs(results.encoder, tuned=variant != PRETRAINED):
        stored = 1000.0 * theirs["parameters_thousands"]
        line |= {"stored (paper)": stored, "stored (diff)": line["stored"] - stored}
        model = str(results.encoder["model"])
        counted = settings.always(results.theirs, model=model, variant=variant, row=row, column="stored")
        line |= {f"stored ({key})": value for why in counted for key, value in (("mark", MARK), ("why", [why]))}
    line["why"] = sorted({why for key, value in line.items() if key.endswith(" (why)") for why in value})
    return line


def _papers_column(results: Results, column: str, names: Sequence[str]) -> str:
    """The paper's column of a dataset, or of a mean over all that it has; "" where there is none."""
    if not all(_papers(results, name) for name in names):
        return ""
    if column not in MEANS.values():
        return paper.COLUMNS[column]
    same = len(names) == (10 if column == MEANS["xd"] else 4) and "imagenet" not in names  # beside another source
    return column if same else ""


def _papers(results: Results, name: str) -> bool:
    """Whether a dataset is one of the paper's: by name, by where its images come from, and with all its classes."""
    layout = str(results.facts.get(name, {}).get("layout"))
    laid_out = layout in ("coop", f"coop:{name}") or (name == "laion" and layout.startswith("laion:"))
    return name in paper.COLUMNS and laid_out and name not in results.halved


def figures_beside(results: Results) -> dict[tuple[str, str], set[str]]:
    """Every row of the run that the paper has figures of: (variant, row's key) -> why they are not comparable.

    Of datasets that are the paper's by name; empty on any others.
    """
    if not results.papers:
        return {}
    lines = [
        line
        for table in (zero_shot_table(results), *paper_tables(results))
        for line in table.rows
        if any(key.endswith(" (paper)") for key in line)
    ]
    return {(line["variant"], line["row"]): set(line["why"]) for line in lines}


def _unlike(results: Results, name: str) -> set[str]:
    """Why a dataset is not the paper's; nothing where it is, or where the paper has no such dataset."""
    if not _papers(results, name):
        return set()
    facts = results.facts.get(name, {})
    counted = () if facts.get("paper_comparable", True) else (f"{name}: {facts.get('reason', 'another split')}",)
    return {*counted, *settings.dataset_differs(results.settings, name)}


def _beside(column: str, values: Any, theirs: float | None, *, marks: set[str]) -> dict[str, Any]:
    mean, deviation = mean_and_std(values)
    cell: dict[str, Any] = {column: mean, f"{column} (std)": deviation}
    if theirs is not None and is_number(mean):
        cell |= {f"{column} (paper)": theirs, f"{column} (diff)": mean - theirs}
        cell |= {f"{column} (mark)": MARK, f"{column} (why)": sorted(marks)} if marks else {}
    return cell
