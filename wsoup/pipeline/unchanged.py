"""Whether what a stage read changed while it ran.

DVC hashes params and data after a stage has ended, so it would record an edit made during the run as what made the
results. A stage therefore compares its inputs and its code at its end with those at its start, and ends with an error
if they differ: DVC records nothing, and finished shards are kept. Nobody sees the moment between this and DVC's own
look.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wsoup.base.errors import ChangedError, one_line
from wsoup.params.graph import Stage, value_at
from wsoup.params.reading import read_yaml

IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""


def read_inputs(stage: Stage | None) -> dict[str, object]:
    """The params of a stage, and the state of every file in its deps.

    Keys are ``params.yaml: soups.word``, or the path of a file, whose state is its size, modification time and inode,
    as in DVC's own cache. Empty for a stage that dvc.yaml does not have: then nothing is recorded.
    """
    states: dict[str, object] = {}
    if stage is None:
        return states
    contents: dict[str, Mapping[str, Any]] = {}
    for file, key in stage.params:
        if file not in contents:
            contents[file] = read_yaml(file)
        states[f"{file}: {key}"] = value_at(contents[file], key)
    for dep in stage.deps:
        for path in _files(Path(dep)):
            states[str(path)] = state_of(path)
    return states


def check_unchanged(name: str, *, before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Compare a stage's inputs at its end with those at its start.

    Raises:
        ChangedError: something was edited, added or removed meanwhile; names the first.
    """
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if changed:
        more = ""
        if len(changed) > 1:
            more = f" and {len(changed) - 1} more"
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {name} ran: its results do not belong to the "
            "present inputs, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )


def _files(dep: Path) -> Iterator[Path]:
    """The files of a dep, without those that DVC ignores."""
    inside = dep.rglob("*") if dep.is_dir() else [dep]
    for path in inside:
        if not path.is_dir() and not IGNORED.fullmatch(path.name):
            yield path


def state_of(path: Path) -> object:
    """A value that changes when the file does; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
