"""What a stage ran with, held against what DVC recorded of it.

A stage compares what it reads with its start (`inputs`), and ends; DVC takes its own look a moment later, and what is
edited in between would be recorded as what made the results. So a stage leaves a note of what it ran with, in DVC's
terms. Who comes next holds it against dvc.lock: the next stage of the same DVC process, for which the entry there can
only be of that very run, or `wsoup check` and `wsoup results`, for which it can also be of something later.

Only what dvc.lock says *and* is there now counts: DVC calls nothing else up to date, and what DVC counts in another way
(with patterns in .dvcignore, say) is no edit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from typing import Any

from wsoup.core.disk import store
from wsoup.core.errors import ChangedError, WsoupError, shown_value
from wsoup.core.params.section import parse_yaml
from wsoup.pipeline import inputs

LOCK = Path("dvc.lock")


def leave(stage: str, read: inputs.Read) -> None:
    """Note what a stage that ends well ran with, where DVC runs it."""
    if "DVC_STAGE" not in os.environ or not read.outs:
        return
    outs = {
        out: _in_dvcs_terms(out, {str(path): inputs.md5(path) for path in inputs.files_of(Path(out))}).get("md5")
        for out in read.outs
    }
    note = {
        "stage": stage,
        "folder": str(Path.cwd()),
        "run": _dvc_process(read.outs),
        "before": _entry_text(stage),
        "ran": _ran(read),
        "outs": outs,
    }
    with suppress(WsoupError):  # a full disk: the results are in place
        store.write_checked(store.cache_dir() / "locks" / f"{stage}.ran", json.dumps(note).encode())


def check(stage: str, *, outs: Sequence[str]) -> None:
    """Before any work of a stage: what earlier stages of this DVC process ran with is what DVC recorded of them.

    Where it is not, what was recorded is taken back, from dvc.lock and from DVC's run cache: that stage runs again.

    Raises:
        ChangedError: which stage, what it ran with, and what dvc.lock said.
    """
    run = _dvc_process(outs)
    for path, note in _notes():
        if note["run"] != run or not run or note["stage"] == stage:
            continue
        text = _entry_text(note["stage"])
        differing = _differing(note, text)
        if differing:
            _forget(note, text)
        path.unlink(missing_ok=True)
        if differing:
            raise ChangedError(
                f"{differing}, edited just after its end; the entry is out of dvc.lock, run `dvc repro` again"
            )


def doubted() -> list[str]:
    """Stages of which dvc.lock says something else than they ran with, in a line each.

    Where DVC's run cache has what such a stage ran with, DVC had recorded that, and what dvc.lock says came later.
    """
    lines = []
    for _, note in _notes():
        text = _entry_text(note["stage"])
        if differing := _differing(note, text):
            from wsoup.pipeline.graph import cached_runs  # DVC takes a second to import

            runs, recorded = list(cached_runs(note["outs"].values())), _parsed(note["stage"], text)
            wrong = [place.parent for place, entry in runs if entry == recorded]
            if wrong and all(_said(entry, like=note["ran"]) != note["ran"] for _, entry in runs):
                lines.append(
                    f"{differing}, edited just after its end, or committed (`dvc commit`); unless you committed it, "
                    f"remove {os.path.relpath(wrong[0])} and run `dvc repro --force --single-item {note['stage']}`"
                )
    return lines


def _forget(note: Mapping[str, Any], text: str) -> None:
    """Take an entry out of dvc.lock, and out of DVC's run cache, which would restore the results from it."""
    from wsoup.pipeline.graph import cached_runs

    wrong = _parsed(note["stage"], text)
    for place, entry in cached_runs(note["outs"].values()):
        if entry == wrong:
            place.unlink()
            with suppress(OSError):
                place.parent.rmdir()  # DVC ends where it is empty; there may be older runs
    rest = LOCK.read_text(encoding="utf-8").replace(text, "")
    store.write_bytes(LOCK, re.sub(r"stages:\n\Z", "stages: {}\n", rest).encode())


