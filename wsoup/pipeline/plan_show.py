"""A plan as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.pipeline.plan import Line, Plan, gib
from wsoup.pipeline.plan_texts import TEXTS, TOKENS


def show(plan: Plan, console: Console) -> None:
    """One line a stage that runs, the sum, what is cached, and what breaks first."""
    running = [line for line in plan.lines if line.why]
    if running:
        console.print(_table(plan, running), highlight=False)
    cached = [line.stage for line in plan.lines if not line.why]
    estimates = dict.fromkeys(f"~ {line.need.why}" for line in running if line.need and line.need.why)
    for text in (f"cached: {', '.join(cached) or 'nothing'}", *plan.notes, *estimates):
        console.print(text, highlight=False, markup=False)
    for i, text in enumerate(plan.breaks):
        console.print(f"{'then' if i else 'breaks first'}: {text}", style="bold", highlight=False, markup=False)


def _table(plan: Plan, running: list[Line]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("why", overflow="fold")
    for column in ("texts", "tokens", "TFLOP", "images", "disk", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for machine in plan.machines:
        table.add_column(f"h {machine.name}", justify="right")
    for line in running:
        table.add_row(*map(escape, _cells(line)))
    hours = [_hours(sum(on_one)) for on_one in zip(*(line.hours for line in running), strict=True)]
    disk = sum(line.need.disk for line in running if line.need)
    table.add_row("all", "", "", "", "", "", gib(disk), "", *hours, style="bold")
    return table


def _cells(line: Line) -> list[str]:
    need = line.need
    if need is None:
        return [line.stage, str(line.why), *[""] * (6 + len(line.hours))]
    mark = "~" if need.why else ""
    return [
        line.stage,
        str(line.why),
        *(_range(*need.text[:, column].tolist(), mark=mark) for column in (TEXTS, TOKENS)),
        f"{mark}{need.flops / 1e12:,.3g}" if need.flops else "",
        f"{need.images:,}" if need.images else "",
        gib(need.disk) if need.disk else "",
        gib(need.memory) if need.memory else "",
        *map(_hours, line.hours),
    ]


def _range(least: float, most: float, *, mark: str) -> str:
    if not most:
        return ""
    return f"{mark}{most:,.0f}" if least == most else f"{mark}{least:,.0f} to {most:,.0f}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
