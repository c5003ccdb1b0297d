"""What a change of the head moved, folder by folder, with intervals: a cell of 24 folders cannot show half a point.

python -m benchmarks.heads.paired BEFORE/results.jsonl AFTER/results.jsonl

Both files are of `python -m benchmarks.heads` on the same folders, each at its own revision.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.heads.folders import SHOTS, STRENGTHS
from benchmarks.heads.judging import NOISE, ON_CLASS_NAME
from wsoup.base.errors import MismatchError
from wsoup.photos.trial import CLASS_NAME

Line = dict[str, Any]
"""One folder, as `Judged` is written."""
Pairs = list[tuple[Line, Line]]
"""The same folder before and after."""
SIDES = {"own": "own style", "styles": "other styles"}


def main(before: Annotated[Path, typer.Argument()], after: Annotated[Path, typer.Argument()]) -> None:
    """Show how much the head on class names gained from one run to another."""
    print("\n\n".join(paired(before, after)))


def paired(before: Path, after: Path) -> list[str]:
    """Mean gain of the head, with its 95 % interval over folders, by strength of texts and photos a class.

    Args:
        before, after: results.jsonl of two runs on the same folders, in the same order.

    Raises:
        MismatchError: the folders differ.
    """
    of_before = _read(before)
    of_after = _read(after)
    if len(of_before) != len(of_after):
        raise MismatchError(
            f"{before} has {len(of_before)} folders and {after} {len(of_after)}; "
            "run benchmarks.heads with the same photos and options at both revisions"
        )
    pairs = list(zip(of_before, of_after, strict=True))
    for number, (old, new) in enumerate(pairs, start=1):
        if _of_folder(old) != _of_folder(new):
            raise MismatchError(
                f"line {number} of {before} and of {after} are of different folders; "
                "type the paths of photos alike, since they decide the draws"
            )
    return [_table(pairs, side=side) for side in SIDES]


def _read(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _of_folder(line: Line) -> tuple[Any, ...]:
    """What a folder is known by; texts answer alike only on the same photos."""
    kind = {"cone": 0.0} | line["kind"]
    texts = [round(line[side].get(CLASS_NAME, 0.0), 3) for side in SIDES]
    return line["source"], kind, texts


def _table(pairs: Pairs, *, side: str) -> str:
    """One row for each strength of texts and equality of classes."""
    lines = [
        f"{SIDES[side]}: points gained, and half of the 95 % interval\n",
        " | ".join(["| texts, classes", *[str(shots) for shots in SHOTS], "all |"]),
        "|---" * (len(SHOTS) + 2) + "|",
    ]
    for strength, equal in product(STRENGTHS, (True, False)):
        cells = [_cell(pairs, side=side, strength=strength, equal=equal, shots=(shots,)) for shots in SHOTS]
        cells.append(_cell(pairs, side=side, strength=strength, equal=equal, shots=SHOTS))
        lines.append(" | ".join([f"| {strength:g}, {'equal' if equal else 'unequal'}", *cells]) + " |")
    return "\n".join(lines)


def _cell(pairs: Pairs, *, side: str, strength: float, equal: bool, shots: tuple[int, ...]) -> str:
    """Of the folders of one cell."""
    gains = []
    for old, new in pairs:
        kind = old["kind"]
        in_cell = kind["strength"] == strength and kind["equal"] == equal and kind["shots"] in shots
        if in_cell and old[side]:
            gains.append(new[side][ON_CLASS_NAME] - old[side][ON_CLASS_NAME])
    if len(gains) < 2:
        return "-"
    half = NOISE * np.std(gains, ddof=1) / np.sqrt(len(gains))
    return f"{np.mean(gains):+.1f} +- {half:.1f}"


if __name__ == "__main__":
    typer.run(main)
