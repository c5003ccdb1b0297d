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
from wsoup.params.reading import read_yaml

DVC_YAML = Path("dvc.yaml")
PARAMS = "params.yaml"
IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")

Entry = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A stage in dvc.yaml, and what its ``${...}`` stand for."""


def read_inputs(stage: str) -> dict[str, object]:
    """The params of a stage such as ``soup@word`` by its entry in dvc.yaml, and the state of every file in its deps.

    Keys are ``params.yaml: soups.word``, or the path of a file, whose state is its size, modification time and inode,
    as in DVC's own cache. Empty if there is no dvc.yaml: then nothing is recorded.
    """
    if not DVC_YAML.is_file():
        return {}
    entries = _entries()
    if stage not in entries:
        return {}  # the stage itself says which names there are
    states: dict[str, object] = {}
    contents: dict[str, Mapping[str, Any]] = {}
    for file, key in _params_of(entries[stage]):
        if file not in contents:
            contents[file] = read_yaml(file)
        states[f"{file}: {key}"] = _at(contents[file], key)
    section, scope = entries[stage]
    for dep in section.get("deps", []):
        for path in _files(Path(_filled(dep, scope))):
            states[str(path)] = _state(path)
    return states


def outs_by_stage() -> dict[str, list[str]]:
    """The outs and metrics of each stage that dvc.yaml and params.yaml make now; empty if there is no dvc.yaml."""
    if not DVC_YAML.is_file():
        return {}
    outs: dict[str, list[str]] = {}
    for name, (section, scope) in _entries().items():
        outs[name] = []
        for out in [*section.get("outs", []), *section.get("metrics", [])]:
            path = out if isinstance(out, str) else next(iter(out))  # a path with options is a mapping of one key
            outs[name].append(_filled(path, scope))
    return outs


def check_unchanged(stage: str, *, since: Mapping[str, object]) -> None:
    """Compare a stage's inputs with those at its start.

    Raises:
        ChangedError: something was edited, added or removed meanwhile; names the first.
    """
    now = read_inputs(stage)
    changed = [key for key in {**since, **now} if since.get(key) != now.get(key)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {stage} ran: its results do not belong to the "
            "present inputs, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )


def _entries() -> dict[str, Entry]:
    """Every stage of dvc.yaml by its name, such as ``soup@word``."""
    params = read_yaml(PARAMS)
    entries: dict[str, Entry] = {}
    for name, section in read_yaml(DVC_YAML)["stages"].items():
        if "foreach" not in section:
            entries[name] = section, params
            continue
        each = section["foreach"]
        if isinstance(each, str):
            each = _filled(each, params)
        items = each if isinstance(each, Mapping) else dict(zip(each, each, strict=True))
        for key, item in items.items():
            entries[f"{name}@{key}"] = section["do"], {**params, "key": key, "item": item}
    return entries


def _params_of(entry: Entry) -> Iterator[tuple[str, str]]:
    """The file and the dotted key of each of a stage's params; most are of params.yaml, which DVC leaves unsaid."""
    section, scope = entry
    for param in section.get("params", []):
        by_file = param if isinstance(param, Mapping) else {PARAMS: [param]}
        for file, keys in by_file.items():
            for key in keys:
                yield file, _filled(key, scope)


def _filled(text: str, scope: Mapping[str, Any]) -> Any:
    """A text of dvc.yaml with its ``${...}`` replaced; the value itself if the text is a single one of these."""
    placeholder = PLACEHOLDER.fullmatch(text)
    if placeholder is not None:
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
    for path in inside:
        if not path.is_dir() and not IGNORED.fullmatch(path.name):
            yield path


def _state(path: Path) -> object:
    """A value that changes when the file does; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
