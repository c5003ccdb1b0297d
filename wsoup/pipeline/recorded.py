"""Does dvc.lock record what a stage really ran with?

A stage compares its inputs at its end with those at its start (`wsoup.pipeline.inputs`), but DVC looks a moment later.
To catch edits in between, each stage leaves a note of what it ran with, in the terms of dvc.lock. The next stage of the
same DVC process compares it with dvc.lock, whose entry must be of that run; so do `wsoup check` and `wsoup results`
later, when the entry may be of another run. Only values that dvc.lock records *and* that are still there count: DVC
calls nothing else up to date, and files that DVC counts in another way (because of patterns in .dvcignore, say) are no
edits.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wsoup.base.errors import ChangedError, WsoupError, shown_value
from wsoup.disk import store
from wsoup.params.section import parse_yaml
from wsoup.pipeline.inputs import (
    Inputs,
    files_of,
    md5,
    read_inputs,
)

LOCK = Path("dvc.lock")


def leave_note(stage: str, inputs: Inputs) -> None:
    """Note what a stage ran with, if DVC runs it."""
    if "DVC_STAGE" not in os.environ or not inputs.outs:
        return
    outs = {out: {str(path): md5(path) for path in files_of(Path(out))} for out in inputs.outs}
    note = {
        "stage": stage,
        "folder": str(Path.cwd()),
        "run": _dvc_process(inputs.outs),
        "before": _entry_text(stage),
        "ran": _in_lock_terms(inputs),
        "outs": {out: _lock_state(out, files).get("md5") for out, files in outs.items()},
    }
    with suppress(WsoupError):  # a full disk; the results are in place
        store.write_checked(store.cache_dir() / "locks" / f"{stage}.ran", json.dumps(note).encode())


def check_notes(stage: str, *, outs: Sequence[str]) -> None:
    """Before a stage begins: check that DVC recorded what earlier stages of this DVC process ran with.

    A wrong record is taken out of dvc.lock and of DVC's run cache, so that the stage runs again.

    Raises:
        ChangedError: which stage, what it ran with, and what dvc.lock says.
    """
    process = _dvc_process(outs)
    for path, note in _notes():
        if note["run"] != process or not process or note["stage"] == stage:
            continue
        text = _entry_text(note["stage"])
        difference = _difference(note, text)
        if difference:
            _forget(note, text)
        path.unlink(missing_ok=True)
        if difference:
            raise ChangedError(
                f"{difference}, edited just after its end; the entry is out of dvc.lock, run `dvc repro` again"
            )


def doubted() -> list[str]:
    """A line for each stage that ran with something other than dvc.lock says.

    If DVC's run cache has what such a stage ran with, DVC did record that, and the entry in dvc.lock came later.
    """
    lines = []
    for _, note in _notes():
        text = _entry_text(note["stage"])
        if difference := _difference(note, text):
            from wsoup.pipeline.graph import cached_runs  # DVC takes a second to import

            runs, entry = list(cached_runs(note["outs"].values())), _parsed(note["stage"], text)
            wrong = [place.parent for place, run in runs if run == entry]
            if wrong and all(_entry_values(run, like=note["ran"]) != note["ran"] for _, run in runs):
                lines.append(
                    f"{difference}, edited just after its end, or committed (`dvc commit`); unless you committed it, "
                    f"remove {os.path.relpath(wrong[0])} and run `dvc repro --force --single-item {note['stage']}`"
                )
    return lines


def _forget(note: Mapping[str, Any], text: str) -> None:
    """Remove an entry from dvc.lock, and from DVC's run cache, which would restore the results from it."""
    from wsoup.pipeline.graph import cached_runs

    entry = _parsed(note["stage"], text)
    for place, run in cached_runs(note["outs"].values()):
        if run == entry:
            place.unlink()
            with suppress(OSError):
                place.parent.rmdir()  # an empty folder would stop DVC; older runs may be there
    remaining = LOCK.read_text(encoding="utf-8").replace(text, "")
    store.write_bytes(LOCK, re.sub(r"stages:\n\Z", "stages: {}\n", remaining).encode())


