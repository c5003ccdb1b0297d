"""How many photos with a label got it, and which classes are taken for which."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wsoup.api.classify import Prediction
from wsoup.disk.cells import defused
from wsoup.disk.store import replacing

MOST = 3
"""Pairs of classes that are named."""


class Confusion:
    """Counts of (label, answer); `add` takes them one by one."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._sure = Counter[bool | None]()

    def add(self, answer: Prediction) -> None:
        """What is said of one photo; counted where it has a label and was read."""
        if answer.photo.label is not None and answer.classes:
            self.counts[answer.photo.label, answer.classes[0]] += 1
            self._sure[answer.right] += answer.status == "ok"

    def lines(self) -> list[str]:
        """Accuracy, that of the sure photos where others are not, and the pairs confused most; empty without labels."""
        n_images = self.counts.total()
        if not n_images:
            return []
        n_correct = sum(count for (label, answer), count in self.counts.items() if label == answer)
        said = [f"accuracy {_share(n_correct, n_images)}"]
        if self._sure.total() < n_images:
            sure = self._sure.total()
            said.append(f"accuracy of the {sure} that are sure: {_share(self._sure[True], sure)}")
        pairs = [(pair, count) for pair, count in self.counts.most_common() if pair[0] != pair[1]]
        if pairs:
            named = ", ".join(f"{label} as {answer} ({count})" for (label, answer), count in pairs[:MOST])
            said.append(f"most confused: {named}")
        return said

    def write(self, path: Path, *, class_names: Sequence[str]) -> None:
        """Write a CSV table: a row for each label, a column for each answer."""
        with replacing(path) as new, open(new, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["label", *map(defused, class_names)])
            for label in class_names:
                writer.writerow([defused(label), *(self.counts[label, answer] for answer in class_names)])


def _share(n_correct: int, n_images: int) -> str:
    return f"{100 * n_correct / n_images:.2f} % ({n_correct} of {n_images})" if n_images else "none"
