"""What is printed: the short table at the end of a run."""

from __future__ import annotations

from wsoup.artifacts import PRETRAINED
from wsoup.report.accuracy import figures_beside
from wsoup.report.means import is_number, mean_and_std
from wsoup.report.results import Results
from wsoup.report.tables import MARK


def summary(results: Results) -> str:
    """Source, XD and DG mean of the main rows, ± standard deviation over seeds; H (harmonic mean) of base and new.

    A row that the paper has figures of, but under other settings, is marked, with the keys that differ below.
    """
    heads = [("source", "source"), ("XD mean", "xd"), ("DG mean", "dg")]
    shown = [(head, role) for head, role in heads if results.datasets(role)]
    titles = [head for head, _ in shown] + (["H"] if results.halves else [])
    figures, marked = figures_beside(results), set[str]()
    lines = [f"{'per cent':<44}" + "".join(f"{title:>15}" for title in titles)]
    for variant, row, cells in results.rows():
        if not (row.terminal if variant == PRETRAINED else row.terminal_tuned):
            continue
        label = row.label if variant == PRETRAINED else f"{variant}: {row.label}"
        why = figures.get((variant, row.key), set())
        marked |= why
        line = f"{label[:41]}{f' {MARK}' if why else '':<2}"
        line = f"{line:<44}"
        values = [cells.of(results.datasets(role)) for _, role in shown]
        values += [results.harmonic(cells)] if results.halves else []
        for by_seed in values:
            mean, deviation = mean_and_std(by_seed)
            line += f"{mean:>8.2f} ± {deviation:>4.2f}" if is_number(mean) else f"{'':>15}"
        lines.append(line)
    return "\n".join([*lines, *(f"{MARK} not comparable with the paper's: {why}" for why in sorted(marked))])
