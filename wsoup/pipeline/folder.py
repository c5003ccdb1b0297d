"""Pipeline folders (`wsoup init`).

A pipeline folder holds what a checkout does except for the library: the same dvc.yaml, params.yaml, stages and data. In
the library's place lies a file (`wsoup.pipeline.installed`) that says which installed wsoup the folder belongs to. A
stage refuses to run with another one; `wsoup init` again brings the folder up to date, and DVC then runs what the
changed code decides.
"""

import hashlib
from pathlib import Path

import wsoup
from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.disk import code, store
from wsoup.pipeline.installed import RECORD, record_of, recorded_files
from wsoup.pipeline.packages import VERSIONS, versions_yaml
from wsoup.runtime.git import git

USER_FILES = (
    "params.yaml",
    "data/toy/params.yaml",
    "data/toy/dvc.lock",
    ".gitignore",
    ".gitattributes",
    "data/toy/.gitignore",
)
"""Files that are written once and never updated."""
GITIGNORE = "/.cache/\n/artifacts/\n/reports/index.html\n/reports/*.svg\n/dvc_plots/\n__pycache__/\n*.py[cod]\n.*.tmp\n"
GITATTRIBUTES = "# DVC hashes bytes: a checkout that changed line ends would run every stage.\n* -text\n"
DVC_CONFIG = "[core]\n    analytics = false\n    check_update = false\n"


def create(folder: Path) -> list[str]:
    """Make a pipeline folder or bring one up to date; returns one line on each thing done.

    A file that the user has changed stays, and so does one that this wsoup no longer has.

    Raises:
        DataError: the folder holds something else, its record of files is damaged, or it or a file is a broken link.
    """
    _check_link(folder)
    recorded = recorded_files(folder)
    if recorded is None:
        if folder.exists() and any(folder.iterdir()):
            raise DataError(f"{folder} is not empty and was not made by `wsoup init`; name a new folder")
        recorded = {}
    digests = {}
    kept = []
    for name, content in sorted(_contents().items()):
        path = folder / name
        _check_link(path)
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
    store.write_json(folder / RECORD, record_of(digests))
    done = f"{folder}: a pipeline folder of wsoup {wsoup.__version__}, {len(digests)} files"
    return [done, *kept, *_set_up_dvc(folder)]


def _check_link(path: Path) -> None:
    """Refuse a link to nothing, which a new file would replace."""
    if path.is_symlink() and not path.exists():
        raise DataError(f"{path} is a link to {path.readlink()}, which does not exist; make that, or remove the link")


def _contents() -> dict[str, bytes]:
    """Every file of a pipeline folder but the record, by its path."""
    files = {name: project.file(name).read_bytes() for name in project.file_names()}
    files[".gitignore"] = GITIGNORE.encode()
    files[".gitattributes"] = GITATTRIBUTES.encode()
    files[str(VERSIONS)] = versions_yaml(code.installed()).encode()
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
