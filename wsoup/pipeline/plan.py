"""The plan of a run: every stage, whether it is cached, what it needs, how long it takes, and what breaks first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsoup.check.whole import parse_params
from wsoup.core.errors import ParamsError
from wsoup.params.base.section import read_yaml
from wsoup.pipeline import graph
from wsoup.pipeline.machine import Machine, here, named
from wsoup.pipeline.needs import Need, Steps
from wsoup.pipeline.plan_images import Dataset, dataset, total
from wsoup.towers.encoder import weightless_encoder

PATIENCE_HOURS = 24 * 7
"""What takes longer is said to break."""


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
        params_file: read in the folder of dvc.yaml.
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
    raw = graph.with_changes(read_yaml(params_file), changes)
    params = parse_params(raw, origin=str(params_file))
    stages = graph.read_stages(raw)
    running = graph.to_run(stages, raw, changed_files=graph.changed_files())
    if images or candidates:
        running = {stage.name: "as if" for stage in stages}
    encoder = weightless_encoder(params.encoder)
    found = {name: dataset(name, params, listed=f"prepare@{name}" not in running) for name in params.datasets}
    listed = [d for d in found.values() if d.problem is None]
    factor = images / max(1, total(listed)) if images else 1.0
    cached = {stage.name for stage in stages} - running.keys()
    steps = Steps(params, encoder=encoder, datasets=found, cached=cached.__contains__, images=factor)
    if candidates:
        steps.more = {name: candidates / len(pool) for name, pool in steps.pools.items()}
    machines = [here(encoder, images=_files(listed), device=on)]
    if device is not None:
        core = machines[0].images_per_s / _processes(machines[0])
        machines.append(named(device, count=count, precision=params.encoder.precision, images_per_s=core))
    lines = []
    for stage in stages:
        need = steps.of(stage.name)
        hours = tuple(m.hours(flops=need.flops, images=need.images) if need else 0.0 for m in machines)
        lines.append(Line(stage.name, running.get(stage.name), need, hours))
    notes = [f"{m.name}: {m.about}" for m in machines]
    notes += [f"not in the plan: {d.name}: {d.problem}" for d in found.values() if d.problem]
    return Plan(lines, machines, notes, breaks(lines, machines))


def breaks(lines: Sequence[Line], machines: Sequence[Machine]) -> list[str]:
    """What does not fit, in the order of the stages, each with what to do; the first one is what breaks first."""
    found, machine = [], machines[-1]
    memory, free = machines[0].memory, machines[0].disk
    running = [line for line in lines if line.why and line.need]
    for line in running:
        need: Any = line.need
        if memory and need.memory > memory:
            what = f"{gib(need.memory)} in memory, {gib(memory)} are here"
            found.append(f"{line.stage}: {what}: {_less_memory(line.stage)}")
        if line.hours[-1] > PATIENCE_HOURS:
            more = -(-line.hours[-1] // PATIENCE_HOURS)
            found.append(
                f"{line.stage}: {line.hours[-1]:,.0f} h on {machine.name}: WSOUP_EXECUTOR=ray on {more:,.0f} times as "
                f"many takes a week{_fewer(line.stage)}"
            )
    disk = sum(line.need.disk for line in running if line.need)
    if free is not None and disk > free:
        what = f"{gib(disk)} are written, {gib(free)} are free here"
        found.append(f"disk: {what}: put artifacts and .dvc/cache elsewhere")
    return found


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / 2**30:,.2f} GiB" if size < 2**40 else f"{size / 2**40:,.2f} TiB"


def _less_memory(stage: str) -> str:
    kind = stage.partition("@")[0]
    if kind in ("prepare", "embed", "embed_train"):
        return "a dataset's list and features are held whole; split it into several datasets"
    if kind in ("evaluate", "evaluate_tuned", "survey"):
        return "features of all datasets are held at once; evaluate on a sample of the test images, or fewer datasets"
    return "use a smaller pool"


def _fewer(stage: str) -> str:
    kind = stage.partition("@")[0]
    if kind in ("embed", "evaluate_tuned"):
        return ", or a sample of the test images is enough for the interval that you want"
    return ", or score a smaller pool first" if kind == "score" else ""


def _files(datasets: Sequence[Dataset]) -> list[str]:
    """Some images that are files of their own."""
    return [file for found in datasets for file in found.files[:20] if Path(file).is_file()][:100]


def _processes(machine: Machine) -> int:
    """Decoding processes of this machine."""
    from wsoup.images.decode import decoding_workers

    return max(1, decoding_workers())
