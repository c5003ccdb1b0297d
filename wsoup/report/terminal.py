"""What `wsoup results` and stage `report` print: accuracies, gains on every target, verdicts and the headline."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wsoup.check.whole import load_params
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE
from wsoup.report.accuracy import figures_beside
from wsoup.report.labels import TableRow, soup_title
from wsoup.report.reading import as_written
from wsoup.report.results import MEANS, PLACES, Cells, Results, is_number, mean_and_std
from wsoup.report.run import costs, load_run
from wsoup.report.tables import MARK, signed
from wsoup.report.verdict import Judgement, MainVerdict, verdict_table

WIDTH = 100
"""Columns of a block of lines; further targets begin a new block."""
LABEL = 34
COSTS = {
    "seconds": "seconds",
    "images_seconds": "images",
    "texts_seconds": "texts",
    "images_gflops": "GFLOPs images",
    "texts_gflops": "GFLOPs texts",
}
"""Columns of `costs` and their titles."""


def whole_run(params_file: str | Path) -> str:
    """All that `wsoup results` prints about the run in the working folder.

    Raises:
        MissingError, MismatchError: a stage has not run, or one of its files is not as it was written.
    """
    params = load_params(params_file)
    with as_written():
        run = load_run(params, artifacts=Artifacts())
        parts = [summary(run.results), per_target(run.results), verdicts(run.judgement), headline(run.judgement)]
        parts += [costs_shown(store.cache_dir() / "timings.jsonl")]
    return "\n\n".join(part for part in parts if part)


def summary(results: Results) -> str:
    """Source, XD and DG mean of the main rows, ± standard deviation over seeds.

    A row that the paper has under other settings is marked; the keys that differ are listed below.
    """
    columns = [(title, results.datasets(role)) for role, title in PLACES.items() if results.datasets(role)]
    titles = [title for title, _ in columns]
    reasons_by_row, marked = figures_beside(results), set[str]()
    lines = [f"{'per cent':<44}" + "".join(f"{title:>15}" for title in titles)]
    for label, key, cells in _rows(results):
        reasons = reasons_by_row.get(key, set())
        marked |= reasons
        values = [cells.of(names) for _, names in columns]
        figures = "".join(_figure(*mean_and_std(by_seed)) for by_seed in values)
        lines.append(f"{label[:41] + (f' {MARK}' if reasons else ''):<44}{figures}")
    return "\n".join([*lines, *(f"{MARK} not comparable with the paper's: {why}" for why in sorted(marked))])


def _figure(mean: float, deviation: float) -> str:
    return f"{mean:>8.2f} ± {deviation:>4.2f}" if is_number(mean) else f"{'':>15}"


def per_target(results: Results) -> str:
    """The main rows on every target: per cent, and in brackets the points gained over the class name only."""
    base = results.class_name
    if base is None:
        return ""
    columns = [(title, results.datasets(role)) for role, title in PLACES.items() if results.datasets(role)]
    columns += [(name[:16], [name]) for role in MEANS for name in results.datasets(role)]
    per_block = (WIDTH - LABEL) // 17
    blocks = []
    for start in range(0, len(columns), per_block):
        block = columns[start : start + per_block]
        head = "per cent (gain over class name)" if start == 0 else ""
        lines = [f"{head:<{LABEL}}" + "".join(f"{title:>17}" for title, _ in block)]
        lines += [
            f"{label[: LABEL - 1]:<{LABEL}}"
            + "".join(f"{_with_gain(cells.of(names), base=base.of(names)):>17}" for _, names in block)
            for label, _, cells in _rows(results)
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _rows(results: Results) -> Iterator[tuple[str, tuple[str, str], Cells]]:
    """The main rows: label, (variant, key) and cells."""
    for variant, row, cells in results.rows():
        if row.terminal if variant == PRETRAINED else row.terminal_tuned or variant in results.heads:
            label = plain_label(row) if variant == PRETRAINED else f"{variant}: {plain_label(row)}"
            yield label, (variant, row.key), cells


def plain_label(row: TableRow) -> str:
    """Label of a row outside the paper's tables: in plain words, a soup with its mode."""
    if row.method.soup is None:
        return row.plain or row.label
    return f"{row.label.removesuffix(' score mean')}, {row.mode.replace('_', ' ')}"


