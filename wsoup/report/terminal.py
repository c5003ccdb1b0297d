"""What is printed: the short table at the end of a run, and gains on every target."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import TableRow, soup_title
from wsoup.report.accuracy import figures_beside
from wsoup.report.judgement import Judgement
from wsoup.report.means import MEANS, PLACES, is_number, mean_and_std
from wsoup.report.results import Cells, Results
from wsoup.report.tables import MARK, signed
from wsoup.report.verdict import ALL_SEEDS, OVER, verdict_table

WIDTH = 100
"""Columns beyond this begin a new block of lines."""
LABEL = 34


def summary(results: Results) -> str:
    """Source, XD and DG mean of the main rows, ± standard deviation over seeds; H (harmonic mean) of base and new.

    A row that the paper has figures of, but under other settings, is marked, with the keys that differ below.
    """
    shown = [(title, role) for role, title in PLACES.items() if results.datasets(role)]
    titles = [head for head, _ in shown] + (["H"] if results.halves else [])
    figures, marked = figures_beside(results), set[str]()
    lines = [f"{'per cent':<44}" + "".join(f"{title:>15}" for title in titles)]
    for label, key, cells in _rows(results):
        why = figures.get(key, set())
        marked |= why
        values = [cells.of(results.datasets(role)) for _, role in shown]
        values += [results.harmonic(cells)] if results.halves else []
        figure = "".join(_figure(*mean_and_std(by_seed)) for by_seed in values)
        lines.append(f"{label[:41] + (f' {MARK}' if why else ''):<44}{figure}")
    return "\n".join([*lines, *(f"{MARK} not comparable with the paper's: {why}" for why in sorted(marked))])


def _figure(mean: float, deviation: float) -> str:
    return f"{mean:>8.2f} ± {deviation:>4.2f}" if is_number(mean) else f"{'':>15}"


def per_target(results: Results) -> str:
    """The main rows everywhere: per cent, and in brackets the points gained over the class name only."""
    plain = results.class_name
    columns = [(title, results.datasets(role)) for role, title in PLACES.items() if results.datasets(role)]
    columns += [(name[:16], [name]) for role in MEANS for name in results.datasets(role)]
    if plain is None:
        return ""
    fitting = max(1, (WIDTH - LABEL) // 17)
    blocks = []
    for start in range(0, len(columns), fitting):
        part = columns[start : start + fitting]
        head = "per cent (gain over class name)" if start == 0 else ""
        lines = [f"{head:<{LABEL}}" + "".join(f"{title:>17}" for title, _ in part)]
        lines += [
            f"{label[: LABEL - 1]:<{LABEL}}"
            + "".join(f"{_with_gain(cells.of(names), base=plain.of(names)):>17}" for _, names in part)
            for label, _, cells in _rows(results)
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _rows(results: Results) -> Iterator[tuple[str, tuple[str, str], Cells]]:
    """The main rows: as they are called here, their (variant, key), and their cells."""
    for variant, row, cells in results.rows():
        if row.terminal if variant == PRETRAINED else row.terminal_tuned or variant in results.heads:
            label = said(row) if variant == PRETRAINED else f"{variant}: {said(row)}"
            yield label, (variant, row.key), cells


def said(row: TableRow) -> str:
    """What a row is called outside of the paper's tables: in plain words, and a soup with its mode."""
    if row.method.soup is None:
        return row.plain or row.label
    mode = "score mean" if row.mode == "score_mean" else "centroid"
    return f"{row.label.removesuffix(' score mean')}, {mode}"


def _with_gain(values: np.ndarray, *, base: np.ndarray) -> str:
    """30.86 (+1.20), and the class name's own without a gain."""
    mean, _ = mean_and_std(values)
    if not is_number(mean):
        return ""
    gain = mean - mean_and_std(base)[0]
    return f"{mean:.2f}" + (" " * 8 if np.array_equal(values, base) or not is_number(gain) else f" ({signed(gain)})")


def verdicts(judgement: Judgement) -> str:
    """Every soup over the class name alone, the run's own first, also over the templates: gain, interval and verdict.

    All other comparisons are in the table of verdicts.
    """
    table = verdict_table(judgement)
    shown = [row for row in table.rows if row["over"] == OVER["class_name"] or row["soup"].endswith(ALL_SEEDS)]
    labels = [f"{row['soup']} over {row['over']}: {row['on']}" for row in shown]
    width = max(map(len, labels))
    lines = [f"{f'points, {judgement.confidence:.0%} interval':<{width}}{'gain':>8}"]
    for label, row in zip(labels, shown, strict=True):
        interval = f"({signed(row['low'])} to {signed(row['high'])})"
        lines.append(f"{label:<{width}}{signed(row['gain']):>8} {interval:<20} {row['verdict']}")
    if judgement.optimism:
        lost = ", ".join(f"{soup_title(one.soup)} {one.excess:+.2f}" for one in judgement.optimism)
        lines.append(f"optimism, points lost from selection images to held-out ones beyond the class name's: {lost}")
    lines.append(f"better, worse, noise: see reports/tables/verdict.md, which has all {len(table.rows)} comparisons")
    return "\n".join(lines)
