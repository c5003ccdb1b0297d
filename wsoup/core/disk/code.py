"""Which code and which packages decide a stage's result: the keys of its resume state, and what dvc.yaml must list.

DVC does not follow imports, so dvc.yaml names rooms (folders of wsoup) by hand. Here a script's imports are followed by
parsing the source; a test holds that every module they lead to lies in a room that the stage lists. What decides no
result (progress bars, Ray, checks, the command line) is in `UNDECIDING`, and is not followed.
Packages' ``__init__.py`` hold a docstring and nothing else, so they decide nothing (.dvcignore leaves them out).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[3]
"""The tree that this wsoup stands in: a checkout, or where packages are installed."""
UNDECIDING = ("check", "pipeline", "runtime")
"""Rooms that a stage imports and that decide no result."""
DECIDING = {
    "torch": ("torch",),
    "open_clip": ("open_clip_torch", "torchvision", "pillow"),
    "PIL": ("pillow",),
    "numpy": ("numpy",),
    "wordfreq": ("wordfreq",),
}
"""Imported name -> the distributions whose version decides numbers where it is imported."""


@cache
def _source_imports(path: Path) -> tuple[frozenset[Path], frozenset[str]]:
    """Modules of wsoup that one file imports, at its top or inside a function, and the names of other packages."""
    modules: set[Path | None] = set()
    packages: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        modules |= {_module_file(name) for name in names if name.split(".")[0] == "wsoup"}
        packages |= {name.split(".")[0] for name in names}
    return frozenset(file for file in modules if file is not None), frozenset(packages)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All that are inside a module, a function or another statement; expressions hold none, and are left alone."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from _statements(inner)


def _module_file(name: str) -> Path | None:
    """wsoup.a.b -> its file; None for a package, or a name inside a module."""
    file = ROOT / (name.replace(".", "/") + ".py")
    return file if file.is_file() else None


def imports(path: Path) -> set[Path]:
    """Files of wsoup that one file imports directly."""
    return set(_source_imports(path)[0])


def modules(script: Path) -> list[Path]:
    """The script and every file of wsoup that its result depends on, found by following imports, sorted."""
    seen, todo = {script}, [script]
    while todo:
        new = {file for file in imports(todo.pop()) if file.parent.name not in UNDECIDING} - seen
        seen |= new
        todo += new
    return sorted(seen)


def rooms(script: Path) -> list[str]:
    """The folders of wsoup that hold `modules`, as dvc.yaml lists them.

    One folder stands for itself and what is inside it, and also for all of its folders where it holds nothing else.
    """
    folders = {module.parent for module in modules(script) if module != script}
    folders |= {folder.parent for folder in folders if _parts(folder.parent) <= folders}
    outer = {folder for folder in folders if not any(parent in folders for parent in folder.parents)}
    return sorted(folder.relative_to(ROOT).as_posix() for folder in outer)


def _parts(folder: Path) -> set[Path]:
    """The folders inside a folder of wsoup that hold modules, and the folder itself where it holds any."""
    return {file.parent for file in folder.rglob("*.py") if file.name != "__init__.py"} | (
        {folder} if folder == ROOT / "wsoup" else set()
    )


def digest(room: str) -> str:
    """Of the Python files in a room and in its folders, with their names."""
    sha = hashlib.sha256()
    for file in sorted((ROOT / room).rglob("*.py")):
        if file.name != "__init__.py":
            sha.update(f"{file.relative_to(ROOT).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


def digests(script: Path) -> dict[str, str]:
    """A digest of the script and of each of its `rooms`."""
    own = hashlib.sha256(script.read_bytes()).hexdigest()[:16]
    return {f"{script.parent.name}/{script.name}": own, **{room: digest(room) for room in rooms(script)}}


def packages(script: Path) -> dict[str, str]:
    """Versions of the packages that decide numbers in a script, by the name of their distribution."""
    imported = {name for file in modules(script) for name in _source_imports(file)[1]}
    return installed({d for name, distributions in DECIDING.items() if name in imported for d in distributions})


def installed(distributions: set[str] | None = None) -> dict[str, str]:
    """The installed version of each, sorted by name; of all that decide numbers where none are named."""
    names = {d for all_of_one in DECIDING.values() for d in all_of_one} if distributions is None else distributions
    return {name: _version(name) for name in sorted(names)}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def differing(ours: Mapping[str, str], theirs: Mapping[str, object]) -> list[str]:
    """What differs between versions, one clause each; builds of one version (2.9.1+cpu, 2.9.1+cu128) are one.

    >>> differing({"numpy": "2.4.6", "torch": "2.9.1+cpu"}, {"numpy": "2.5.0", "torch": "2.9.1"})
    ['numpy 2.4.6 is installed, not 2.5.0']
    """
    public = {name: number.partition("+")[0] for name, number in ours.items()}
    return [
        f"{name} {number} is installed, not {str(theirs.get(name)).partition('+')[0]}"
        for name, number in public.items()
        if number != str(theirs.get(name)).partition("+")[0]
    ]