def _with_gain(values: np.ndarray, *, base: np.ndarray) -> str:
    """30.86 (+1.20); the class name's own without a gain."""
    mean, _ = mean_and_std(values)
    if not is_number(mean):
        return ""
    gain = mean - mean_and_std(base)[0]
    return f"{mean:.2f}" + (" " * 8 if np.array_equal(values, base) or not is_number(gain) else f" ({signed(gain)})")


def verdicts(judgement: Judgement) -> str:
    """Gain, interval and verdict of every soup over the class name alone, and of the run's own over the templates.

    All other comparisons are in the table of verdicts.
    """
    table = verdict_table(judgement)
    rows = [row for row in table.rows if not row.get("is extra")]
    labels = [f"{row['soup']} over {row['over']}: {row['on']}" for row in rows]
    width = max(map(len, labels))
    lines = [f"{f'points, {judgement.confidence:.0%} interval':<{width}}{'gain':>8}"]
    for label, row in zip(labels, rows, strict=True):
        interval = f"({signed(row['low'])} to {signed(row['high'])})"
        lines.append(f"{label:<{width}}{signed(row['gain']):>8} {interval:<20} {row['verdict']}")
    if judgement.optimism:
        excess = ", ".join(f"{soup_title(each.soup)} {each.excess:+.2f}" for each in judgement.optimism)
        lines.append(f"optimism, points lost from selection images to held-out ones beyond the class name's: {excess}")
    lines.append(f"better, worse, noise: see reports/tables/verdict.md, which has all {len(table.rows)} comparisons")
    return "\n".join(lines)


def headline(judgement: Judgement) -> str:
    """The answer of a run in at most three sentences: what to use; the source's held-out images; all targets."""
    source = judgement.source.datasets[0]
    sentences = [f"{_advice(judgement)}.", f"Test images of {source}: {_compared(judgement.source)}."]
    if judgement.targets is not None:
        others = judgement.targets.datasets
        place = others[0] if len(others) == 1 else f"{len(others)} other datasets"
        sentences.append(f"{place[0].upper()}{place[1:]}: {_compared(judgement.targets)}.")
    return " ".join(sentences)


def _advice(judgement: Judgement) -> str:
    """By the verdicts over the class name alone, unless the templates beat the soup."""
    soup = f"`{judgement.soup}`"
    if _templates_win(judgement):
        return f"Use the 80 prompt templates: they beat {soup} by more than noise"
    words = [verdict.over[CLASS_NAME.name].word for verdict in judgement.main]
    if "better" not in words:
        return f"Keep the class name alone: {soup} {'is worse' if 'worse' in words else 'gains nothing beyond noise'}"
    use = f"Use {soup}, {judgement.mode.replace('_', ' ')} of all seeds"
    if "worse" not in words:
        return use
    good, bad = ("the source", "other datasets") if words[0] == "better" else ("other datasets", "the source")
    return f"{use}, for {good} and the class name alone for {bad}"


def _templates_win(judgement: Judgement) -> bool:
    """Whether a soup loses to them somewhere, wins nowhere, and they beat the class name alone where it loses."""
    name = ENSEMBLE.name
    compared = [verdict for verdict in judgement.main if name in verdict.over]
    losses = [verdict for verdict in compared if verdict.over[name].word == "worse"]
    wins = any(verdict.over[name].word == "better" for verdict in compared)
    above = all(loss.rival_accuracy[name] > loss.rival_accuracy[CLASS_NAME.name] for loss in losses)
    return bool(losses) and not wins and above


def _compared(main: MainVerdict) -> str:
    """45.6 % instead of 46.0 %, -0.4 points [-1.9, +1.1]: no difference that this run can tell from noise."""
    verdict, class_name = main.over[CLASS_NAME.name], main.rival_accuracy[CLASS_NAME.name]
    gain, low, high = (signed(points, places=1) for points in (verdict.mean, verdict.low, verdict.high))
    text = f"{main.accuracy:.1f} % instead of {class_name:.1f} %, {gain} points [{low}, {high}]"
    if not verdict.sure:
        return f"{text}: no difference that this run can tell from noise"
    return f"{text}, more than noise" + (f", but not without {main.hangs_on}" if main.hangs_on else "")


def costs_shown(path: Path) -> str:
    """Costs of this run's stages as a table; empty if no stage noted any."""
    rows = costs(path)
    lines = [f"{'seconds of stages here':<24}" + "".join(f"{title:>15}" for title in COSTS.values())]
    lines += [f"{row['stage']:<24}" + "".join(f"{row[key]:>15,.1f}" for key in COSTS) for row in rows]
    return "\n".join(lines) if rows else ""
