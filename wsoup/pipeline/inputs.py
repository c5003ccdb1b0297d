"""What a stage reads, by dvc.yaml, and whether it changed while the stage ran.

DVC hashes params, code and data after a stage has ended, so it would record an edit made during the run as what made
the results. A stage therefore compares its inputs at its end with those at its start, and ends with an error if they
differ: DVC records nothing, and finished shards are kept. Nobody sees the moment between this and DVC's own look.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.base.errors import ChangedError, one_line
from wsoup.params.reading import read_yaml

DVC_YAML = Path("dvc.yaml")
PARAMS = "params.yaml"
IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""
OWN_COMMAND = "python stages "
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


class Entry(NamedTuple):
    """A stage of dvc.yaml.

    Attributes:
        section: its own part of the file; of a foreach, the `do`.
        scope: what its ``${...}`` stand for.
        item: the key in params.yaml of its item, such as ``soups.word``; "" if it has none.
    """

    section: Mapping[str, Any]
    scope: Mapping[str, Any]
    item: str = ""


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
    entry = entries[stage]
    states: dict[str, object] = {}
    contents: dict[str, Mapping[str, Any]] = {}
    for file, key in _params_of(entry):
        if file not in contents:
            contents[file] = read_yaml(file)
        states[f"{file}: {key}"] = _at(contents[file], key)
    for dep in entry.section.get("deps", []):
        for path in _files(Path(_filled(dep, entry.scope))):
            states[str(path)] = _state(path)
    return states


def outs_by_stage() -> dict[str, list[str]]:
    """The outs and metrics of each stage that dvc.yaml and params.yaml make now; empty if there is no dvc.yaml."""
    if not DVC_YAML.is_file():
        return {}
    outs: dict[str, list[str]] = {}
    for name, entry in _entries().items():
        outs[name] = []
        for out in _written(entry):
            outs[name].append(_filled(out, entry.scope))
    return outs


def lacking(params: str | Path = PARAMS) -> Iterator[str]:
    """A sentence for each key that dvc.yaml names and params.yaml lacks, though params may do without it.

    DVC refuses to read the pipeline then, or to run a stage after those before it have run, and names no other key.

    Args:
        params: the file to look at.
    """
    if not DVC_YAML.is_file():
        return
    values = read_yaml(params)
    stages: dict[str, str] = {}
    try:
        for stage, entry in _entries(params).items():
            # A project may have stages of its own, whose keys are its own affair.
            if str(entry.section.get("cmd")).startswith(OWN_COMMAND):
                for key in _needed(entry):
                    if _at(values, key) is None:
                        stages.setdefault(key, stage)
    except (AttributeError, LookupError, TypeError):
        return  # not a dvc.yaml, which DVC itself says
    for key, stage in stages.items():
        section, _, last = key.rpartition(".")
        siblings = _at(values, section) if section else values
        step = "add it (docs/params.md explains it)"
        if isinstance(siblings, Mapping):
            # Params knows all keys that are there, so one very much like it is what dvc.yaml should name.
            near = difflib.get_close_matches(last, siblings, n=1, cutoff=0.75)
            if near:
                step = f"did you mean {near[0]!r}?"
        yield f"{params} lacks {key!r}, which {DVC_YAML} names for stage {stage}; {step}"


def _needed(entry: Entry) -> Iterator[str]:
    """Keys of params.yaml without which DVC does not run a stage."""
    for file, key in _params_of(entry):
        if file == PARAMS:
            yield key
    for text in [*entry.section.get("deps", []), *_written(entry)]:
        for key in PLACEHOLDER.findall(text):
            if key.startswith("item."):
                yield f"{entry.item}{key.removeprefix('item')}"
            elif key not in ("key", "item"):
                yield key


def check_unchanged(stage: str, *, since: Mapping[str, object]) -> None:
    """Compare a stage's inputs with those at its start.

    Raises:
        ChangedError: something was edited, added or removed meanwhile; names the first.
    """
    now = read_inputs(stage)
    changed = [key for key in {**since, **now} if since.get(key) != now.get(key)]
    if changed:
        more = ""
        if len(changed) > 1:
            more = f" and {len(changed) - 1} more"
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {stage} ran: its results do not belong to the "
            "present inputs, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )


def _entries(file: str | Path = PARAMS) -> dict[str, Entry]:
    """Every stage of dvc.yaml by its name, such as ``soup@word``."""
    params = read_yaml(file)
    entries: dict[str, Entry] = {}
    for name, section in read_yaml(DVC_YAML).get("stages", {}).items():
        if "foreach" not in section:
            entries[name] = Entry(section, params)
            continue
        each = section["foreach"]
        place = ""
        if isinstance(each, str):  # such as ${soups}
            place = each[2:-1]
            each = _at(params, place)
        items = each
        if not isinstance(each, Mapping):
            items = {str(item): item for item in each or ()}
        for key, item in items.items():
            scope = {**params, "key": key, "item": item}
            entries[f"{name}@{key}"] = Entry(section["do"], scope, f"{place}.{key}")
    return entries


def _params_of(entry: Entry) -> Iterator[tuple[str, str]]:
    """The file and the dotted key of each of a stage's params; most are of params.yaml, which DVC leaves unsaid."""
    for param in entry.section.get("params", []):
        by_file = param if isinstance(param, Mapping) else {PARAMS: [param]}
        for file, keys in by_file.items():
            for key in keys:
                yield file, _filled(key, entry.scope)


def _written(entry: Entry) -> Iterator[str]:
    """Outs and metrics as dvc.yaml has them; one with options is a mapping of its path."""
    for out in [*entry.section.get("outs", []), *entry.section.get("metrics", [])]:
        if isinstance(out, str):
            yield out
        else:
            yield from out


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
