"""What feeds what: dvc.yaml, filled in by params.yaml, as a graph of stages.

This is the one place that knows; whoever asks what a stage reads, which stages a key of params.yaml feeds, or which
keys decide a result asks it. DVC itself would take a second to import, in every stage; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.base import project
from wsoup.params.reading import read_yaml

DVC_YAML = Path("dvc.yaml")
PARAMS = "params.yaml"
CODE = "artifacts/code.yaml"
"""What every stage's code means, written by stage `code`."""
OWN_COMMAND = "python stages "
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


class Param(NamedTuple):
    """A dotted key and the file that has it."""

    file: str
    key: str


@dataclass(frozen=True)
class Stage:
    """One stage, such as ``soup@word``.

    Attributes:
        name: of the script, with its item after an ``@``.
        command: what DVC runs.
        params: the keys that it reads.
        deps: the files and folders that it reads.
        outs: what it writes, metrics among it.
        filled_in: keys of params.yaml that its deps and outs are made from.
        optional: keys of the section that has its name that params.yaml may lack, and has; DVC, which refuses what
            params.yaml lacks, knows of them by the digest of stage `code` (`wsoup.pipeline.code_file`).
    """

    name: str
    command: str
    params: tuple[Param, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]
    filled_in: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether it is one of wsoup's; a project may add stages of its own."""
        return self.command.startswith(OWN_COMMAND)

    @property
    def code_key(self) -> str | None:
        """The key of its code's digest in artifacts/code.yaml; None for a stage that names none."""
        for param in self.params:
            if param.file == CODE:
                return param.key
        return None

    @property
    def own_keys(self) -> list[str]:
        """The keys of params.yaml that it reads."""
        return [*(param.key for param in self.params if param.file == PARAMS), *self.optional]


class Graph:
    """All stages by name, in the order of dvc.yaml."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self.stages = {stage.name: stage for stage in stages}
        self._makers: dict[str, list[Stage]] = {}

    def upstream(self, *paths: str) -> list[Stage]:
        """The stages that some files or folders are made by, or are made from, in the order of dvc.yaml."""
        reached: set[str] = set()
        todo = list(paths)
        while todo:
            for stage in self._makers_of(todo.pop()):
                if stage.name not in reached:
                    reached.add(stage.name)
                    todo += stage.deps
        return [stage for stage in self.stages.values() if stage.name in reached]

    def _makers_of(self, path: str) -> list[Stage]:
        """The stages with an out that is the path, lies in it or holds it; looked for once for each path."""
        if path not in self._makers:
            makers = []
            for stage in self.stages.values():
                if any(_overlap(out, path) for out in stage.outs):
                    makers.append(stage)
            self._makers[path] = makers
        return self._makers[path]

    def deciding(self, *paths: str) -> list[str]:
        """The keys of params.yaml that decide some files or folders, each once."""
        keys: dict[str, None] = {}
        for stage in self.upstream(*paths):
            keys |= dict.fromkeys(stage.own_keys)
        return list(keys)

    def downstream(self, key: str) -> list[str]:
        """The outs that a key of params.yaml feeds, in the order of dvc.yaml."""
        outs: list[str] = []
        for stage in self.stages.values():
            if any(is_fed(key, by=own) for own in self.deciding(*stage.outs)):
                outs += stage.outs
        return outs


def is_fed(key: str, *, by: str) -> bool:
    """Whether two dotted keys are one, or one of them lies in the other.

    >>> is_fed("soups.word.k0", by="soups.word"), is_fed("soups", by="soups.word"), is_fed("soups.w", by="soups.word")
    (True, True, False)
    """
    return f"{key}.".startswith(f"{by}.") or f"{by}.".startswith(f"{key}.")


def _overlap(a: str, b: str) -> bool:
    """Whether two paths are one, or one of them lies in the other."""
    return f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/")


# ------------------------------------------------------------------------------------------------------------ reading


def read_graph(params: str | Path = PARAMS) -> Graph:
    """The graph of the dvc.yaml here, filled in by a params file; without a dvc.yaml it has no stages.

    Raises:
        MissingError, DataError, ParamsError: as `read_yaml`, of either file.
    """
    if not DVC_YAML.is_file():
        return Graph([])
    return graph_of(read_yaml(DVC_YAML), params=read_yaml(params))


@cache
def own_dvc_yaml() -> Mapping[str, Any]:
    """wsoup's own dvc.yaml, which a pipeline folder has too."""
    return read_yaml(project.file(str(DVC_YAML)))


