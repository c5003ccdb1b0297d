"""Tables of judged piles, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.adaptation.judging import Judged
from benchmarks.adaptation.piles import KINDS, STRENGTHS

LOST = 5.0
"""Points that no pile should lose."""


def tables(results: Sequence[Judged]) -> list[str]:
    """By strength and kind, and of each source."""
    rows = {strength: [one for one in results if one.strength == strength] for strength in STRENGTHS}
    rows["all"] = list(results)
    lines = [_row("texts", [*KINDS, "all"]), "|---" * (len(KINDS) + 2) + "|"]
    for title, some in rows.items():
        cells = [_cell([one for one in some if one.kind == kind]) for kind in KINDS]
        lines.append(_row(title, [*cells, _cell(some)]))
    by_kind = "mean gain in points, % of piles that lost more than 5 (the worst, piles)\n\n" + "\n".join(lines)
    sources = [_row("photos", list(STRENGTHS)), "|---" * (len(STRENGTHS) + 1) + "|"]
    for source in dict.fromkeys(one.source for one in results):
        some = [one for one in results if one.source == source]
        sources.append(
            _row(source, [_cell([one for one in some if one.strength == strength]) for strength in STRENGTHS])
        )
    return [by_kind, "\n".join(sources), _cells_lost(results)]


def _row(title: str, cells: Sequence[str]) -> str:
    return " | ".join([f"| {title}", *cells]) + " |"


def _cell(results: Sequence[Judged]) -> str:
    if not results:
        return "-"
    gains = np.array([one.gain for one in results])
    return f"{gains.mean():+.2f}, {100 * (gains < -LOST).mean():.1f} ({gains.min():.0f}, {len(gains)})"


def _cells_lost(results: Sequence[Judged]) -> str:
    """How many kinds of pile and strengths of texts are not as they should be, and how many piles are adapted."""
    by_cell: dict[tuple[str, str], list[float]] = {}
    for one in results:
        by_cell.setdefault((one.strength, one.kind), []).append(one.gain)
    shares = [100 * np.mean([gain < -LOST for gain in gains]) for gains in by_cell.values()]
    n_often = sum(share > 1.5 for share in shares)
    n_negative = sum(np.mean(gains) < 0 for gains in by_cell.values())
    n_adapted = sum(not one.note for one in results)
    return (
        f"{len(results)} piles, {n_adapted} adapted; of {len(by_cell)} cells {n_often} have more than 1.5 % that lost "
        f"more than 5 points ({max(shares):.1f} % at most), and {n_negative} lost on average"
    )
