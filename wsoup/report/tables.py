"""Tables as CSV (every figure in a cell of its own) and Markdown (ours, then the paper's and the difference)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wsoup import store
from wsoup.report import paper
from wsoup.report.results import PRETRAINED, ROWS, Results, RowSpec, mean_and_std, paired_interval, row_of

MEANS = {"xd": "XD mean", "dg": "DG mean"}
SIZES = ("m", "stored")
"""Columns that are sizes, and no accuracies."""
FINE = ("alignment", "uniformity", "KL")
"""Columns whose figures are small: shown to three places."""
SHOWN = 0.005
"""A deviation below this would read as 0.00; that of equal means is rounding alone."""
MARK = "*"
"""Beside a difference that is not like with like: another split of the data, or another encoder."""


@dataclass(frozen=True)
class Table:
    """One table: rows of figures by column, and what stands below it.

    Attributes:
        name: its file name.
        title: one line above it.
        columns: names of the columns in order; the first ones are text.
        rows: one mapping of column -> text or number each.
        notes: lines below it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = field(default_factory=tuple)

    def as_csv(self) -> str:
        """CSV; numbers rounded to four places, missing ones empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([_plain(row.get(column)) for column in self.columns])
        return text.getvalue()

    def as_markdown(self) -> str:
        """A Markdown table; a column ``X (paper)`` is folded into the cell of column ``X``."""
        shown = shown_columns(self.columns)
        lines = ["| " + " | ".join(shown) + " |", "|" + "|".join(" --- " for _ in shown) + "|"]
        lines += ["| " + " | ".join(cell(row, column) for column in shown) + " |" for row in self.rows]
        return "\n".join([f"# {self.title}", "", *lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``<name>.csv`` and ``<name>.md``."""
        for suffix, text in ((".csv", self.as_csv()), (".md", self.as_markdown())):
            with store.replacing(folder / f"{self.name}{suffix}") as temporary:
                temporary.write_text(text, encoding="utf-8")


def shown_columns(columns: Sequence[str]) -> list[str]:
    """Columns of their own: not the paper's figures, differences and deviations that stand in another's cell."""
    return [column for column in columns if not column.endswith((" (paper)", " (diff)", " (std)"))]


def cell(row: Mapping[str, Any], column: str) -> str:
    """``69.2 ± 0.1 (69.4, -0.2)``: ours, its deviation, the paper's and the difference, as far as they are there."""
    value = row.get(column)
    if isinstance(value, str):
        return value
    if not is_number(value):
        return ""
    if isinstance(value, int) or column in SIZES:
        text = f"{value:g}"
    else:
        text = f"{value:.{3 if column.endswith(FINE) else 2}f}"
    deviation = row.get(f"{column} (std)", 0.0)
    if deviation >= SHOWN:
        text += f" ± {deviation:.{3 if column.endswith(FINE) else 2}f}"
    if is_number(row.get(f"{column} (paper)")):
        text += f" ({row[f'{column} (paper)']:g}, {row[f'{column} (diff)']:+.2f}{row.get(f'{column} (mark)', '')})"
    return text


def is_number(value: object) -> bool:
    """A number that is one: not None, not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else round(value, 4)
    return "" if value is None else value


def zero_shot_table(results: Results) -> Table:
    """Every row of the pretrained encoder, beside the paper's for the same encoder where there is one."""
    encoder = (results.encoder["model"], results.encoder["pretrained"])
    rows = [(row.label, PRETRAINED, row, paper.zero_shot(row.label, encoder=encoder)) for row in ROWS]
    return accuracy_table(results, rows=rows, name="zero_shot", title="Zero-shot accuracy")


def finetuned_table(results: Results) -> Table:
    """Every row of every finetuned method; the paper's are in its own tables."""
    rows: list[tuple[str, str, RowSpec, Mapping[str, float]]] = [
        (variant if row.method == "class_name" else f"{variant} + {row.label}", variant, row, {})
        for variant in results.variants
        if variant != PRETRAINED
        for row in ROWS
    ]
    return accuracy_table(results, rows=rows, name="finetuned", title="Accuracy after finetuning")


def paper_tables(results: Results) -> list[Table]:
    """The paper's tables with finetuned models, as far as this run has their rows, in the paper's order."""
    source = results.datasets("source")[0]
    made = []
    for name, title in paper.TITLES.items():
        rows = [(label, variant, row_of(key), found) for label, variant, key, found in paper.beside(name)]
        if source.startswith("laion") == (name == "laion_source"):
            made.append(accuracy_table(results, rows=rows, name=name, title=title))
    return [table for table in made if any(row["variant"] != PRETRAINED for row in table.rows)]


def accuracy_table(
    results: Results, *, rows: Sequence[tuple[str, str, RowSpec, Mapping[str, float]]], name: str, title: str
) -> Table:
    """Rows on every dataset: ours, and the paper's figures beside them.

    Args:
        results: the run.
        rows: (label, variant, row, the paper's figures by column); a row that the run has not is left out.
        name, title: of the table.
    """
    columns = (
        ["method", "m", "stored", "stored (paper)", "stored (diff)"]
        if name == "parameter_efficiency"
        else ["method", "m"]
    )
    columns += _accuracy_columns(results)
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
    if not any(line["method"].endswith("upper bound") for line in lines):
        return []
    return ["The upper bound was selected on the targets' test images: it is no result."]


def _accuracy_columns(results: Results) -> list[str]:
    columns = []
    for role in ("source", "xd", "dg"):
        names = results.datasets(role)
        columns += [*names, MEANS[role]] if role in MEANS and names else names
    return [f"{column}{suffix}" for column in columns for suffix in ("", " (std)", " (paper)", " (diff)")]


