"""What is cached already, and what a change would run again: dvc.yaml, dvc.lock and params.yaml, with changes or not.

DVC stops where a stage that ran again made the same bytes; here everything behind a change is said to run, so what is
told is what may run at most.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from wsoup.core.errors import MismatchError, MissingError, ParamsError, one_line

PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


@dataclass(frozen=True)
class Stage:
    """One stage of dvc.yaml with its item, everything filled in.

    Attributes:
        name: such as ``score@words``.
        cmd: its command.
        params: dotted keys of params.yaml.
        deps, outs: paths.
    """

    name: str
    cmd: str
    params: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]


def with_changes(raw: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """params.yaml with changes such as ``soups.word.k0=50``; values are YAML.

    Raises:
        ParamsError: a change is not of the form ``key=value``, or its key leads through something that has no keys.
    """
    found: dict[str, Any] = yaml.safe_load(yaml.safe_dump(dict(raw)))
    for change in changes:
        key, equals, text = change.partition("=")
        section: Any = found
        *path, last = key.split(".")
        for name in path:
            section = section.get(name) if isinstance(section, dict) else None
        if not equals or not isinstance(section, dict):
            raise ParamsError(f"-S {change}: expected a key of params.yaml and a value, such as soups.word.k0=50")
        try:
            section[last] = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):  # dates, numbers and depth that Python does not have
            raise ParamsError(f"-S {change}: the value is not YAML") from None
    return found


def read_stages(raw: Mapping[str, Any], *, dvc_yaml: str | Path = "dvc.yaml") -> list[Stage]:
    """Every stage that dvc.yaml makes of these params, each behind what it depends on.

    Raises:
        MissingError: there is no dvc.yaml.
        MismatchError: dvc.yaml names a param that there is not.
    """
    if not Path(dvc_yaml).is_file():
        raise MissingError(f"{dvc_yaml} does not exist: run this in the folder of dvc.yaml and params.yaml")
    try:
        written = yaml.safe_load(Path(dvc_yaml).read_text(encoding="utf-8"))["stages"]
        found = [stage for name, stage in written.items() for stage in _expanded(name, stage, raw=raw)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MismatchError(f"{dvc_yaml} is not YAML ({one_line(error, limit=200)})") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise MismatchError(f"{dvc_yaml} and params.yaml do not agree (at {one_line(error, limit=200)})") from None
    return _ordered(found)


def _expanded(name: str, stage: Mapping[str, Any], *, raw: Mapping[str, Any]) -> Iterator[Stage]:
    if "foreach" not in stage:
        yield _filled(name, stage, values=raw)
        return
    items = stage["foreach"]
    items = _value(items[2:-1], values=raw) if isinstance(items, str) else items
    pairs = items.items() if isinstance(items, Mapping) else ((item, item) for item in items)
    for key, item in pairs:
        yield _filled(f"{name}@{key}", stage["do"], values={**raw, "key": key, "item": item})


def _filled(name: str, stage: Mapping[str, Any], *, values: Mapping[str, Any]) -> Stage:
    def fill(texts: Sequence[Any]) -> tuple[str, ...]:
        plain = [next(iter(text)) if isinstance(text, Mapping) else text for text in texts]
        return tuple(PLACEHOLDER.sub(lambda found: str(_value(found[1], values=values)), text) for text in plain)

    outs = [out for kind in ("outs", "metrics", "plots") for out in stage.get(kind, ())]
    return Stage(name, stage["cmd"], fill(stage.get("params", ())), fill(stage.get("deps", ())), fill(outs))


def _value(key: str, *, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in key.strip().split("."):
        found = found[part]
    return found


def _ordered(stages: Sequence[Stage]) -> list[Stage]:
    """Each stage behind those whose outs it depends on, else as they stand in dvc.yaml."""
    waiting = {stage.name: stage for stage in stages}
    needed = {s.name: {other.name for other in stages if other is not s and _meet(s.deps, other.outs)} for s in stages}
    done: list[Stage] = []
    while waiting:
        ready = next((name for name in waiting if not needed[name] & waiting.keys()), None)
        if ready is None:
            raise MismatchError(f"dvc.yaml goes in a circle at {next(iter(waiting))}")
        done.append(waiting.pop(ready))
    return done


def _meet(deps: Sequence[str], outs: Sequence[str]) -> bool:
    """Whether one of some outs is a dep, lies in one, or holds one."""
    return any(f"{dep}/".startswith(f"{out}/") or f"{out}/".startswith(f"{dep}/") for dep in deps for out in outs)


def to_run(stages: Sequence[Stage], raw: Mapping[str, Any], *, changed_files: Mapping[str, str]) -> dict[str, str]:
    """Which stages would run, and why; those that are not named are cached.

    Args:
        stages: from `read_stages`.
        raw: params.yaml, with changes or without.
        changed_files: from `changed_files`.
    """
    lock: Mapping[str, Any] = {}
    with suppress(FileNotFoundError, yaml.YAMLError, ValueError, RecursionError, AttributeError):
        stored = yaml.safe_load(Path("dvc.lock").read_text(encoding="utf-8")).get("stages", {})
        lock = {name: known for name, known in stored.items() if isinstance(known, Mapping)}
    found: dict[str, str] = {}
    for stage in stages:
        behind = next((s.name for s in stages if s.name in found and _meet(stage.deps, s.outs)), None)
        why = _own_reason(stage, lock.get(stage.name), raw=raw) or changed_files.get(stage.name)
        if why or behind:
            found[stage.name] = why or f"behind {behind}"
    return found


def _own_reason(stage: Stage, locked: Mapping[str, Any] | None, *, raw: Mapping[str, Any]) -> str | None:
    """Why a stage would run whatever the others do, as far as dvc.lock and the params tell."""
    if locked is None:
        return "never run"
    if locked.get("cmd") != stage.cmd:
        return "its command changed"
    known = (locked.get("params") or {}).get("params.yaml") or {}
    changed = [key for key in stage.params if key not in known or not _same(known[key], _value(key, values=raw))]
    gone = [key for key in known if key not in stage.params]
    return f"{', '.join([*changed, *gone])} changed" if changed or gone else None


def _same(locked: Any, value: Any) -> bool:
    """Whether two values are one: DVC reads and writes YAML 1.2, where 1e-05 is a number, and here it is text."""
    if isinstance(locked, dict) and isinstance(value, dict):
        return locked.keys() == value.keys() and all(_same(locked[key], value[key]) for key in locked)
    if isinstance(locked, list) and isinstance(value, list):
        return len(locked) == len(value) and all(map(_same, locked, value))
    if {type(locked), type(value)} == {float, str}:
        with suppress(ValueError):
            return float(locked) == float(value)
    return bool(locked == value)


def changed_files() -> dict[str, str]:
    """What of deps and outs DVC finds changed or gone in the working folder, by stage; nothing without DVC."""
    if not Path(".dvc").is_dir():
        return {}
    from dvc.lock import LockNoop
    from dvc.repo import Repo

    try:
        with Repo(".") as repo, tempfile.TemporaryDirectory() as locks:
            # Looking takes none of DVC's locks: a `dvc repro` that is going on would end for want of them.
            repo.lock, repo.tmp_dir = LockNoop(), locks
            status = repo.status()
    except Exception as error:  # DVC's own, and whatever a damaged dvc.lock leads it into
        raise MismatchError(f"dvc status: {one_line(error, limit=300) or type(error).__name__}") from None
    found = {}
    for name, entries in status.items():
        for entry in entries:
            for kind in ("changed deps", "changed outs") if isinstance(entry, dict) else ():
                # Of params, DVC says which keys; those are for `to_run`.
                if files := [path for path, what in entry.get(kind, {}).items() if isinstance(what, str)]:
                    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
                    found[name] = f"{files[0]}{more} changed"
    return found
