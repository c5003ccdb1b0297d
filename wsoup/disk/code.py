"""What code means: the digests by which DVC, resume state, Ray and whatever is remembered know that code has changed.

DVC does not follow imports. This module does, by parsing: a stage's code is its script and every module of wsoup that
these import when they run. The digest is of what they mean (syntax.py), so a comment or the name of a variable does not
count. Stage `code` writes the digests of all stages to artifacts/code.yaml, which dvc.yaml names.

`NOT_FOLLOWED` lists the modules that stages import or begin with, and that change no result. The ``__init__.py`` of a
room holds only a docstring, so it does not count; nor does an import under ``if TYPE_CHECKING``, which is never
executed. A module is followed by its name, so no import may stop at a room or at the public face (a test of the house).
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.disk import parsed, syntax

ROOT = Path(__file__).parents[2]
"""The folder of this wsoup: a checkout, or where packages are installed."""
ALL_KINDS = "wsoup/search/grow/all_kinds.py"
NOT_FOLLOWED = {
    "stages/__main__.py": "starts a stage",
    "wsoup/__init__.py": "the public face; sets how threads wait",
    "wsoup/base/arguments.py": "refuses arguments of the wrong type",
    "wsoup/base/arrays.py": "takes arrays of users, which no stage has",
    "wsoup/base/errors.py": "words of errors",
    "wsoup/base/processor.py": "chooses between ways of counting that give the same counts",
    "wsoup/base/project.py": "finds wsoup's own files, which are deps themselves",
    "wsoup/base/remote.py": "opens URLs; what is read is checked by the reader",
    "wsoup/base/validation.py": "refuses values, and suggests the nearest name",
    "wsoup/pipeline/params.py": "refuses params whose sections do not agree",
    "wsoup/pipeline/checks/preflight.py": "refuses what would stop a later stage",
    "wsoup/pipeline/stage.py": "runs a stage: its command line, its lock, its checks",
    "wsoup/runtime/ending.py": "ends a process",
    "wsoup/runtime/memory.py": "gives memory back",
    "wsoup/runtime/peak.py": "measures memory, which is reported beside results",
    "wsoup/runtime/progress.py": "shows progress",
    "wsoup/runtime/threads.py": "divides work between threads, whose number may not change a result",
    "wsoup/runtime/work.py": "runs shards here or on Ray, which may not change a result",
    ALL_KINDS: "lists the kinds of soup: an edit of one would run the soups of all",
}
"""Modules that decide no result, with the reason; besides these two and the list of kinds, in `UNDECIDING` rooms."""
UNDECIDING = ("wsoup/base", "wsoup/pipeline", "wsoup/runtime")
DECIDING = {
    "torch": ("torch",),
    "open_clip": ("open_clip_torch", "torchvision", "pillow"),
    "PIL": ("pillow",),
    "numpy": ("numpy",),
    "wordfreq": ("wordfreq",),
}
"""Imported name -> the distributions whose versions may change numbers where it is imported."""
DISTRIBUTIONS = frozenset().union(*DECIDING.values())


# -------------------------------------------------------------------------------------------------- following imports


class Source(NamedTuple):
    """What one file says: the modules of wsoup that it imports directly, also inside functions, the names of other
    packages, and a digest of its meaning."""

    modules: frozenset[Path]
    packages: frozenset[str]
    meaning: str


def source(path: Path) -> Source:
    """Read a file; it is parsed once, in this process or an earlier one, and again after an edit.

    Raises:
        DataError: it is not Python.
    """
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@cache
def _read(path: Path, modified: int, size: int) -> Source:
    content = path.read_bytes()
    key = hashlib.sha256(content).hexdigest()
    known = parsed.kept(_maker())
    if key not in known:
        known[key] = _parsed(content, path=path)
    _used.add(key)
    names, packages, meaning = known[key]
    files = {_module_file(name, beside=path) for name in names}
    return Source(frozenset(file for file in files if file is not None), frozenset(packages), meaning)


_used: set[str] = set()
"""Keys of the files that this process has read."""


@cache
def _maker() -> str:
    """The version of the code that parses, whose answers are kept."""
    parts = [Path(file).read_bytes() for file in (__file__, syntax.__file__)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def keep_parsed() -> None:
    """Keep what this process has parsed, for the next ones."""
    parsed.keep(_maker(), used=_used)


def _parsed(content: bytes, *, path: Path) -> parsed.Parsed:
    try:
        tree = ast.parse(content)
    except SyntaxError as error:
        raise DataError(f"{path}, line {error.lineno}: {error.msg}; mend it, then run the stage again") from None
    of_wsoup: set[str] = set()
    packages: set[str] = set()
    for name in _imported(tree):
        package = name.split(".")[0]
        if package:
            packages.add(package)
        if package in ("wsoup", ""):
            of_wsoup.add(name)
    return parsed.Parsed(sorted(of_wsoup), sorted(packages), syntax.meaning(tree))


def _imported(tree: ast.Module) -> Iterator[str]:
    """Names of modules, and of what may be one; a relative name begins with its dots."""
    for statement in _executed(tree.body):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.name
        elif isinstance(statement, ast.ImportFrom):
            room = "." * statement.level
            if statement.module:
                yield f"{room}{statement.module}"
                room += f"{statement.module}."
            # Of `from a import b`, b may be a module or a name inside a.
            for alias in statement.names:
                yield f"{room}{alias.name}"


def _executed(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These statements and all inside them; faster than `ast.walk`, which also walks expressions."""
    for statement in statements:
        yield statement
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            if part != "body" or not _is_for_type_checkers(statement):
                yield from _executed(getattr(statement, part, ()))


