"""`wsoup plan`: every stage of a run, whether it is cached, what it needs, how long it takes, and what breaks first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.check.whole import Params, parse_params
from wsoup.datasets import layouts, manifest
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.testsets import TestSet
from wsoup.params.section import parse_yaml
from wsoup.pipeline import graph
from wsoup.pipeline.machine import Machine, devices, here
from wsoup.pipeline.needs import Dataset, Need, Needs
from wsoup.pipeline.plan_texts import TEXTS, TOKENS
from wsoup.towers.encoder import imagenet_class_names, weightless_encoder

FILES_SAMPLED = 20
"""Images of each dataset that may be used to time decoding."""
PATIENCE_HOURS = 24 * 7
"""A stage that takes longer counts as breaking."""
SPLIT = "a dataset's list and features are held in memory whole; split it into several datasets"
SAMPLE = "features of all datasets are held in memory at once; evaluate on fewer test images or datasets"
LESS_MEMORY = {
    "prepare": SPLIT,
    "embed": SPLIT,
    "embed_train": SPLIT,
    "evaluate": SAMPLE,
    "evaluate_tuned": SAMPLE,
    "survey": SAMPLE,
}
"""What to do if a stage's arrays do not fit; for other stages "use a smaller pool"."""
FEWER_IMAGES = ", or a sample of the test images is enough for the interval that you want"
LESS_TIME = {"embed": FEWER_IMAGES, "evaluate_tuned": FEWER_IMAGES, "score": ", or score a smaller pool first"}


@dataclass(frozen=True)
class Line:
    """One stage of a plan.

    Attributes:
        stage: with its item.
        why: why it runs; None if it is cached.
        need: what it needs.
        hours: on each machine.
    """

    stage: str
    why: str | None
    need: Need
    hours: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """All stages in the order in which they run, the machines, notes, and what breaks."""

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
    """Estimate a run from params, pools and manifests, without reading weights or computing results.

    Args:
        params_file: taken for the params.yaml beside dvc.yaml.
        changes: such as ``soups.word.k0=50``, made to params first.
        device, count: also estimate for this many of a device in `machine.DEVICES`.
        candidates: pretend that each pool has this many texts.
        images: pretend that there are this many test images, in the present proportions.
        on: torch device on which this machine is measured; None: as the stages choose it.

    Raises:
        ParamsError: a change, a device or a number is not valid.
        MissingError, DataError, ModelError: something that even a plan needs is missing.
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
    needs = Needs(params, encoder=encoder, datasets=datasets, cached=cached, candidates=candidates)
    files = [file for dataset in datasets.values() for file in dataset.files if Path(file).is_file()][:100]
    machines = [here(encoder, images=files, device=on)]
    if device is not None:
        per_core = machines[0].images_per_s / machines[0].processes
        machines.append(devices(device, count=count, precision=params.encoder.precision, images_per_s=per_core))
    lines = []
    for stage, reason in why.items():
        need = needs.of(stage)
        hours = tuple(machine.hours(flops=need.flops, images=need.images) for machine in machines)
        lines.append(Line(stage, reason, need, hours))
    notes = [*(f"{machine.name}: {machine.about}" for machine in machines), *notes]
    return Plan(lines, machines, notes, breaks(lines, machines))


def _datasets(
    params: Params, *, why: Mapping[str, str | None], images: int | None
) -> tuple[dict[str, Dataset], list[str]]:
    """The datasets that can be listed, scaled to `images` test images in all, and a note on each of the others."""
    datasets, notes = {}, []
    evaluated = Artifacts().evaluated
    known = store.read_json(evaluated)["datasets"] if evaluated.exists() else []
    gpt = {dataset["name"]: dataset["gpt"] for dataset in known}
    for name in params.datasets:
        try:
            datasets[name] = _dataset(name, params, listed=not why[f"prepare@{name}"], gpt=gpt.get(name))
        except (MissingError, DataError) as error:
            notes.append(f"not in the plan: {name}: {error}")
    if images:
        factor = images / max(1, sum(dataset.n_test for dataset in datasets.values()))
        datasets = {name: replace(dataset, n_test=round(dataset.n_test * factor)) for name, dataset in datasets.items()}
    return datasets, notes


def _dataset(name: str, params: Params, *, listed: bool, gpt: Any) -> Dataset:
    """One dataset, from its manifest if that is up to date (`listed`), otherwise from its files.

    Raises:
        MissingError, DataError: it cannot be listed.
    """
    section, path = params.datasets[name], Artifacts().manifest(name)
    if listed and path.exists():
        table, attributes = store.read_table(path, columns=["path", "split"]), store.table_attributes(path)
        root, class_names = attributes["root"], attributes["class_names"]
    else:
        listing = layouts.read(name, params=section, imagenet_names=imagenet_class_names)
        table, class_names = manifest.select(
            listing, params=section, shots=params.fewshot.shots, seeds=list(params.seeds)
        )
        root = listing.root
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    no_images = torch.empty(0, device="meta")
    tests = TestSet(
        name,
        section.role,
        section.template,
        class_names,
        image_features=no_images,
        labels=no_images,
        rows=np.empty(0),
        attributes={},
        baseline_template=section.baseline_template,
        gpt_names=section.gpt_names or {},
        gpt=gpt,
    )
    files = [f"{root}/{file}" for file in table["path"].slice(0, FILES_SAMPLED).to_pylist()]
    return Dataset(tests, n_test, table.num_rows - n_test, files)


def breaks(lines: Sequence[Line], machines: Sequence[Machine]) -> list[str]:
    """What does not fit, in the order of the stages, each with a remedy; the first is what breaks first."""
    memory, free, machine = machines[0].memory, machines[0].disk, machines[-1]
    sentences, disk = [], 0
    for line in lines:
        if not line.why:
            continue
        kind, hours = line.stage.partition("@")[0], line.hours[-1]
        disk += line.need.disk
        if memory and line.need.memory > memory:
            what = f"needs {gib(line.need.memory)} of memory, this machine has {gib(memory)}"
            sentences.append(f"{line.stage}: {what}: {LESS_MEMORY.get(kind, 'use a smaller pool')}")
        if hours > PATIENCE_HOURS:
            sentences.append(
                f"{line.stage}: {hours:,.0f} h on {machine.name}: WSOUP_EXECUTOR=ray on "
                f"{-(-hours // PATIENCE_HOURS):,.0f} times as much hardware takes a week{LESS_TIME.get(kind, '')}"
            )
    if free is not None and disk > free:
        sentences.append(f"disk: {gib(disk)} to write, {gib(free)} free: put artifacts and .dvc/cache elsewhere")
    return sentences


def gib(size: float) -> str:
    """Bytes as GiB or TiB."""
    return f"{size / 2**30:,.2f} GiB" if size < 2**40 else f"{size / 2**40:,.2f} TiB"


def show(plan: Plan, console: Console) -> None:
    """Print a line for each stage that runs and their sum, then what is cached, and what breaks first."""
    running = [line for line in plan.lines if line.why]
    if running:
        console.print(_table(plan, running), highlight=False)
    cached = [line.stage for line in plan.lines if not line.why]
    estimates = dict.fromkeys(f"~ {line.need.why}" for line in running if line.need.why)
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
    hours = [_hours(sum(per_stage)) for per_stage in zip(*(line.hours for line in running), strict=True)]
    disk = sum(line.need.disk for line in running)
    table.add_row("all", "", "", "", "", "", gib(disk), "", *hours, style="bold")
    return table


def _cells(line: Line) -> list[str]:
    need = line.need
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
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}" if hours else ""
