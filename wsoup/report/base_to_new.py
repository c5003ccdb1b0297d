"""The table of generalisation from base to new classes: CoOp's protocol (`wsoup.datasets.halves`)."""

from collections.abc import Mapping

import numpy as np

from wsoup.params.inputs import DatasetParams, source_of
from wsoup.report.results import Results
from wsoup.report.tables import Table, TableCells, mean_and_std

TARGET = "new classes"
"""The column that names a target, where several have the new classes."""
NOTE = (
    "Per cent; H is the harmonic mean of the accuracies on base and new classes, of each seed. Means over seeds, ± "
    "standard deviation over seeds."
)


def base_to_new(results: Results, *, datasets: Mapping[str, DatasetParams]) -> Table:
    """Every row on the source's base classes, on the new ones of the same dataset, and the harmonic mean of both.

    Several targets may have the new classes, with another template for instance. Where some dataset has half of its
    classes and there is no such pair, the table has a note that says why instead of rows; else it has neither.
    """
    targets = new_targets(datasets)
    columns = ["method", "m"]
    if len(targets) > 1:
        columns.append(TARGET)
    for column in ("base", "new", "H"):
        columns += [column, f"{column} (std)"]
    rows: list[TableCells] = []
    base = source_of(datasets)
    for target in targets:
        for variant, row, cells in results.rows():
            line: dict[str, object] = {"method": results.title(variant, row), TARGET: target}
            line["m"] = round(cells.texts, 1)
            both = cells.of((base, target))  # (2, seeds)
            for column, values in (("base", both[0]), ("new", both[1]), ("H", harmonic_mean(both))):
                line[column], line[f"{column} (std)"] = mean_and_std(values[None])
            rows.append(line)
    notes = []
    if rows:
        notes = [NOTE]
    elif any(section.classes is not None for section in datasets.values()):
        notes = [_why_none(datasets)]
    return Table("base_to_new", "From base to new classes", columns, rows, notes)


def new_targets(datasets: Mapping[str, DatasetParams]) -> list[str]:
    """Names of the targets with the new classes of the source's images, if the source has the base classes."""
    source = datasets[source_of(datasets)]
    targets = []
    for name, section in datasets.items():
        same_images = (section.layout, section.root) == (source.layout, source.root)
        if same_images and source.classes == "base" and section.classes == "new":
            targets.append(name)
    return targets


def _why_none(datasets: Mapping[str, DatasetParams]) -> str:
    """Why no target is compared with the source, and what would make one."""
    name = source_of(datasets)
    has = {"new": "has the new classes", None: "has all classes"}
    classes = datasets[name].classes
    if classes != "base":
        return (
            f"No figures: the source, {name}, {has[classes]}; with classes: base there, and classes: new on a target."
        )
    return (
        f"No figures: the source, {name}, has the base classes, and no target has classes: new with its layout and "
        f"root ({datasets[name].root})."
    )


def harmonic_mean(accuracies: np.ndarray) -> np.ndarray:
    """Of two accuracies: (2, seeds) -> (seeds,); 0 where both are 0.

    >>> harmonic_mean(np.array([[60.0], [30.0]]))
    array([40.])
    """
    first, second = accuracies
    total = first + second
    return 2 * first * second / np.where(total == 0, 1, total)
