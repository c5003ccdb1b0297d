"""The stages that `wsoup ahead` can work for: which are asked for, whether their inputs are there, their shards."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from wsoup.base.errors import MissingError, ParamsError
from wsoup.base.validation import nearest
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.params.graph import Graph, Stage, read_graph
from wsoup.pipeline.params import load_params
from wsoup.pipeline.status import NEVER_RUN, reasons
from wsoup.runtime.work import offered_by

FINETUNE, EVALUATE = "finetune", "evaluate_tuned"
SHARDED = ("embed", "embed_train", "score", "soup", FINETUNE, "evaluate", "survey", EVALUATE)
"""Scripts whose shards can be computed beforehand: all that take long."""


@dataclass(frozen=True)
class Todo:
    """Stages whose shards are to be computed.

    Attributes:
        stages: in the order of the pipeline.
        waiting: stages that cannot be computed yet, each with those that must run first.
        n_seeds: seeds of params.yaml.
    """

    stages: Sequence[str]
    waiting: Mapping[str, Sequence[str]]
    n_seeds: int

    @property
    def first(self) -> list[str]:
        """Scripts of the stages that must run before those that wait, without the waiting ones themselves."""
        scripts: dict[str, None] = {}
        for before in self.waiting.values():
            for name in before:
                if name not in self.waiting:
                    script, _, _ = name.partition("@")
                    scripts[script] = None
        return list(scripts)

    def follows(self, name: str) -> str | None:
        """The stage among these whose finetuned models a stage evaluates, if it is one of those."""
        script, _, method = name.partition("@")
        before = f"{FINETUNE}@{method}"
        return before if script == EVALUATE and before in self.stages else None


def find(patterns: Sequence[str]) -> Todo:
    """The stages that some names and patterns mean and that would run now.

    Args:
        patterns: names of scripts or stages, with ``*``, such as ``finetune`` or ``soup@w*``; none: all sharded stages.

    Raises:
        ParamsError: a pattern means no stage, or only such as have no shards.
        MissingError: what a stage that was asked for reads is not there, or is of other params.
    """
    params = load_params()
    graph = read_graph()
    known = {name for name, stage in graph.stages.items() if stage.is_own}
    wanted: set[str] = set()
    for pattern in patterns or SHARDED:
        wanted |= _meant(pattern, known=known, must=bool(patterns))
    why = reasons(wanted)
    stale = {name for name, reason in why.items() if reason is not None}
    running = [name for name in why if name in wanted & stale]
    waiting = {}
    for name in running:
        first = _first(graph.stages[name], graph=graph, why=why, running=running)
        if first:
            waiting[name] = first
    # The evaluation of a method that waits does so too.
    for name in running:
        script, _, method = name.partition("@")
        if script == EVALUATE and f"{FINETUNE}@{method}" in waiting:
            waiting.setdefault(name, [f"{FINETUNE}@{method}"])
    if patterns and waiting:
        name, first = next(iter(waiting.items()))
        raise MissingError(
            f"{name} reads what is made by {', '.join(first[:3])} and is not there yet for these params; "
            f"run `dvc repro {' '.join(first[:3])}` first"
        )
    return Todo([name for name in running if name not in waiting], waiting, len(params.seeds))


def _meant(pattern: str, *, known: set[str], must: bool) -> set[str]:
    """The sharded stages that a pattern means; ParamsError if there `must` be one and is none."""
    meant = set()
    for name in known:
        script, _, _ = name.partition("@")
        if fnmatchcase(name, pattern) or fnmatchcase(script, pattern):
            meant.add(name)
    if not meant and must:
        scripts = {name.partition("@")[0] for name in known}
        raise ParamsError(f"there is no stage {pattern!r}; {nearest(pattern, known=sorted(known | scripts))}")
    sharded = {name for name in meant if name.partition("@")[0] in SHARDED}
    if not sharded and must:
        raise ParamsError(
            f"{pattern}: nothing of it can be computed ahead; the stages with shards are {', '.join(SHARDED)}"
        )
    return sharded


def _first(stage: Stage, *, graph: Graph, why: Mapping[str, str | None], running: Sequence[str]) -> list[str]:
    """The stages that must run before a stage's shards can be computed."""
    first = []
    for maker in graph.upstream(*stage.deps):
        reason = why.get(maker.name)
        script, _, _ = maker.name.partition("@")
        comes_with_it = script == FINETUNE and maker.name in running
        # Outs that a stage made which was run by hand are as good; DVC does not know them.
        by_hand = reason == NEVER_RUN and all(Path(out).exists() for out in maker.outs)
        if reason is not None and maker.name != "code" and not comes_with_it and not by_hand:
            first.append(maker.name)
    return first


# ------------------------------------------------------------------------------------------------------------- shards


def work_of(name: str, *, artifacts: Artifacts | None) -> list[Shard]:
    """The shards of a stage; with other `artifacts`, where finetuned models are read from.

    Raises:
        WsoupError: what the stage itself raises before its shards.
    """
    return offered_by(_main(name, artifacts=artifacts))


def write_outs(name: str, *, artifacts: Artifacts) -> None:
    """Write the outs of a stage whose shards are all there, to other places."""
    _main(name, artifacts=artifacts)()


def _main(name: str, *, artifacts: Artifacts | None) -> Callable[[], None]:
    """The work of a stage, of the script in the folder of params.yaml."""
    script, _, item = name.partition("@")
    folder = str(Path.cwd())
    if folder not in sys.path:
        # Where `python stages` finds wsoup and the scripts; workers find them there, too.
        sys.path.insert(0, folder)
    main = importlib.import_module(f"stages.{script}").main
    owner = Owner.of(Path("stages", f"{script}.py").resolve(), name=name)
    arguments: list[Any] = [owner]
    if item:
        arguments.append(item)
    options = {}
    if artifacts is not None:
        options["artifacts"] = artifacts
    return partial(main, *arguments, **options)
