"""`wsoup init`: a pipeline folder made from the installed package.

It holds what a checkout holds but the library: dvc.yaml, params.yaml, stages and data. Where a checkout's stages name
the library's rooms as deps, here each names small files, ``code/<room>.json``, with a digest of the room. A stage
refuses to run with another wsoup than that; `wsoup init` in the folder again brings both up to date, and DVC then runs
again what the changed code decides.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import wsoup
from wsoup.core.disk import code, project, store
from wsoup.core.errors import DataError
from wsoup.pipeline import packages
from wsoup.runtime.git import git

RECORD = "code/wsoup.json"
"""Which files the folder got, with the digest that each had: what the user has changed since is left alone."""
THE_USERS = ("params.yaml", "data/toy/params.yaml", "data/toy/dvc.lock", ".gitignore", "data/toy/.gitignore")
"""Files that are written once and never again."""
GITIGNORE = "/.cache/\n/artifacts/\n__pycache__/\n*.py[cod]\n.*.tmp\n"
PLOT_TEMPLATES = "wsoup/report/templates"


def create(folder: Path) -> list[str]:
    """Make a pipeline folder, or bring one up to date; says what was done, one line each.

    Raises:
        DataError: the folder holds something else, or its record of what it got is damaged.
    """
    record = folder / RECORD
    if folder.exists() and any(folder.iterdir()) and not record.is_file():
        raise DataError(f"{folder} is not empty and was not made by `wsoup init`; name a new folder")
    before = _files_before(record) if record.is_file() else {}
    written, kept = {}, []
    for name, content in sorted(_contents().items()):
        place, digest = folder / name, hashlib.sha256(content).hexdigest()
        found = hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else None
        if found not in (None, digest) and (name in THE_USERS or found != before.get(name)):
            if name not in THE_USERS:
                kept.append(name)
            written[name] = before.get(name, digest)
            continue
        if found != digest:
            store.write_bytes(place, content)
        written[name] = digest
    for name in set(before) - set(written):  # what an earlier wsoup put there, and this one has no more
        if (folder / name).is_file() and hashlib.sha256((folder / name).read_bytes()).hexdigest() == before[name]:
            (folder / name).unlink()
    store.write_json(record, {"wsoup": wsoup.__version__, "files": written})
    said = [f"{folder}: a pipeline folder of wsoup {wsoup.__version__}, {len(written)} files"]
    said += [f"kept as you changed it: {name}" for name in kept]
    return said + _set_up_dvc(folder)


def _files_before(record: Path) -> dict[str, str]:
    """What the folder got when it was made, with each file's digest."""
    found = store.read_json(record)
    files = found.get("files") if isinstance(found, dict) else None
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise DataError(
            f"{record} is not what `wsoup init` wrote; restore it from git, or make a new folder and copy params.yaml"
        )
    return files


def _contents() -> dict[str, bytes]:
    """Every file of a pipeline folder, by its path."""
    files = {name: project.file(name).read_bytes() for name in project.listed()}
    files[".gitignore"] = GITIGNORE.encode()
    for room in sorted(set(re.findall(r"\bwsoup/[a-z/]+\b", files["dvc.yaml"].decode().replace(PLOT_TEMPLATES, "")))):
        files[code_file(room)] = f"{json.dumps(code.digest(room))}\n".encode()
    files["dvc.yaml"] = pipeline(files["dvc.yaml"].decode()).encode()
    files[str(packages.VERSIONS)] = packages.as_yaml(code.installed()).encode()
    templates = Path(wsoup.__file__).parent / "report" / "templates"
    files |= {f"templates/{path.name}": path.read_bytes() for path in sorted(templates.glob("*.json"))}
    return files


def pipeline(dvc_yaml: str) -> str:
    """dvc.yaml of a checkout as a pipeline folder has it: a small file with a digest stands for each room.

    >>> pipeline("deps: [stages/embed.py, wsoup/texts, wsoup/search/rank]")
    'deps: [stages/embed.py, code/texts.json, code/search/rank.json]'
    """
    here = dvc_yaml.replace(PLOT_TEMPLATES, "templates")
    return re.sub(r"\bwsoup/([a-z/]+)\b", lambda room: code_file(room[0]), here)


def code_file(room: str) -> str:
    """Where a pipeline folder keeps the digest of a room.

    >>> code_file("wsoup/search/rank")
    'code/search/rank.json'
    """
    return f"code/{room.removeprefix('wsoup/')}.json"


def is_of_this_wsoup(folder: Path, *, rooms: Iterable[str]) -> bool:
    """Whether the digests that a pipeline folder keeps, which DVC has hashed, are those of the installed rooms."""
    kept = {room: folder / code_file(room) for room in rooms}
    return all(file.is_file() and store.read_json(file) == code.digest(room) for room, file in kept.items())


def _set_up_dvc(folder: Path) -> list[str]:
    """DVC's own folder, and a git repository where there is none; what is there already is left alone."""
    config = folder / ".dvc" / "config"
    if config.exists():
        return []
    has_git = shutil.which("git")
    inside = has_git and git("rev-parse", "--is-inside-work-tree", folder=folder)
    said = []
    if has_git and not inside:
        git("init", "--quiet", folder=folder)
        said = ["a git repository was begun there: `git add -A && git commit -m begin`"]
    config.parent.mkdir(parents=True, exist_ok=True)
    lines = "[core]\n    analytics = false\n    check_update = false\n"
    if not has_git:
        lines += "    no_scm = true\n"
        said = ["git is not installed: `dvc repro` works, experiments and `wsoup compare` do not"]
    config.write_text(lines, encoding="utf-8")
    (config.parent / ".gitignore").write_text("/config.local\n/tmp\n/cache\n", encoding="utf-8")
    return said
