"""What a stage reads, and whether it changed while the stage ran.

DVC hashes params, code and data after a stage has ended, so it would record an edit made during the run as what made
the results. A stage therefore compares its inputs at its end with those at its start, and ends with an error if they
differ: DVC records nothing, and finished shards are kept. Nobody sees the moment between this and DVC's own look.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wsoup.base.errors import ChangedError, one_line
from wsoup.params.section import read_yaml

DVC_YAML = Path("dvc.yaml")
PARAMS = "params.yaml"
IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


def read_inputs(stage: str) -> dict[str, object]:
    """The params of a stage such as ``soup@word`` by its entry in dvc.yaml, and the state of every file in its deps.

    Keys are ``params.yaml: soups.word``, or the path of a file, whose state is its size, modification time and inode,
    as in DVC's own cache. Empty if there is no dvc.yaml: then nothing is recorded.
    """
    if not DVC_YAML.is_file():
        return {}
    entry, scope = _entries().get(stage, ({}, {}))  # the stage itself says which names there are
    states: dict[str, object] = {}
    for param in entry.get("params", []):
        for file, keys in param.items() if isinstance(param, dict) else [(PARAMS, [param])]:
            content = read_yaml(file)
            states |= {f"{file}: {key}": _at(content, key) for key in (_filled(key, scope) for key in keys)}
    deps = [Path(_filled(dep, scope)) for dep in entry.get("deps", [])]
    return states | {str(path): _state(path) for dep in deps for path in _files(dep)}


def outs_by_stage() -> dict[str, list[str]]:
    """The outs and metrics of each stage that dvc.yaml and params.yaml make now; empty if there is no dvc.yaml."""
    outs = {}
    for name, (entry, scope) in _entries().items() if DVC_YAML.is_file() else ():
        written = [*entry.get("outs", []), *entry.get("metrics", [])]
        outs[name] = [_filled(out if isinstance(out, str) else next(iter(out)), scope) for out in written]
    return outs


def _entries() -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every stage of dvc.yaml by its name, such as ``soup@word``, and what its ``${...}`` stand for."""
    params = read_yaml(PARAMS)
    entries = {}
    for name, entry in read_yaml(DVC_YAML)["stages"].items():
        if "foreach" not in entry:
            entries[name] = (entry, params)
            continue
        each = _filled(entry["foreach"], params) if isinstance(entry["foreach"], str) else entry["foreach"]
        items = each.items() if isinstance(each, Mapping) else zip(each, each, strict=True)
        entries |= {f"{name}@{key}": (entry["do"], {**params, "key": key, "item": item}) for key, item in items}
    return entries


def check_unchanged(stage: str, *, since: Mapping[str, object]) -> None:
    """Compare a stage's inputs with those at its start.

    Raises:
        ChangedError: something was edited, added or removed meanwhile; names the first.
    """
    now = read_inputs(stage)
    if changed := [key for key in {**since, **now} if since.get(key) != now.get(key)]:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {stage} ran: its results do not belong to the "
            "present inputs, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )


def _filled(text: str, scope: Mapping[str, Any]) -> Any:
    """A text of dvc.yaml with its ``${...}`` replaced; the value itself if the text is a single one of these."""
    if placeholder := PLACEHOLDER.fullmatch(text):
        return _at(scope, placeholder[1])
    return PLACEHOLDER.sub(lambda match: str(_at(scope, match[1])), text)


def _at(values: object, key: str) -> object:
    """The value at a dotted key, or None."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _files(dep: Path) -> Iterator[Path]:
    """The files of a dep, without those that DVC ignores."""
    inside = dep.rglob("*") if dep.is_dir() else [dep]
    return (path for path in inside if not path.is_dir() and not IGNORED.fullmatch(path.name))


def _state(path: Path) -> object:
    """A value that changes when the file does; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
