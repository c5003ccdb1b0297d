"""Accuracies: tables of ours beside the paper's, marked where they are not like for like."""

from collections.abc import Mapping, Sequence

from wsoup.disk.files import PRETRAINED
from wsoup.paper import settings
from wsoup.paper import tables as paper
from wsoup.report.labels import TableRow, methods_of
from wsoup.report.results import MEANS, ROLES, Results, is_number, mean_and_std
from wsoup.report.tables import MARK, Row, Table, averaged, with_std


def averages(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """variant -> row -> mean and deviation over seeds of source, XD and DG, per cent; without what is missing."""
    by_variant: dict[str, dict[str, dict[str, float]]] = {}
    for variant, row, cells in results.rows():
        figures = averaged(results.by_role(cells))
        known = {name: round(value, 3) for name, value in figures.items() if is_number(value)}
        by_variant.setdefault(variant, {})[row.key] = known
    return by_variant


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
    ours, fixed, encoder = results.settings, results.paper_settings, results.encoder
    reasons = set(settings.marks(ours, paper=fixed, encoder=encoder, variant=variant, row=row.key) if theirs else ())
    line: dict[str, object] = {"method": label, "variant": variant, "row": row.key, "m": round(cells.texts, 1)}
    stored, why = results.parameters.get(variant, 0) + (cells.stored or 0.0), set[str]()
    line["stored"] = stored
    for column, names in _columns(results):
        mean, deviation = mean_and_std(cells.of(names))
        line |= {column: mean, f"{column} (std)": deviation}
        figure = theirs.get(_papers_column(results, column, names))
        if figure is not None and is_number(mean):
            unlike = reasons.union(*(_unlike(results, name) for name in names))
            line |= _beside(column, mean, figure, marked=bool(unlike))
            why |= unlike
    if "parameters_thousands" in theirs and not paper.encoder_differs(encoder, tuned=variant != PRETRAINED):
        known = settings.differs_always(
            ours, paper=fixed, model=str(encoder["model"]), variant=variant, row=row.key, column="stored"
        )
        line |= _beside("stored", stored, 1000.0 * theirs["parameters_thousands"], marked=bool(set(known)))
        why |= set(known)
    return line, why


def _beside(column: str, ours: float, theirs: float, *, marked: bool) -> dict[str, object]:
    """The paper's figure, the difference and, where they are not comparable, the mark."""
    cell: dict[str, object] = {f"{column} (paper)": theirs, f"{column} (diff)": ours - theirs}
    return cell | ({f"{column} (mark)": MARK} if marked else {})


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
    layout = str(results.facts.get(name, {}).get("layout"))
    same_layout = layout in ("coop", f"coop:{name}") or (name == "laion" and layout.startswith("laion:"))
    return name in paper.COLUMNS and same_layout


def _unlike(results: Results, name: str) -> set[str]:
    """Why a dataset is not as in the paper; empty if it is, or if the paper has no such dataset."""
    if not _is_papers(results, name):
        return set()
    facts = results.facts.get(name, {})
    split = () if facts.get("paper_comparable", True) else (f"{name}: {facts.get('reason', 'another split')}",)
    return {*split, *settings.dataset_differs(results.settings, name)}


def size_table(results: Results) -> Table:
    """Accuracy against the number of members m."""
    lines = [
        {"variant": variant, "method": method.name, "mode": mode, "m": m} | averaged(results.by_role(cells))
        for variant in results.variants
        for method in methods_of(results.table)
        if method.sized
        for mode in ("centroid", "score_mean")
        for m, cells in results.curve(variant, method=method, mode=mode).items()
    ]
    return Table(
        "accuracy_by_m",
        "Accuracy against the number of members",
        columns=["variant", "method", "mode", "m", *with_std(ROLES)],
        rows=lines,
        notes=["Per cent."],
    )
