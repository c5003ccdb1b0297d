"""Pipeline folders (`wsoup init`).

A pipeline folder holds what a checkout does except for the library: dvc.yaml, params.yaml, stages and data. Stages of a
checkout name the library's code as deps; here they name ``code/<room>.json`` instead, with a digest of that code. A
stage refuses to run with another wsoup than that; `wsoup init` again brings the folder up to date, and DVC then runs
what the changed code decides.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

import wsoup
from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.disk import code, store
from wsoup.pipeline.packages import VERSIONS, versions_yaml
from wsoup.runtime.git import git

RECORD = "code/wsoup.json"
"""Which files `wsoup init` wrote, with their digests, to tell which of them the user has changed."""
USER_FILES = ("params.yaml", "data/toy/params.yaml", "data/toy/dvc.lock", ".gitignore", "data/toy/.gitignore")
"""Files that are written once and never updated."""
GITIGNORE = "/.cache/\n/artifacts/\n/reports/index.html\n__pycache__/\n*.py[cod]\n.*.tmp\n"
DVC_CONFIG = "[core]\n    analytics = false\n    check_update = false\n"
KIND = "wsoup/search/grow/${item.kind}.py"
"""How dvc.yaml names the module of a soup's own kind."""
ROOM = rf"{re.escape(KIND)}|\bwsoup/[a-z_/]+\b(?:\.py)?"
"""A room, or a single module, in dvc.yaml."""
PLOT_TEMPLATES = "wsoup/report/templates"


def create(folder: Path) -> list[str]:
    """Make a pipeline folder or bring one up to date; returns one line on each thing done.

    A file that the user has changed stays, and so does one that this wsoup no longer has.

    Raises:
        DataError: the folder holds something else, or its record of files is damaged.
    """
    record = folder / RECORD
    if folder.exists() and any(folder.iterdir()) and not record.is_file():
        raise DataError(f"{folder} is not empty and was not made by `wsoup init`; name a new folder")
    recorded: object = {}
    if record.is_file():
        recorded = store.read_object(record).get("files")
    if not isinstance(recorded, dict):
        raise DataError(f"{record} is not what `wsoup init` wrote; restore it from git, or make a new folder")
    digests = {}
    kept = []
    for name, content in sorted(_contents().items()):
        path = folder / name
        digests[name] = hashlib.sha256(content).hexdigest()
        if not path.is_file():
            store.write_bytes(path, content)
            continue
        # What this wsoup would write now, what an earlier one wrote, or the user's own.
        current = hashlib.sha256(path.read_bytes()).hexdigest()
        if name in USER_FILES or current == digests[name]:
            continue
        if current == recorded.get(name):
            store.write_bytes(path, content)
        else:
            kept.append(f"kept as you changed it: {name}")
    store.write_json(record, {"wsoup": wsoup.__version__, "files": digests})
    done = f"{folder}: a pipeline folder of wsoup {wsoup.__version__}, {len(digests)} files"
    return [done, *kept, *_set_up_dvc(folder)]


def _contents() -> dict[str, bytes]:
    """Every file of a pipeline folder, by its path; its dvc.yaml names the file with its digest in place of a room."""
    files = {name: project.file(name).read_bytes() for name in project.listed()}
    files[".gitignore"] = GITIGNORE.encode()
    dvc_yaml = files["dvc.yaml"].decode().replace(PLOT_TEMPLATES, "templates")
    rooms = {*re.findall(ROOM, dvc_yaml), *code.kinds()}
    # A soup names the module of its kind by params.yaml, which any of the kinds may be.
    rooms.remove(KIND)
    for room in rooms:
        files[code_file(room)] = f"{json.dumps(code.digest(room))}\n".encode()
    files["dvc.yaml"] = re.sub(ROOM, lambda room: code_file(room[0]), dvc_yaml).encode()
    files[str(VERSIONS)] = versions_yaml(code.installed()).encode()
    templates = Path(wsoup.__file__).parent / "report" / "templates"
    for path in templates.glob("*.json"):
        files[f"templates/{path.name}"] = path.read_bytes()
    return files


def _set_up_dvc(folder: Path) -> list[str]:
    """Make DVC's own folder, and a git repository if there is none, unless DVC is set up already."""
    config = folder / ".dvc" / "config"
    if config.exists():
        return []
    text = DVC_CONFIG
    done = []
    if not git("rev-parse", "--is-inside-work-tree", folder=folder):
        if git("init", "--quiet", folder=folder) is None:
            text += "    no_scm = true\n"
            done = ["git is not installed: `dvc repro` works, experiments and `wsoup compare` do not"]
        else:
            done = ["a git repository was begun there: `git add -A && git commit -m begin`"]
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text, encoding="utf-8")
    (config.parent / ".gitignore").write_text("/config.local\n/tmp\n/cache\n", encoding="utf-8")
    return done


def code_file(room: str) -> str:
    """Path of a room's digest in a pipeline folder.

    >>> code_file("wsoup/search/rank"), code_file("wsoup/search/grow/${item.kind}.py")
    ('code/search/rank.json', 'code/search/grow/${item.kind}.json')
    """
    return f"code/{room.removeprefix('wsoup/').removesuffix('.py')}.json"


def is_of_this_wsoup(folder: Path, *, rooms: Iterable[str]) -> bool:
    """Whether the digests in a pipeline folder, which DVC has hashed, are those of the installed rooms and kinds."""
    for room in (*rooms, *code.kinds()):
        file = folder / code_file(room)
        if not file.is_file() or store.read_json(file) != code.digest(room):
            return False
    return True