def accuracy_row(
    results: Results, label: str, variant: str, row: RowSpec, theirs: Mapping[str, float]
) -> dict[str, Any] | None:
    """One row: ours, deviation, the paper's, difference and mark for every column; None where there is no result."""
    cells = results.cells(variant, row)
    if cells is None:
        return None
    encoder = (results.encoder["model"], results.encoder["pretrained"])
    differs = paper.encoder_differs(encoder, tuned=variant != PRETRAINED)
    why = {differs} if differs else set()
    line: dict[str, Any] = {"method": label, "variant": variant, "m": round(cells.texts, 1)}
    line["stored"] = results.parameters.get(variant, 0) + (cells.stored or 0.0)
    for role in ("source", "xd", "dg"):
        names = results.datasets(role)
        unlike = {name: reason for name in names if (reason := _unlike(results, name)) is not None}
        for name in names:
            figure = None if name in results.halved else theirs.get(paper.COLUMNS.get(name, ""))
            line.update(_beside(name, cells.of([name]), figure, marks=why | unlike.get(name, set())))
        if role in MEANS and names:
            same = len(names) == (10 if role == "xd" else 4) and not set(names) & set(results.halved)
            shown = theirs.get(MEANS[role]) if same and all(name in paper.COLUMNS for name in names) else None
            reasons = {reason for found in unlike.values() for reason in found}
            line.update(_beside(MEANS[role], cells.of(names), shown, marks=why | reasons))
    if "parameters_thousands" in theirs and not differs:
        stored = 1000.0 * theirs["parameters_thousands"]
        line |= {"stored (paper)": stored, "stored (diff)": line["stored"] - stored}
    line["why"] = sorted({why for key, value in line.items() if key.endswith(" (why)") for why in value})
    return line


def _unlike(results: Results, name: str) -> set[str] | None:
    """Why a dataset's split is not the paper's; None where it is, or where the paper has no such dataset."""
    facts = results.facts.get(name, {})
    if name not in paper.COLUMNS or facts.get("paper_comparable", True):
        return None
    return {f"{name}: {facts.get('reason', 'another split')}"}


def _beside(column: str, values: Any, theirs: float | None, *, marks: set[str]) -> dict[str, Any]:
    mean, deviation = mean_and_std(values)
    found: dict[str, Any] = {column: mean, f"{column} (std)": deviation}
    if theirs is not None and is_number(mean):
        found |= {f"{column} (paper)": theirs, f"{column} (diff)": mean - theirs}
        if marks:
            found |= {f"{column} (mark)": MARK, f"{column} (why)": sorted(marks)}
    return found


def paired_table(results: Results, *, samples: int, confidence: float) -> Table:
    """Each row against the class name alone, on the same datasets and seeds, with a bootstrap interval."""
    base = next(row for row in ROWS if row.key == "class_name")
    lines = []
    for variant in results.variants:
        for row in ROWS:
            for role in MEANS:
                names = results.datasets(role)
                first, second = results.cells(PRETRAINED, base), results.cells(variant, row)
                if first is None or second is None or not names or (variant == PRETRAINED and row is base):
                    continue
                a, b = first.of(names), second.of(names)
                if math.isnan(float((a + b).sum())):
                    continue
                mean, low, high = paired_interval(a, b, samples=samples, confidence=confidence, seed=0)
                sure = "better" if low > 0 else "worse" if high < 0 else "noise"
                lines.append(
                    {
                        "variant": variant,
                        "method": row.label,
                        "role": role,
                        "difference": mean,
                        "low": low,
                        "high": high,
                        "verdict": sure,
                    }
                )
    note = (
        f"Points gained over the pretrained encoder with class names only, on the same datasets and seeds; low to high "
        f"is the {confidence:.0%} bootstrap interval over datasets and seeds ({samples} samples)."
    )
    columns = ["variant", "method", "role", "difference", "low", "high", "verdict"]
    return Table("paired", "What is more than noise", columns, lines, [note])


def size_table(results: Results) -> Table:
    """Accuracy against the number of members m."""
    lines = []
    for variant in results.variants:
        for method in ("random_descriptors", "waffle", "random_chains", "descriptor_soup", "word_soup", "upper_bound"):
            for mode in ("centroid", "score_mean"):
                for m, cells in results.curve(variant, method=method, mode=mode).items():
                    line: dict[str, Any] = {"variant": variant, "method": method, "mode": mode, "m": m}
                    for role in ("source", "xd", "dg"):
                        line[role], line[f"{role} (std)"] = mean_and_std(cells.of(results.datasets(role)))
                    lines.append(line)
    columns = ["variant", "method", "mode", "m"]
    columns += [f"{role}{suffix}" for role in ("source", "xd", "dg") for suffix in ("", " (std)")]
    return Table("accuracy_by_m", "Accuracy against the number of members", columns, lines, ["Per cent."])


def metrics(results: Results) -> dict[str, Any]:
    """What ``dvc metrics diff`` compares: per variant and row, source, XD and DG mean and deviation over seeds.

    A base-to-new run also has the harmonic mean of base and new.
    """
    found: dict[str, Any] = {}
    for variant, row, cells in results.rows():
        entry: dict[str, float] = {}
        values = {"source": cells.of(results.datasets("source"))}
        values |= {f"{role}_mean": cells.of(results.datasets(role)) for role in MEANS}
        values["harmonic_mean"] = results.harmonic(cells)
        for key, by_seed in values.items():
            mean, deviation = mean_and_std(by_seed)
            if is_number(mean):
                entry[key] = round(mean, 3)
                entry[key.replace("_mean", "") + "_std"] = round(deviation, 3)
        found.setdefault(variant, {})[row.key] = entry
    return found