def _differing(note: Mapping[str, Any], text: str) -> str:
    """What a stage ran with and what its entry in dvc.lock says, where that is of the same results; else ""."""
    with suppress(WsoupError, LookupError, TypeError, AttributeError):  # half of a dvc.lock; a stage that is no more
        entry, ran = _parsed(note["stage"], text), note["ran"]
        outs, said = {out["path"]: out.get("md5") for out in entry["outs"]}, _said(entry, like=ran)
        if text == note["before"] or ran == said or any(outs.get(out) != md5 for out, md5 in note["outs"].items()):
            return ""  # DVC has recorded nothing, or just that, or other results
        for key, now in _ran(inputs.read(note["stage"])).items():
            ours, theirs = ran.get(key), said.get(key)
            if ours != theirs == now:
                if isinstance(ours, dict) and isinstance(theirs, dict):
                    names = {name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)}
                    ours, theirs = ({name: side[name] for name in side if name in names} for side in (ours, theirs))
                return f"{note['stage']} ran with {key} {shown_value(ours)}, and dvc.lock says {shown_value(theirs)}"
    return ""


def _ran(read: inputs.Read) -> dict[str, Any]:
    """Params and deps as DVC writes them into dvc.lock."""
    deps = {dep: _in_dvcs_terms(dep, files) for dep, files in read.deps.items()}
    return _plain({**read.params, **deps})


def _said(entry: Mapping[str, Any], *, like: Mapping[str, Any]) -> dict[str, Any]:
    """The same of an entry of dvc.lock; of a dep what the other has of it."""
    params = {f"{file}: {key}": value for file, keys in entry.get("params", {}).items() for key, value in keys.items()}
    deps = {dep["path"]: {name: dep.get(name) for name in like.get(dep["path"], {})} for dep in entry.get("deps", [])}
    return _plain({**params, **deps})


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """As a note has it once it is read."""
    return dict(json.loads(json.dumps(value, default=str)))


def _in_dvcs_terms(place: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """What DVC writes into dvc.lock of a file or folder: its MD5 where those of files are known, else its size."""
    if place in files:
        state = files[place]
        return {"md5": state} if isinstance(state, str) else {"size": state[0]} if state else {}
    if all(isinstance(state, str) for state in files.values()):
        inside = sorted((path[len(place) + 1 :], state) for path, state in files.items())
        listed = json.dumps([{"md5": state, "relpath": path} for path, state in inside])
        return {"md5": f"{md5(listed.encode(), usedforsecurity=False).hexdigest()}.dir"}
    return {"size": sum(state[0] for state in files.values() if isinstance(state, tuple)), "nfiles": len(files)}


def _entry_text(stage: str) -> str:
    """A stage's entry in dvc.lock as it is written there, "" where there is none; all of the file takes a second."""
    try:
        text = LOCK.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    match = re.search(rf"^  {re.escape(stage)}:\n((?:    .*\n|\n)*)", text, re.MULTILINE)
    return match[0] if match else ""


def _parsed(stage: str, text: str) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = parse_yaml(text, origin=str(LOCK))[stage]
    return entry


def _dvc_process(outs: Sequence[str]) -> str:
    """Which DVC process runs the stage of these outs: who holds DVC's lock on them, and since when it is; or ""."""
    places = {str(Path(out).resolve()) for out in outs}
    with suppress(OSError, ValueError, LookupError):
        held = json.loads((Path(os.environ["DVC_ROOT"]) / ".dvc/tmp/rwlock").read_text(encoding="utf-8"))["write"]
        holders = [holder["pid"] for place, holder in held.items() if str(Path(place).resolve()) in places]
        started = Path(f"/proc/{holders[0]}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{store.place()} {holders[0]} {started}"
    return ""


def _notes() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The notes on stages of this folder."""
    for path in sorted((store.cache_dir() / "locks").glob("*.ran")):
        with suppress(WsoupError, ValueError):
            note = json.loads(store.read_checked(path))
            if note["folder"] == str(Path.cwd()):  # a cache folder may serve several
                yield path, note
