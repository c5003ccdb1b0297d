"""A plan as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.pipeline.plan import Line, Plan, gib
from wsoup.pipeline.plan_texts import Count


def show(plan: Plan, console: Console) -> None:
    """One line a stage that runs, the sum, what is cached, and what breaks first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("why", overflow="fold")
    for column in ("texts", "tokens", "TFLOP", "images", "disk", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for machine in plan.machines:
        table.add_column(f"h {machine.name}", justify="right")
    running = [line for line in plan.lines if line.why]
    for line in running:
        table.add_row(*map(escape, _cells(line)))
    hours = [_shown_hours(sum(line.hours[i] for line in running)) for i in range(len(plan.machines))]
    disk = sum(line.need.disk for line in running if line.need)
    table.add_row("all", "", "", "", "", "", gib(disk), "", *hours, style="bold")
    if running:
        console.print(table, highlight=False)
    cached = [line.stage for line in plan.lines if not line.why]
    console.print(f"cached: {', '.join(cached) or 'nothing'}", highlight=False, markup=False)
    why = dict.fromkeys(line.need.why for line in running if line.need and line.need.why)
    for note in [*plan.notes, *(f"~ {reason}" for reason in why)]:
        console.print(note, highlight=False, markup=False)
    for i, text in enumerate(plan.breaks):
        console.print(f"{'breaks first' if i == 0 else 'then'}: {text}", style="bold", highlight=False, markup=False)


def _cells(line: Line) -> list[str]:
    need = line.need
    if need is None:
        return [line.stage, str(line.why), "", "", "", "", "", "", *("" for _ in line.hours)]
    rough = "~" if need.why else ""
    return [
        line.stage,
        str(line.why),
        _range(need.text, "texts"),
        _range(need.text, "tokens"),
        f"{rough}{need.flops / 1e12:,.3g}" if need.flops else "",
        f"{need.images:,}" if need.images else "",
        gib(need.disk) if need.disk else "",
        gib(need.memory) if need.memory else "",
        *map(_shown_hours, line.hours),
    ]


def _shown_hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def _range(count: Count, name: str) -> str:
    low, high = getattr(count, name)
    if not high:
        return ""
    mark = "" if count.exact else "~"
    return f"{mark}{high:,}" if low == high else f"{mark}{low:,} to {high:,}"
