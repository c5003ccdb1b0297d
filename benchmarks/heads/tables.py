"""Tables of judged folders, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.heads.folders import SHOTS, STRENGTHS
from benchmarks.heads.judging import ON_CLASS_NAME, ON_SOUP, Judged
from wsoup.photos.trial import CLASS_NAME, SOUP
from wsoup.statistics.advice import HEAD

BELOW = 5.0
"""Points below its texts that a head must not fall."""


def tables(results: Sequence[Judged]) -> list[str]:
    """All tables."""
    parts = []
    for strength in STRENGTHS:
        for equal in (True, False):
            some = [one for one in results if one.kind.strength == strength and one.kind.equal == equal]
            if some:
                title = f"texts strengthened by {strength:g}, {'equal' if equal else 'unequal'} classes"
                parts.append(f"{title}, {len(some)} folders\n\n{_table(some)}")
    parts.append(_thresholds(results))
    return parts


def _table(results: Sequence[Judged]) -> str:
    """One row for each classifier and style, one column for each number of shots."""
    by_shots = []
    for shots in SHOTS:
        some = [one for one in results if one.kind.shots == shots]
        if some:
            by_shots.append(some)
    lines = [_row("", [str(some[0].kind.shots) for some in by_shots]), "|---" * (len(by_shots) + 1) + "|"]
    for row in results[0].own:
        lines.append(_row(f"own style: {row}", [_mean([one.own[row] for one in some]) for some in by_shots]))
    for row in results[0].own:
        cells = []
        for some in by_shots:
            cells.append(_mean([one.styles[row] for one in some if one.styles]))
        lines.append(_row(f"other styles: {row}", cells))
    for head, texts in ((ON_CLASS_NAME, CLASS_NAME), (ON_SOUP, SOUP)):
        title = f"{head} more than {BELOW:g} points below its texts, % of folders (worst)"
        lines.append(_row(title, [_below(some, head=head, texts=texts) for some in by_shots]))
    within = [_mean([100 * one.within_noise for one in some]) for some in by_shots]
    lines.append(_row("what try recommends is the best or within noise of it, %", within))
    named = [_mean([100 * (one.use == HEAD) for one in some]) for some in by_shots]
    lines.append(_row("try recommends the head, %", named))
    return "\n".join(lines)


def _row(title: str, cells: Sequence[str]) -> str:
    return " | ".join([f"| {title}", *cells]) + " |"


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{np.mean(values):.1f}"


def _below(some: Sequence[Judged], *, head: str, texts: str) -> str:
    """The share of folders in which a head is far below its own texts, and the worst."""
    lost = np.array([one.own[texts] - one.own[head] for one in some])
    return f"{100 * (lost > BELOW).mean():.1f} ({lost.max():.1f})"


def _thresholds(results: Sequence[Judged]) -> str:
    """How right the answers above a head's threshold are, with texts as they are."""
    lines = []
    for side in ("own", "styles"):
        counts = [one.answered[side] for one in results if one.kind.strength == 0 and one.answered[side][0]]
        if not counts:
            continue
        n_images, n_answered, n_right = np.sum(counts, axis=0)
        n_silent = sum(answered == 0 for _, answered, _ in counts)
        right = 100 * n_right / max(1, n_answered)
        lines.append(
            f"threshold(0.95), {side}: {right:.1f} % right of the {100 * n_answered / n_images:.1f} % answered; "
            f"{n_silent} of {len(counts)} fits answer nothing"
        )
    return "\n".join(lines)
