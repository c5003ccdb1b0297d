"""What a stage reads, as dvc.yaml says it, held at its end against what it was when the stage began.

DVC hashes params, code and data after a stage has ended, so an edit in between would be recorded as what made the
results. A stage that finds one ends with an error instead: DVC records nothing, and finished parts are kept.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.core.errors import ChangedError, one_line
from wsoup.core.params.section import read_yaml

DVC_YAML = Path("dvc.yaml")
PARAMS = "params.yaml"
IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


class Read(NamedTuple):
    """What a stage reads, as it is at one moment.

    Attributes:
        params: values, by file and key: ``params.yaml: soups.word``.
        deps: the state of every file, by dep and path.
        outs: what DVC keeps of the stage.
    """

    params: dict[str, Any]
    deps: dict[str, dict[str, Any]]
    outs: list[str]

    def all(self) -> dict[str, Any]:
        """Params and files side by side."""
        return {**self.params, **{path: state for files in self.deps.values() for path, state in files.items()}}


def read(stage: str) -> Read:
    """Values of the params, and the state of every file among the deps of a stage such as ``soup@word``.

    Of code the state is its MD5; of data size, time of change and inode, which DVC's own cache goes by, too.
    Empty where there is no dvc.yaml, which is where nothing is recorded.
    """
    if not DVC_YAML.is_file():
        return Read({}, {}, [])
    params = read_yaml(PARAMS)
    name, _, item = stage.partition("@")
    entry = read_yaml(DVC_YAML)["stages"][name]
    scope = dict(params)
    if "foreach" in entry:
        each = _filled(entry["foreach"], params) if isinstance(entry["foreach"], str) else entry["foreach"]
        scope |= {"key": item, "item": each[item] if isinstance(each, Mapping) else item}
        entry = entry["do"]
    values: dict[str, Any] = {}
    for param in entry.get("params", []):
        for file, keys in param.items() if isinstance(param, dict) else [(PARAMS, [param])]:
            inside = params if file == PARAMS else read_yaml(file)
            values |= {f"{file}: {key}": _at(inside, key) for key in (_filled(key, scope) for key in keys)}
    deps = [Path(_filled(dep, scope)) for dep in entry.get("deps", [])]
    states = {str(dep): {str(path): _state(path) for path in files_of(dep)} for dep in deps}
    return Read(values, states, [_filled(out, scope) for out in entry.get("outs", []) if isinstance(out, str)])


def check_unchanged(stage: str, *, since: Read) -> Read:
    """Compare with what `read` gave when the stage began; gives what it gives now.

    Raises:
        ChangedError: what was edited, added or removed meanwhile, the first by name.
    """
    read_now = read(stage)
    before, now = since.all(), read_now.all()
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {stage} ran: its results are not of what is there "
            "now, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )
    return read_now


def _filled(text: str, scope: Mapping[str, Any]) -> Any:
    """A text of dvc.yaml with its ``${...}`` replaced; the value itself where it is nothing but one of these."""
    if whole := PLACEHOLDER.fullmatch(text):
        return _at(scope, whole[1])
    return PLACEHOLDER.sub(lambda found: str(_at(scope, found[1])), text)


def _at(values: Any, key: str) -> Any:
    """The value at a dotted key; None where there is none."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def files_of(path: Path) -> Iterator[Path]:
    """The files of a dep, without those that DVC ignores."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(folder, name) for name in files if not IGNORED.fullmatch(name))


def _state(path: Path) -> Any:
    """What tells whether a file is another one; None where it is not there."""
    if path.parts[0] in ("stages", "wsoup", "code"):
        return md5(path)
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def md5(path: str | Path) -> str | None:
    """Of the bytes of a file, in hex; None where there is none, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
    except OSError:
        return None
