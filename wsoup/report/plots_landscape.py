"""Data of the loss landscape's figures: the plane, and the lines from the tuned descriptor to either initialisation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk import store
from wsoup.report.tables import TableCells

FINER = 4
"""Steps drawn for each measured step of a plane, in both directions."""
TO_SOUP = "to B, the soup"
TO_RANDOM = "to A, random words"


def plane(tables: Mapping[str, Path]) -> Sequence[TableCells]:
    """0-1 loss in the square between the corners: {method, mean, x, y, error}, per cent.

    Args:
        tables: method -> its Parquet of counts, see `wsoup.evaluate.landscape`.
    """
    points: list[TableCells] = []
    for method, path in tables.items():
        for (mean, x, y), error in _errors(path).items():
            if 0 <= x <= 1 and 0 <= y <= 1:
                place = {"x": round(x, 4), "y": round(y, 4)}
                points.append({"method": method, "mean": mean, **place, "error": error})
    return points


def lines(tables: Mapping[str, Path]) -> Sequence[TableCells]:
    """0-1 loss along the two lines, beyond their ends too: {method, mean, line, place, error}, per cent.

    A place is 0 at the tuned descriptor and 1 at the initialisation.
    """
    points: list[TableCells] = []
    for method, path in tables.items():
        for (mean, x, y), error in _errors(path).items():
            point = {"method": method, "mean": mean}
            if y == 0:
                points.append({**point, "line": TO_SOUP, "place": round(x, 4), "error": error})
            if x == 0:
                points.append({**point, "line": TO_RANDOM, "place": round(y, 4), "error": error})
    return points


def _errors(path: Path) -> dict[tuple[str, float, float], float]:
    """0-1 loss, per cent, by mean and point: on the training images, and the mean of the targets."""
    of_datasets: dict[tuple[str, float, float], list[float]] = {}
    for line in store.read_table(path).to_pylist():
        mean = "training images" if line["role"] == "source" else "mean of the targets"
        error = 100.0 - 100.0 * line["n_correct"] / line["n_images"]
        key = (mean, line["x"], line["y"])
        of_datasets.setdefault(key, []).append(error)
    return {key: round(float(np.mean(errors)), 3) for key, errors in of_datasets.items()}


def interpolated(points: Sequence[Mapping[str, Any]]) -> Sequence[TableCells]:
    """A plane's points with points between them, linearly interpolated, so that stepped colours look like contours."""
    planes: dict[tuple[str, str], dict[tuple[float, float], float]] = {}
    for point in points:
        of_plane = planes.setdefault((point["method"], point["mean"]), {})
        of_plane[point["x"], point["y"]] = point["error"]
    finer: list[TableCells] = []
    for (method, mean), errors in planes.items():
        xs = sorted({x for x, _ in errors})
        ys = sorted({y for _, y in errors})
        new_xs = _finer(xs)
        new_ys = _finer(ys)
        rows = []
        for y in ys:
            measured = [errors[x, y] for x in xs]
            rows.append(np.interp(new_xs, xs, measured))
        # First along x, then along y: NumPy interpolates in one dimension.
        wide = np.array(rows)  # (ys, new xs)
        fine = np.array([np.interp(new_ys, ys, column) for column in wide.T])  # (new xs, new ys)
        for (i, j), error in np.ndenumerate(fine):
            place = {"x": round(float(new_xs[i]), 4), "y": round(float(new_ys[j]), 4)}
            finer.append({"method": method, "mean": mean, **place, "error": round(float(error), 3)})
    return finer


def _finer(values: Sequence[float]) -> np.ndarray:
    """`FINER` equal steps from each value to the next: (n,) -> (FINER * (n - 1) + 1,)."""
    n = len(values)
    n_steps = FINER * (n - 1)
    positions = np.arange(n_steps + 1) / FINER
    return np.interp(positions, np.arange(n), values)
