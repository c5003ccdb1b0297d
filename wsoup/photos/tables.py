"""Answers as a table, and counts of them by label."""

from collections import Counter
from collections.abc import Sequence

from wsoup.disk.csv_rows import Cell
from wsoup.photos.classify import Prediction

MOST_CONFUSED = 3
"""Pairs of confused classes that are listed."""


def row_of(prediction: Prediction, *, top: int, inputs: Sequence[str]) -> dict[str, Cell]:
    """A row of predictions: path, status, class, probability, class_2, ...; then all columns of the input.

    A column of the input whose name is taken gets the prefix ``input_``, as often as it needs to be its own.
    """
    status = "not read" if prediction.problem else "ok"
    row: dict[str, Cell] = {"path": prediction.photo.path, "status": status}
    for rank in range(top):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        name = probability = None
        if rank < len(prediction.classes):
            name = prediction.classes[rank]
            probability = round(prediction.probabilities[rank], 6)
        row[f"class{suffix}"] = name
        row[f"probability{suffix}"] = probability
    for name in inputs:
        column = name
        while column in row or (column != name and column in inputs):
            column = f"input_{column}"
        row[column] = prediction.photo.columns.get(name, "")
    return row


def accuracy_lines(predictions: Sequence[Prediction]) -> list[str]:
    """Accuracy of photos with labels, and the most confused classes."""
    known = [prediction for prediction in predictions if prediction.right is not None]
    if not known:
        return []
    lines = [f"accuracy {share_right(known)}"]
    confusions: Counter[str] = Counter()
    for prediction in known:
        if not prediction.right:
            confusions[f"{prediction.photo.label} as {prediction.classes[0]}"] += 1
    if confusions:
        listed = ", ".join(f"{pair} ({count})" for pair, count in confusions.most_common(MOST_CONFUSED))
        lines.append(f"most confused: {listed}")
    return lines


def share_right(predictions: Sequence[Prediction]) -> str:
    """Per cent and count of the predictions that are right, in words."""
    right = sum(prediction.right is True for prediction in predictions)
    return f"{100 * right / len(predictions):.2f} % ({right} of {len(predictions)})"
