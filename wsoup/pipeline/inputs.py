"""What a stage reads, as dvc.yaml says it, held at its end against what it was when the stage began.

DVC hashes params, code and data after a stage has ended, so an edit in between would be recorded as what made the
results. A stage that finds one ends with an error instead: DVC records nothing, and finished parts are kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wsoup.core.errors import ChangedError, one_line
from wsoup.disk.store import sha256_file
from wsoup.params.base.section import read_yaml

DVC_YAML = Path("dvc.yaml")
PARAMS = "params.yaml"
IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


def read(stage: str) -> dict[str, Any]:
    """Values of the params, and the state of every file among the deps of a stage such as ``soup@word``.

    Of code the state is its digest; of data size, time of change and inode, which DVC's own cache goes by, too.
    Empty where there is no dvc.yaml, which is where nothing is recorded.
    """
    if not DVC_YAML.is_file():
        return {}
    params = read_yaml(PARAMS)
    name, _, item = stage.partition("@")
    entry = read_yaml(DVC_YAML)["stages"][name]
    scope = dict(params)
    if "foreach" in entry:
        each = _filled(entry["foreach"], params) if isinstance(entry["foreach"], str) else entry["foreach"]
        scope |= {"key": item, "item": each[item] if isinstance(each, Mapping) else item}
        entry = entry["do"]
    state: dict[str, Any] = {}
    for param in entry.get("params", []):
        for file, keys in param.items() if isinstance(param, dict) else [(PARAMS, [param])]:
            values = params if file == PARAMS else read_yaml(file)
            state |= {f"{file}: {key}": _at(values, key) for key in (_filled(key, scope) for key in keys)}
    for dep in entry.get("deps", []):
        state |= {str(path): _state(path) for path in _files(Path(_filled(dep, scope)))}
    return state


def check_unchanged(stage: str, *, since: Mapping[str, Any]) -> None:
    """Compare with what `read` gave when the stage began.

    Raises:
        ChangedError: what was edited, added or removed meanwhile, the first by name.
    """
    now = read(stage)
    changed = [key for key in {**since, **now} if since.get(key) != now.get(key)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {stage} ran: its results are not of what is there "
            "now, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )


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


def _files(path: Path) -> Iterator[Path]:
    """The files of a dep, without those that DVC ignores."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(folder, name) for name in files if not IGNORED.fullmatch(name))


def _state(path: Path) -> Any:
    """What tells whether a file is another one; None where it is not there."""
    try:
        if path.parts[0] in ("stages", "wsoup", "code"):
            return sha256_file(path)
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
