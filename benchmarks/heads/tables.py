"""Tables of judged folders, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

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
    for cone, strength, equal in product(_cones(results), STRENGTHS, (True, False)):
        some = [one for one in results if one.kind == replace(one.kind, cone=cone, strength=strength, equal=equal)]
        if some:
            title = f"cone {cone:g}, texts strengthened by {strength:g}, {'equal' if equal else 'unequal'} classes"
            parts.append(f"{title}, {len(some)} folders\n\n{_table(some)}")
    for cone in _cones(results):
        some = [one for one in results if one.kind.cone == cone]
        parts.append(f"cone {cone:g}, {len(some)} folders\n\n{_thresholds(some)}")
    for side in ("own", "styles"):
        with_photos = [one for one in results if getattr(one, side)]
        if with_photos:
            parts.append(_cells(with_photos, side=side))
    return parts


def _cones(results: Sequence[Judged]) -> list[float]:
    return sorted({one.kind.cone for one in results})


def _cells(results: Sequence[Judged], *, side: str) -> str:
    """Head and texts by kind of folder, one column for each cone."""
    groups = {"all": list(results)}
    for strength in STRENGTHS:
        groups[f"texts strengthened by {strength:g}"] = [one for one in results if one.kind.strength == strength]
    for shots in SHOTS:
        groups[f"{shots} photos a class"] = [one for one in results if one.kind.shots == shots]
    for source in sorted({one.source.split(",")[0] for one in results}):
        groups[Path(source).name] = [one for one in results if one.source.split(",")[0] == source]
    cones = _cones(results)
    title = "own style" if side == "own" else "other styles"
    lines = [
        f"{title}: texts, head, folders whose head is more than {BELOW:g} points below its texts in % (worst)\n",
        _row("", [f"cone {cone:g}" for cone in cones]),
        "|---" * (len(cones) + 1) + "|",
    ]
    for name, group in groups.items():
        by_cone = [[one for one in group if one.kind.cone == cone] for cone in cones]
        if group:
            lines.append(_row(name, [_cell(some, side=side) for some in by_cone]))
    return "\n".join(lines)


def _cell(some: Sequence[Judged], *, side: str) -> str:
    texts = [getattr(one, side)[CLASS_NAME] for one in some]
    heads = [getattr(one, side)[ON_CLASS_NAME] for one in some]
    lost = np.array(texts) - np.array(heads)
    return f"{_mean(texts)}, {_mean(heads)}, {100 * (lost > BELOW).mean():.1f} ({lost.max():.1f})"


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
