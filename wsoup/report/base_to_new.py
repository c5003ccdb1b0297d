"""The table of generalisation from base to new classes: CoOp's protocol (`wsoup.datasets.halves`)."""

from collections.abc import Mapping

import numpy as np

from wsoup.params.inputs import DatasetParams
from wsoup.report.results import Results
from wsoup.report.tables import Table, TableCells, mean_and_std

NOTE = (
    "Per cent; H is the harmonic mean of the accuracies on base and new classes, of each seed. Means over seeds, ± "
    "standard deviation over seeds."
)


def base_to_new(results: Results, *, datasets: Mapping[str, DatasetParams]) -> Table:
    """Every row on the source's base classes, on the new ones of the same dataset, and the harmonic mean of both.

    Without a source of base classes and a target of its new ones the table has no rows.
    """
    columns = ["method", "m"]
    for column in ("base", "new", "H"):
        columns += [column, f"{column} (std)"]
    rows: list[TableCells] = []
    pair = pair_of(datasets)
    if pair is not None:
        for variant, row, cells in results.rows():
            line: dict[str, object] = {"method": results.title(variant, row)}
            line["m"] = round(cells.texts, 1)
            both = cells.of(pair)  # (2, seeds)
            for column, values in (("base", both[0]), ("new", both[1]), ("H", harmonic_mean(both))):
                line[column], line[f"{column} (std)"] = mean_and_std(values[None])
            rows.append(line)
    return Table("base_to_new", "From base to new classes", columns, rows, [NOTE])


def pair_of(datasets: Mapping[str, DatasetParams]) -> tuple[str, str] | None:
    """Names of the source, if it has base classes, and of the target with the new classes of the same images."""
    base = next(name for name, section in datasets.items() if section.role == "source")
    for name, section in datasets.items():
        same_images = (section.layout, section.root) == (datasets[base].layout, datasets[base].root)
        if same_images and datasets[base].classes == "base" and section.classes == "new":
            return base, name
    return None


def harmonic_mean(accuracies: np.ndarray) -> np.ndarray:
    """Of two accuracies: (2, seeds) -> (seeds,); 0 where both are 0.

    >>> harmonic_mean(np.array([[60.0], [30.0]]))
    array([40.])
    """
    first, second = accuracies
    total = first + second
    return 2 * first * second / np.where(total == 0, 1, total)
