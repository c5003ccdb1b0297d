"""What a stage reads, as dvc.yaml says it, held at its end against what it was when the stage began.

DVC hashes params, code and data after a stage has ended, so an edit in between would be recorded as what made the
results. A stage that finds one ends with an error instead: DVC records nothing, and finished parts are kept.

An edit between that look and DVC's own is found afterwards: the stage leaves a note of what it read, and who comes next
(any stage, `wsoup check`, `wsoup results`) holds it against dvc.lock, where something changed within a minute.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wsoup.core.errors import ChangedError, MismatchError, WsoupError, one_line
from wsoup.disk import store
from wsoup.params.base.section import read_yaml

DVC_YAML, DVC_LOCK = Path("dvc.yaml"), Path("dvc.lock")
PARAMS = "params.yaml"
IGNORED = re.compile(r"(__init__\.py|.*\.pyc|.*\.tmp)")
"""Files that DVC leaves out (.dvcignore)."""
PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")
CODE = ("stages", "wsoup", "code")
"""Folders whose files are small and are read; of others size, times and inode are looked at."""
WITHIN = 60 * 10**9
"""Nanoseconds after a stage's end in which DVC has looked at what it read."""
SMALL = 1 << 20
"""Bytes of a result whose content is looked at to tell it from another; of a larger one the size is."""
TICK = 20 * 10**6
"""Nanoseconds by which a file system's clock may be late."""


def read(stage: str) -> dict[str, Any]:
    """Values of the params, and the state of every file among the deps of a stage such as ``soup@word``.

    Of code the state is its MD5, as DVC's; of data size, time of change and inode, which DVC's own cache goes by, too.
    Empty where there is no dvc.yaml, which is where nothing is recorded.
    """
    if not DVC_YAML.is_file():
        return {}
    params, deps, _ = _entry(stage)
    return {f"{file}: {key}": value for (file, key), value in params.items()} | {
        str(path): _state(path) for dep in deps for path in _files(dep)
    }


def _entry(stage: str) -> tuple[dict[tuple[str, str], Any], list[Path], list[Path]]:
    """The params of a stage by file and key, its deps and its outs."""
    params = read_yaml(PARAMS)
    name, _, item = stage.partition("@")
    entry = read_yaml(DVC_YAML)["stages"][name]
    scope = dict(params)
    if "foreach" in entry:
        each = _filled(entry["foreach"], params) if isinstance(entry["foreach"], str) else entry["foreach"]
        scope |= {"key": item, "item": each[item] if isinstance(each, Mapping) else item}
        entry = entry["do"]
    wanted: dict[tuple[str, str], Any] = {}
    for param in entry.get("params", []):
        for file, keys in param.items() if isinstance(param, dict) else [(PARAMS, [param])]:
            values = params if file == PARAMS else read_yaml(file)
            wanted |= {(file, key): _at(values, key) for key in (_filled(key, scope) for key in keys)}
    outs = [next(iter(out)) if isinstance(out, dict) else out for out in entry.get("outs", [])]
    deps = [Path(_filled(dep, scope)) for dep in entry.get("deps", [])]
    return wanted, deps, [Path(_filled(out, scope)) for out in outs]