def _difference(note: Mapping[str, Any], text: str) -> str:
    """What a stage ran with and what its entry in dvc.lock says, if the entry is of the same results; else ""."""
    with suppress(WsoupError, LookupError, TypeError, AttributeError):  # a damaged dvc.lock, a stage that is gone
        entry, ran = _parsed(note["stage"], text), note["ran"]
        outs, values = {out["path"]: out.get("md5") for out in entry["outs"]}, _entry_values(entry, like=ran)
        if text == note["before"] or ran == values or any(outs.get(out) != md5 for out, md5 in note["outs"].items()):
            return ""  # DVC has recorded nothing yet, or the right thing, or other results
        for key, now in _in_lock_terms(read_inputs(note["stage"])).items():
            ours, theirs = ran.get(key), values.get(key)
            if ours != theirs == now:
                if isinstance(ours, dict) and isinstance(theirs, dict):
                    names = {name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)}
                    ours, theirs = ({name: side[name] for name in side if name in names} for side in (ours, theirs))
                return f"{note['stage']} ran with {key} {shown_value(ours)}, and dvc.lock says {shown_value(theirs)}"
    return ""


def _in_lock_terms(inputs: Inputs) -> dict[str, Any]:
    """Params and deps as DVC writes them into dvc.lock."""
    return _as_json({**inputs.params, **{dep: _lock_state(dep, files) for dep, files in inputs.deps.items()}})


def _entry_values(entry: Mapping[str, Any], *, like: Mapping[str, Any]) -> dict[str, Any]:
    """Params and deps of an entry of dvc.lock, with the same fields for each dep as `like` has."""
    params = {f"{file}: {key}": value for file, keys in entry.get("params", {}).items() for key, value in keys.items()}
    deps = {dep["path"]: {name: dep.get(name) for name in like.get(dep["path"], {})} for dep in entry.get("deps", [])}
    return _as_json({**params, **deps})


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Values as they come back from a note."""
    return dict(json.loads(json.dumps(values, default=str)))


def _lock_state(place: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """A file or folder as in dvc.lock: its MD5 if that of every file is known, else its size."""
    if place in files:
        state = files[place]
        return {"md5": state} if isinstance(state, str) else {"size": state[0]} if state else {}
    if all(isinstance(state, str) for state in files.values()):
        paths = sorted((path[len(place) + 1 :], state) for path, state in files.items())
        listing = json.dumps([{"md5": state, "relpath": path} for path, state in paths])
        return {"md5": f"{hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest()}.dir"}
    return {"size": sum(state[0] for state in files.values() if isinstance(state, tuple)), "nfiles": len(files)}


def _entry_text(stage: str) -> str:
    """The text of a stage's entry in dvc.lock, or ""; parsing the whole file takes a second."""
    try:
        text = LOCK.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    match = re.search(rf"^  {re.escape(stage)}:\n((?:    .*\n|\n)*)", text, re.MULTILINE)
    return match[0] if match else ""


def _parsed(stage: str, text: str) -> Mapping[str, Any]:
    return parse_yaml(text, origin=str(LOCK))[stage]


def _dvc_process(outs: Sequence[str]) -> str:
    """Machine, id and start time of the process that holds DVC's lock on a stage's outs; "" if none does."""
    places = {str(Path(out).resolve()) for out in outs}
    with suppress(OSError, ValueError, LookupError):
        held = json.loads((Path(os.environ["DVC_ROOT"]) / ".dvc/tmp/rwlock").read_text(encoding="utf-8"))["write"]
        holders = [holder["pid"] for place, holder in held.items() if str(Path(place).resolve()) in places]
        started = Path(f"/proc/{holders[0]}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{store.place()} {holders[0]} {started}"
    return ""


def _notes() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The notes that stages of this folder left."""
    for path in sorted((store.cache_dir() / "locks").glob("*.ran")):
        with suppress(WsoupError, ValueError):
            note = json.loads(store.read_checked(path))
            if note["folder"] == str(Path.cwd()):  # several folders may share a cache
                yield path, note
