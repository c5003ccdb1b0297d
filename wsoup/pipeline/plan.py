"""The plan of a run: every stage, whether it is cached, what it needs and how long it takes, and what breaks first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.check.whole import Params, parse_params
from wsoup.core.errors import DataError, MissingError, ParamsError
from wsoup.core.params.section import parse_yaml
from wsoup.pipeline import graph
from wsoup.pipeline.machine import Machine, devices, here
from wsoup.pipeline.needs import Need, Needs
from wsoup.pipeline.plan_texts import TEXTS, TOKENS
from wsoup.pipeline.world import Dataset, World, dataset, known_gpt
from wsoup.towers.encoder import weightless_encoder

PATIENCE_HOURS = 24 * 7
"""What takes longer is said to break."""
SPLIT = "a dataset's list and features are held whole; split it into several datasets"
SAMPLE = "features of all datasets are held at once; evaluate on a sample of the test images, or fewer datasets"
LESS_MEMORY = {
    "prepare": SPLIT,
    "embed": SPLIT,
    "embed_train": SPLIT,
    "evaluate": SAMPLE,
    "evaluate_tuned": SAMPLE,
    "survey": SAMPLE,
}
"""What to do where a stage's arrays do not fit; of the others "use a smaller pool"."""
FEWER_IMAGES = ", or a sample of the test images is enough for the interval that you want"
LESS_TIME = {"embed": FEWER_IMAGES, "evaluate_tuned": FEWER_IMAGES, "score": ", or score a smaller pool first"}


@dataclass(frozen=True)
class Line:
    """One stage of a plan.

    Attributes:
        stage: with its item.
        why: why it runs; None where it is cached.
        need: what it needs; None where that is nothing to speak of.
        hours: on each machine.
    """

    stage: str
    why: str | None
    need: Need | None
    hours: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """All stages in the order in which they run, the machines, and what is to be said of the whole."""

    lines: list[Line]
    machines: list[Machine]
    notes: list[str]
    breaks: list[str]


def plan(
    *,
    params_file: str | Path = "params.yaml",
    changes: Sequence[str] = (),
    device: str | None = None,
    count: int = 1,
    candidates: int | None = None,
    images: int | None = None,
    on: str | None = None,
) -> Plan:
    """Read params, pools and manifests, and tell what a run needs. No weights are read and nothing is computed.

    Args:
        params_file: what to take for the params.yaml beside dvc.yaml.
        changes: such as ``soups.word.k0=50``, made to params before anything else.
        device, count: also on so many of a device in `machine.DEVICES`.
        candidates: as if each pool held so many texts.
        images: as if there were so many test images, in the present proportions.
        on: torch device that this machine is measured on; None as the stages choose it.

    Raises:
        ParamsError: a change, a device or a number is not good.
        MissingError, DataError, ModelError: what even a plan needs is not there.
    """
    if any(number is not None and number < 1 for number in (candidates, images)):
        raise ParamsError("--candidates and --images must be 1 or more")
    text = graph.with_changes(params_file, changes)
    params = parse_params(parse_yaml(text, origin=str(params_file)), origin=str(params_file))
    why = graph.reasons(text)
    if images or candidates:
        why = dict.fromkeys(why, "as if")
    datasets, notes = _datasets(params, why=why, images=images)
    encoder = weightless_encoder(params.encoder)
    cached = frozenset(stage for stage, reason in why.items() if reason is None)
    needs = Needs(World(params, encoder, datasets, cached), candidates=candidates)
    files = [file for one in datasets.values() for file in one.files if Path(file).is_file()][:100]
    machines = [here(encoder, images=files, device=on)]
    if device is not None:
        core = machines[0].images_per_s / machines[0].processes
        machines.append(devices(device, count=count, precision=params.encoder.precision, images_per_s=core))
    lines = []
    for stage, reason in why.items():
        need = needs.of(stage)
        hours = tuple(m.hours(flops=need.flops, images=need.images) if need else 0.0 for m in machines)
        lines.append(Line(stage, reason, need, hours))
    notes = [*(f"{machine.name}: {machine.about}" for machine in machines), *notes]
    return Plan(lines, machines, notes, breaks(lines, machines))


def _datasets(
    params: Params, *, why: Mapping[str, str | None], images: int | None
) -> tuple[dict[str, Dataset], list[str]]:
    """Those that can be listed, with so many test images together, and a note on each of the others."""
    datasets, notes, gpt = {}, [], known_gpt()
    for name in params.datasets:
        try:
            datasets[name] = dataset(name, params, listed=not why[f"prepare@{name}"], gpt=gpt)
        except (MissingError, DataError) as error:
            notes.append(f"not in the plan: {name}: {error}")
    if images:
        factor = images / max(1, sum(one.n_test for one in datasets.values()))
        datasets = {name: replace(one, n_test=round(one.n_test * factor)) for name, one in datasets.items()}
    return datasets, notes


def breaks(lines: Sequence[Line], machines: Sequence[Machine]) -> list[str]:
    """What does not fit, in the order of the stages, each with what to do; the first one is what breaks first."""
    memory, free, machine = machines[0].memory, machines[0].disk, machines[-1]
    sentences, disk = [], 0
    for line in lines:
        if not line.why or not line.need:
            continue
        kind, hours = line.stage.partition("@")[0], line.hours[-1]
        disk += line.need.disk
        if memory and line.need.memory > memory:
            what = f"{gib(line.need.memory)} in memory, {gib(memory)} are here"
            sentences.append(f"{line.stage}: {what}: {LESS_MEMORY.get(kind, 'use a smaller pool')}")
        if hours > PATIENCE_HOURS:
            sentences.append(
                f"{line.stage}: {hours:,.0f} h on {machine.name}: WSOUP_EXECUTOR=ray on "
                f"{-(-hours // PATIENCE_HOURS):,.0f} times as many takes a week{LESS_TIME.get(kind, '')}"
            )
    if free is not None and disk > free:
        what = f"{gib(disk)} are written, {gib(free)} are free here"
        sentences.append(f"disk: {what}: put artifacts and .dvc/cache elsewhere")
    return sentences


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / 2**30:,.2f} GiB" if size < 2**40 else f"{size / 2**40:,.2f} TiB"


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