def _is_for_type_checkers(statement: ast.AST) -> bool:
    """Whether a statement is ``if TYPE_CHECKING``."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _module_file(name: str, *, beside: Path) -> Path | None:
    """wsoup.a.b, or ..a.b in the file `beside`, -> its file; None for a package or a name inside a module."""
    inner = name.lstrip(".")
    level = len(name) - len(inner)
    folder = beside.parents[level - 1] if level else ROOT
    # Asked of four thousand names by each command that compares code, so as a text: most are no module.
    file = f"{folder}/{inner.replace('.', '/')}.py"
    return Path(file) if os.path.isfile(file) else None


def modules(*files: Path) -> list[Path]:
    """These files and every module of wsoup that their result depends on, sorted."""
    seen = set(files)
    todo = list(files)
    while todo:
        for file in source(todo.pop()).modules - seen:
            if _name(file) not in NOT_FOLLOWED:
                seen.add(file)
                todo.append(file)
    return sorted(seen)


def library() -> list[Path]:
    """Every module of wsoup, without the project's own files that an installed wsoup has inside."""
    every = (ROOT / "wsoup").rglob("*.py")
    return sorted(file for file in every if project.INSIDE not in file.parts)


# ------------------------------------------------------------------------------------------------------------ digests


def digests(stages: Path) -> dict[str, str | dict[str, str]]:
    """The digest of each stage's code, by the name of its script; those of stage soup by kind of soup.

    Args:
        stages: the folder of the scripts.
    """
    by_stage: dict[str, str | dict[str, str]] = {}
    for script in sorted(stages.glob("[a-z]*.py")):
        if script.stem == "soup":
            by_kind = {name: digest(modules(script, kind)) for name, kind in kinds().items()}
            by_stage[script.stem] = by_kind
        elif script.stem != "code":
            by_stage[script.stem] = digest(modules(script))
    return by_stage


def kinds() -> dict[str, Path]:
    """The module of each kind of soup, by its name in params.yaml."""
    listed = source(ROOT / ALL_KINDS).modules
    beside = (ROOT / ALL_KINDS).parent
    return {file.stem: file for file in sorted(listed) if file.parent == beside}


def digest(files: Iterable[Path]) -> str:
    """A digest of the names of some files and of what they mean."""
    meanings = {_name(file): source(file).meaning for file in files}
    lines = [f"{name} {meanings[name]}\n" for name in sorted(meanings)]
    return syntax.short_digest("".join(lines))


@cache  # of paths, which are slow to compare: digests of all stages ask for the names of 250 files 3,500 times
def _name(file: Path) -> str:
    """The path of a module below `ROOT`, or a script and its folder: a project that is moved keeps its work."""
    if file.is_relative_to(ROOT / "wsoup"):
        return file.relative_to(ROOT).as_posix()
    return f"{file.parent.name}/{file.name}"


# ----------------------------------------------------------------------------------------------------------- packages


def packages(script: Path) -> dict[str, str]:
    """Versions of the packages that may change a script's numbers, by distribution."""
    distributions: set[str] = set()
    for file in modules(script):
        for name in source(file).packages & DECIDING.keys():
            distributions.update(DECIDING[name])
    return installed(distributions)


def installed(distributions: Set[str] = DISTRIBUTIONS) -> dict[str, str]:
    """Installed versions, sorted by distribution."""
    return {name: version(name) for name in sorted(distributions)}


def differing(ours: Mapping[str, str], theirs: Mapping[str, object]) -> list[str]:
    """A clause for each version that differs; builds of one version (2.9.1+cpu, 2.9.1+cu128) are equal.

    >>> differing({"numpy": "2.4.6", "torch": "2.9.1+cpu"}, {"numpy": "2.5.0", "torch": "2.9.1"})
    ['numpy 2.4.6 is installed, not 2.5.0']
    """
    clauses = []
    for name, version_and_build in ours.items():
        number = _without_build(version_and_build)
        expected = _without_build(str(theirs.get(name)))
        if number != expected:
            clauses.append(f"{name} {number} is installed, not {expected}")
    return clauses


def _without_build(number: str) -> str:
    return number.partition("+")[0]