def check_unchanged(stage: str, *, since: Mapping[str, Any]) -> None:
    """Compare with what `read` gave when the stage began; under DVC, leave a note of it for `misrecorded`.

    Raises:
        ChangedError: what was edited, added or removed meanwhile, the first by name.
    """
    began = time.time_ns() - TICK
    now = read(stage)
    changed = [key for key in {**since, **now} if since.get(key) != now.get(key)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ChangedError(
            f"{one_line(changed[0], limit=200)}{more} changed while {stage} ran: its results are not of what is there "
            "now, and DVC does not record them; run `dvc repro` again (finished parts are kept)"
        )
    if now and "DVC_STAGE" in os.environ:
        params, deps, outs = _entry(stage)
        said = {"deps": {str(dep): _as_dvc_has_it(dep, now) for dep in deps}, "params": {}, "outs": _made(outs)}
        for file, key in params:
            said["params"].setdefault(file, {})[key] = now.get(f"{file}: {key}")
        with suppress(OSError, TypeError):  # a full disk: the results are in place
            store.write_json(
                _note(stage), {"stage": stage, "run": os.getppid(), "folder": str(Path.cwd()), "ended": began, **said}
            )


def misrecorded(*, starting: str = "") -> list[str]:
    """Stages of which dvc.lock says that they read what was edited in the moment after their end, in a line each.

    A note that was looked at, or is of the stage that is `starting` again, is removed; one that tells of a fault stays.
    A stage that starts is told of the same run of DVC alone: another one may have put results there from its run cache.
    """
    faults = []
    for note in sorted(_note("").parent.glob("*.ended")):
        try:
            said = store.read_json(note)
            if said["folder"] != str(Path.cwd()):
                continue  # of another pipeline with the same $WSOUP_CACHE
            fault = None if said["stage"] == starting else _fault(said)
            if fault is not None and starting and said["run"] != os.getppid():
                continue
            if fault is not None and said["outs"] != _plain(_made([Path(out) for out in said["outs"]])):
                fault = None  # DVC has put other results there since, from its run cache or another commit
        except (WsoupError, ImportError, OSError, ValueError, KeyError, TypeError, AttributeError):
            fault = None  # damaged, or there is no DVC or dvc.lock, which then says nothing
        if fault is None:
            note.unlink(missing_ok=True)
            continue
        stage = said["stage"]
        faults.append(
            f"{one_line(fault, limit=200)} changed just after {stage} ended, and dvc.lock says that its results are of "
            f"that: they are not; run `dvc checkout`, `dvc repro --force --single-item {stage}` and `dvc repro`"
        )
    return faults


def _note(stage: str) -> Path:
    return store.cache_dir() / "locks" / f"{stage}.ended"


def _fault(said: Mapping[str, Any]) -> str | None:
    """What dvc.lock says otherwise than a note, the first by name, of what changed within a minute after it."""
    places = [place for place in (*said["params"], *said["deps"]) if _touched(place, since=said["ended"])]
    if not places:
        return None  # nearly always, and nothing is read
    from ruamel.yaml import YAML, YAMLError  # DVC's own reader: 1e-05, as DVC writes it, is a text to PyYAML

    try:
        entry = YAML(typ="safe").load(DVC_LOCK)["stages"][said["stage"]]
    except YAMLError as error:
        raise MismatchError(f"{DVC_LOCK} is not YAML ({one_line(error, limit=200)})") from None
    deps = {dep["path"]: dep for dep in entry["deps"]}
    for place in places:
        for key, value in said["params"].get(place, {}).items():
            if _plain(entry["params"][place].get(key)) != value:
                return f"{place}: {key}"
        for name, value in said["deps"].get(place, {}).items():
            if deps[place].get(name) != value:
                return place
    return None


def _made(outs: Iterable[Path]) -> dict[str, dict[str, tuple[int, str | None]]]:
    """Size of every file of some outs, and the MD5 of small ones."""
    made: dict[str, dict[str, tuple[int, str | None]]] = {}
    for out in outs:
        files = made.setdefault(str(out), {})
        for path in filter(Path.is_file, _files(out)):
            size = path.stat().st_size
            files[path.relative_to(out).as_posix()] = (size, _md5(path.read_bytes()) if size <= SMALL else None)
    return made


def _touched(place: str, *, since: int) -> bool:
    """Whether anything of a file or folder, names in it too, changed within a minute."""
    inner = (os.path.join(folder, name) for folder, folders, files in os.walk(place) for name in (*folders, *files))
    for path in itertools.chain([place], inner):
        with suppress(OSError):
            if since <= os.stat(path).st_ctime_ns <= since + WITHIN:
                return True
    return False


def _as_dvc_has_it(dep: Path, state: Mapping[str, Any]) -> dict[str, Any]:
    """What DVC writes into dvc.lock of a dep in this state: of code its MD5, of data size and number of files."""
    files = {path.relative_to(dep).as_posix(): state[str(path)] for path in _files(dep)}
    if "." in files:
        of_file = files["."]
        return {"md5": of_file} if isinstance(of_file, str) else {"size": of_file[0]} if of_file else {}
    if dep.parts[0] not in CODE:
        return {"size": sum(status[0] for status in files.values() if status), "nfiles": len(files)}
    listed = json.dumps([{"md5": files[name], "relpath": name} for name in sorted(files)])
    return {"md5": f"{_md5(listed.encode())}.dir"}


def _plain(value: Any) -> Any:
    """As a note has it."""
    return json.loads(json.dumps(value))


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
        if path.parts[0] in CODE:
            return _md5(path.read_bytes())
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
