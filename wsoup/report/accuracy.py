"""Tables of accuracies: every row on every dataset with the mean of each role, ours beside the paper's figures.

Where those come from, and why some are marked, stands in `wsoup.report.beside_paper`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.made_from import WEIGHED
from wsoup.paper import tables as paper
from wsoup.report.beside_paper import Beside, ShownRow, beside_paper
from wsoup.report.results import ROLES, Cells, Results
from wsoup.report.tables import MARK, Table, TableCells, is_number, mean_and_std


def averages(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """variant -> row -> mean and deviation over seeds of source, XD and DG, per cent; without what is missing."""
    by_variant: dict[str, dict[str, dict[str, float]]] = {}
    for variant, row, cells in results.rows():
        known: dict[str, float] = {}
        for role in ROLES:
            mean, deviation = mean_and_std(cells.of(results.datasets(role)))
            if is_number(mean):
                known[role] = round(mean, 3)
                known[f"{role} (std)"] = round(deviation, 3)
        by_variant.setdefault(variant, {})[row.key] = known
    return by_variant


def other_metrics(results: Results) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """variant -> row -> metric -> mean of source, XD and DG of what is counted besides accuracy; no missing ones."""
    by_variant: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for variant, row, cells in results.rows():
        of_row: dict[str, dict[str, float]] = {}
        for metric in results.metrics:
            known = {}
            for role in ROLES:
                mean, _ = mean_and_std(cells.of(results.datasets(role), metric=metric))
                if is_number(mean):
                    known[role] = round(mean, 4)
            if known:
                of_row[metric] = known
        by_variant.setdefault(variant, {})[row.key] = of_row
    return by_variant


def zero_shot_table(results: Results) -> Table:
    """Every row of the pretrained encoder, with the paper's figures for the same encoder if there are any."""
    rows = []
    for row in results.table:
        theirs = paper.zero_shot(row.key, encoder=results.encoder)
        rows.append(ShownRow(results.label(row), PRETRAINED, row, theirs))
    table = accuracy_table(results, rows=rows, name="zero_shot", title="Zero-shot accuracy")
    first, *others = table.notes
    # Who compares the answer with this table would take one of the two figures for a mistake.
    of_answer = "A soup is a mean over seeds; that of the answer has the members of all seeds, so its figures differ."
    return replace(table, notes=[first, of_answer, *others])


def finetuned_table(results: Results, *, heads: Collection[str]) -> Table:
    """Every row of every finetuned method and of every head; the paper's figures are in its own tables."""
    variants = [variant for variant in results.variants if variant != PRETRAINED]
    n_heads = sum(variant in heads for variant in variants)
    title = "Accuracy after finetuning"
    if n_heads == len(variants):
        title = "Accuracy of the heads"
    elif n_heads:
        title = "Accuracy after finetuning, and of the heads"
    rows = []
    for variant in variants:
        for row in results.table:
            rows.append(ShownRow(results.title(variant, row), variant, row, {}))
    return accuracy_table(results, rows=rows, name="finetuned", title=title)


def paper_tables(results: Results) -> list[Table]:
    """The paper's tables with finetuned models, in its order, as far as this run has rows of them."""
    source, *_ = results.datasets("source")
    tables = []
    for name, title in paper.TITLES.items():
        # The paper's figures over LAION stand in a table of their own; all others are over ImageNet.
        of_laion = name == "laion_source"
        if source.startswith("laion") is not of_laion:
            continue
        table = accuracy_table(results, rows=_rows_of_paper(results, name), name=name, title=title)
        if any(row["variant"] != PRETRAINED for row in table.rows):
            tables.append(table)
    return tables


def _rows_of_paper(results: Results, table: str) -> list[ShownRow]:
    """Rows of one of the paper's tables to which a row of this run corresponds."""
    rows = []
    for line in paper.rows(table):
        row = results.row(line.row) if line.row else None
        if row is not None:
            rows.append(ShownRow(line.label, line.variant, row, line.figures))
    return rows


def accuracy_table(results: Results, *, rows: Sequence[ShownRow], name: str, title: str) -> Table:
    """Rows on every dataset: ours, with the paper's figures.

    Args:
        results: the run.
        rows: in order; one without results is left out.
        name, title: of the table.
    """
    lines: list[TableCells] = []
    reasons: set[str] = set()
    for row in rows:
        cells = results.cells(row.variant, row.row)
        if cells is None:
            continue
        theirs = beside_paper(results, row)
        line = accuracy_row(results, row, cells=cells, theirs=theirs)
        lines.append(line)
        for column, beside in theirs.items():
            if f"{column} (paper)" in line:
                reasons |= beside.unlike
    columns = ["method", "m"]
    if name == "parameter_efficiency":
        columns += ["stored", "stored (paper)", "stored (diff)"]
    for column in results.columns:
        columns += [column, f"{column} (std)", f"{column} (paper)", f"{column} (diff)"]
    return Table(name, title, columns, lines, _notes(lines, columns=columns, reasons=reasons))


def _notes(lines: Sequence[TableCells], *, columns: Sequence[str], reasons: set[str]) -> list[str]:
    """What a reader of the table must know."""
    notes = ["Per cent; means over seeds, ± standard deviation over seeds."]
    shown = set().union(*lines)
    if any(f"{column} (paper)" in shown for column in columns):
        notes.append("In brackets the paper's figure (arXiv 2311.13612) and ours minus theirs.")
    for reason in sorted(reasons):
        notes.append(f"{MARK} not comparable with the paper's: {reason}.")
    if any(str(line["method"]).endswith("upper bound") for line in lines):
        notes.append("The upper bound was selected on the targets' test images, so it is not a result.")
    if any(str(line["row"]).endswith(WEIGHED) for line in lines):
        notes.append(
            "AutoCLIP (arXiv 2309.16414) weighs texts for each test image by its own scores. ZPE (2302.06235) weighs "
            "them for each dataset, from all of its test images without labels; ZPE selection keeps the best of them."
        )
    return notes


def accuracy_row(results: Results, row: ShownRow, *, cells: Cells, theirs: Mapping[str, Beside]) -> TableCells:
    """One row: ours, deviation, the paper's, difference and mark for every column."""
    line: dict[str, object] = {"method": row.label, "variant": row.variant, "row": row.row.key}
    line["m"] = round(cells.texts, 1)
    ours: dict[str, float] = {}
    # A soup's texts are stored beside what a finetuned model or a head stores.
    ours["stored"] = results.parameters.get(row.variant, 0) + (cells.stored or 0.0)
    for column, names in results.columns.items():
        mean, deviation = mean_and_std(cells.of(names))
        ours[column] = mean
        line[f"{column} (std)"] = deviation
    line |= ours
    for column, beside in theirs.items():
        if not is_number(ours[column]):
            continue
        line[f"{column} (paper)"] = beside.figure
        line[f"{column} (diff)"] = ours[column] - beside.figure
        if beside.unlike:
            line[f"{column} (mark)"] = MARK
    return line
