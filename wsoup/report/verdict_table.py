"""The table of verdicts: the answer's gains, then every soup against each of its rivals."""

from wsoup.report.answer import RunAnswer
from wsoup.report.labels import soup_title
from wsoup.report.results import PLACES
from wsoup.report.sentences import about_intervals
from wsoup.report.tables import Table, TableCells, interval_of
from wsoup.report.verdict import NO_GAIN, RIVALS, SoupVerdict
from wsoup.statistics.noise import Verdict
from wsoup.statistics.words import worded

OTHERS = "other datasets"
TOGETHER = "compared together"
TOO_FEW = "too few datasets"
COLUMNS = (
    "soup",
    "over",
    "on",
    "gain",
    "low",
    "high",
    "verdict",
    "p",
    TOGETHER,
    "depends on",
    "low, other datasets",
    "high, other datasets",
    "verdict, other datasets",
)
WORDED = "verdict, worded"
"""What no file has: the verdict with a word on how near its border it is."""
ON_PAGE = ("soup", "over", "on", "gain", "verdict", "p")


def verdict_table(judged: RunAnswer) -> Table:
    """The answer's rows, then every comparison: gain, intervals, p values."""
    rows = _answers_rows(judged)
    for comparison in judged.comparisons:
        rows.append(_soups_row(comparison, judged=judged))
    notes = [*_notes(judged), f"{TOGETHER}: for how many comparisons p and the interval are corrected."]
    return Table("verdict", "Is it more than noise?", columns=COLUMNS, rows=rows, notes=notes)


def by_question(judged: RunAnswer) -> list[Table]:
    """The same for the page: the answer's comparisons, then a table for each soup; intervals beside their gains."""
    answers = _answers_rows(judged)
    tables = [
        Table("verdict", "The answer", columns=ON_PAGE, rows=[_on_page(row) for row in answers], notes=_notes(judged))
    ]
    by_soup: dict[str, list[TableCells]] = {}
    for comparison in judged.comparisons:
        row = _soups_row(comparison, judged=judged)
        by_soup.setdefault(comparison.soup, []).append(_on_page(row))
    for soup, rows in by_soup.items():
        columns = [*ON_PAGE[1:], "depends on", OTHERS]
        tables.append(Table(f"verdict_{soup}", _title(soup, judged=judged), columns=columns, rows=rows))
    return tables


def _on_page(row: TableCells) -> TableCells:
    """A row whose intervals stand beside their gains."""
    shown = dict(row)
    shown["gain (interval)"] = interval_of(row["low"], row["high"])
    shown["verdict"] = row[WORDED]
    interval = interval_of(row.get(f"low, {OTHERS}"), row.get(f"high, {OTHERS}"))
    shown[OTHERS] = f"{row.get(f'verdict, {OTHERS}', '')} {interval}".strip()
    return shown


def _answers_rows(judged: RunAnswer) -> list[TableCells]:
    rows: list[TableCells] = []
    over = {"class_name": RIVALS["class_name"], "templates": RIVALS["ensemble"], "soup": judged.title("soup")}
    over["without"] = f"{judged.without}, finetuned"
    for role, answer in judged.answers.items():
        for (row, other), gain in answer.gains.items():
            what = {"soup": judged.title(row), "over": over[other], "on": PLACES[role]}
            rows.append(what | _cells(gain))
    return rows


def _soups_row(comparison: SoupVerdict, *, judged: RunAnswer) -> TableCells:
    what = {
        "soup": _title(comparison.soup, judged=judged),
        "over": RIVALS[comparison.rival],
        "on": PLACES[comparison.role],
    }
    cells = _cells(comparison.fixed)
    cells["depends on"] = comparison.depends_on or ""
    return what | cells | _over_datasets(comparison.resampled)


def _title(soup: str, *, judged: RunAnswer) -> str:
    """A soup judged seed by seed; the run's own stands above with all seeds, which is another comparison."""
    title = soup_title(soup)
    return f"{title}, mean over seeds" if soup == judged.soup else title


def _cells(verdict: Verdict) -> dict[str, object]:
    cells: dict[str, object] = {"gain": verdict.mean, "low": verdict.low, "high": verdict.high, "p": verdict.p}
    return cells | {"verdict": verdict.word, WORDED: worded(verdict), TOGETHER: verdict.together}


def _over_datasets(verdict: Verdict | None) -> dict[str, object]:
    """What other datasets would give; empty for a single dataset."""
    if verdict is None:
        return {}
    # Two datasets that differ say nothing about a third: points cannot lie outside these bounds anyway. Nor do a few
    # whose gains happen to be equal, such as one image of each: that would be an interval without a width.
    is_unbounded = verdict.low <= -100 and verdict.high >= 100
    if is_unbounded or verdict.low == verdict.high != 0:
        return {f"verdict, {OTHERS}": TOO_FEW}
    return {
        f"low, {OTHERS}": verdict.low,
        f"high, {OTHERS}": verdict.high,
        f"verdict, {OTHERS}": verdict.word,
    }


def _notes(judged: RunAnswer) -> list[str]:
    soup = soup_title(judged.soup)
    return [
        f"Gain in points with its {judged.confidence:.0%} interval (low to high) over images and seeds, "
        "datasets held fixed: what other images of these datasets would give.",
        "Other datasets: the same with datasets resampled, which is what other datasets of this kind would give.",
        f"The answer's lines come first: the {soup} that this run is about (report.soup), with the members of all "
        "seeds together, and what stands beside it. On each place its own comparisons are corrected together (Holm), "
        "and so are the others.",
        about_intervals(judged),
        "All other lines are means over seeds; their p and intervals are corrected (Holm) for the rivals of one soup "
        "on one place.",
        f"The {soup} is judged as a {judged.mode.replace('_', ' ')}.",
        "Source: its test images. XD: datasets with other classes. DG: the source's classes in other styles.",
        "Depends on: the one dataset without which the verdict would be noise or the gain would change sign.",
        f"{NO_GAIN}: better than its rival, but not better than the class name only.",
    ]