def graph_of(dvc_yaml: Mapping[str, Any], *, params: Mapping[str, Any]) -> Graph:
    """The graph of the content of a dvc.yaml, filled in by that of a params.yaml."""
    stages: list[Stage] = []
    for name, section in (dvc_yaml.get("stages") or {}).items():
        if "foreach" not in section:
            stages.append(_stage(name, section, scope=params))
            continue
        each = section["foreach"]
        place = ""
        if isinstance(each, str):  # such as ${soups}
            place = each[2:-1]
            each = value_at(params, place)
        items = each
        if not isinstance(each, Mapping):
            items = {str(item): item for item in each or ()}
        for key, item in items.items():
            scope = {**params, "key": key, "item": item}
            stages.append(_stage(f"{name}@{key}", section["do"], scope=scope, item=f"{place}.{key}"))
    optional = optional_keys(dvc_yaml, params=params)
    for i, stage in enumerate(stages):
        script, _, _ = stage.name.partition("@")
        if script in optional:
            stages[i] = replace(stage, optional=optional[script])
    return Graph(stages)


def optional_keys(dvc_yaml: Mapping[str, Any], *, params: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """By stage, the keys that params.yaml has in the section of its name, and that dvc.yaml does not list.

    dvc.yaml lists keys of such a section one by one, because other stages read others of them. It cannot list one that
    params.yaml may lack.
    """
    by_stage = {}
    for name, stage in (dvc_yaml.get("stages") or {}).items():
        section = params.get(name)
        listed = listed_below(name, dvc_yaml=dvc_yaml)
        is_listed_whole = name in _keys_listed(stage)
        if not isinstance(section, Mapping) or not listed or is_listed_whole:
            continue
        keys = tuple(f"{name}.{key}" for key, value in section.items() if key not in listed and value is not None)
        if keys:
            by_stage[name] = keys
    return by_stage


def listed_below(section: str, *, dvc_yaml: Mapping[str, Any] | None = None) -> list[str]:
    """The keys of a section that dvc.yaml lists one by one, each once; of ``finetune.methods.${key}``, `methods`.

    Args:
        section: of params.yaml.
        dvc_yaml: its content; None: wsoup's own.
    """
    keys: dict[str, None] = {}
    for stage in ((dvc_yaml or own_dvc_yaml()).get("stages") or {}).values():
        for key in _keys_listed(stage):
            outer, _, inner = key.partition(".")
            if outer == section and inner:
                keys[inner.partition(".")[0]] = None
    return list(keys)


def _keys_listed(stage: Mapping[str, Any]) -> list[str]:
    """The keys of params.yaml that a stage of dvc.yaml lists, and the one whose items it is made for."""
    keys = [param.key for param in _listed(stage.get("do", stage).get("params") or ()) if param.file == PARAMS]
    each = stage.get("foreach")
    if isinstance(each, str):  # such as ${landscape.methods}
        keys.append(each[2:-1])
    return keys


def _stage(name: str, section: Mapping[str, Any], *, scope: Mapping[str, Any], item: str = "") -> Stage:
    """A stage from its part of dvc.yaml.

    Args:
        name: with its item.
        section: of a foreach, its `do`.
        scope: what ``${...}`` stands for.
        item: the key of the item in params.yaml, such as ``soups.word``.
    """
    deps = list(section.get("deps") or ())
    outs = list(_paths([*(section.get("outs") or ()), *(section.get("metrics") or ())]))
    filled_in: dict[str, None] = {}
    for text in [*deps, *outs]:
        for key in PLACEHOLDER.findall(text):
            if key.startswith("item."):
                filled_in[f"{item}{key.removeprefix('item')}"] = None
            elif key not in ("key", "item"):
                filled_in[key] = None
    return Stage(
        name,
        command=str(section.get("cmd")),
        params=tuple(_params(section.get("params") or (), scope=scope)),
        deps=tuple(str(_filled(dep, scope)) for dep in deps),
        outs=tuple(str(_filled(out, scope)) for out in outs),
        filled_in=tuple(filled_in),
    )


def _params(listed: Iterable[Any], *, scope: Mapping[str, Any]) -> Iterator[Param]:
    """The params of a stage, with their ``${...}`` replaced."""
    for file, key in _listed(listed):
        yield Param(file, _filled(key, scope))


def _listed(params: Iterable[Any]) -> Iterator[Param]:
    """The params of a stage as dvc.yaml has them; most are of params.yaml, which it leaves unsaid."""
    for entry in params:
        by_file = entry if isinstance(entry, Mapping) else {PARAMS: [entry]}
        for file, keys in by_file.items():
            for key in keys:
                yield Param(file, key)


def _paths(outs: Iterable[Any]) -> Iterator[str]:
    """Outs as dvc.yaml has them; one with options is a mapping of its path."""
    for out in outs:
        if isinstance(out, str):
            yield out
        else:
            yield from out


def _filled(text: str, scope: Mapping[str, Any]) -> Any:
    """A text of dvc.yaml with its ``${...}`` replaced; the value itself if the text is a single one of these."""
    placeholder = PLACEHOLDER.fullmatch(text)
    if placeholder is not None:
        return value_at(scope, placeholder[1])
    return PLACEHOLDER.sub(lambda match: str(value_at(scope, match[1])), text)


def value_at(values: object, key: str) -> Any:
    """The value at a dotted key, or None."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values
