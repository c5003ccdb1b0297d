"""The code and packages that a stage's result depends on.

DVC does not follow imports, so dvc.yaml lists rooms (folders of wsoup) by hand. This module follows a script's imports
by parsing the source, and a test compares. Rooms that change no result (progress bars, Ray, checks, the command line)
are in `UNDECIDING` and are not followed. An ``__init__.py`` holds only a docstring, so it does not count; nor does an
import under ``if TYPE_CHECKING``, which is never executed.

The keys of resume state go by what code means, module by module: a comment, a docstring or another format of the same
code keeps finished work, and so does an edit in a module that the stage never imports.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of this wsoup: a checkout, or where packages are installed."""
KINDS = ROOT / "wsoup" / "search" / "grow"
"""The folder whose modules are listed one by one: a stage soup depends on its own kind of soup, on no other."""
ALL_KINDS = KINDS / "all_kinds.py"
"""The list of kinds: a stage that follows it would run again for any of them."""
UNDECIDING = ("base", "pipeline", "runtime")
"""Rooms that stages import and that change no result."""
DECIDING = {
    "torch": ("torch",),
    "open_clip": ("open_clip_torch", "torchvision", "pillow"),
    "PIL": ("pillow",),
    "numpy": ("numpy",),
    "wordfreq": ("wordfreq",),
}
"""Imported name -> the distributions whose versions may change numbers where it is imported."""
DISTRIBUTIONS = frozenset().union(*DECIDING.values())


@cache
def imports(path: Path) -> tuple[frozenset[Path], frozenset[str]]:
    """Files of wsoup that a file imports directly, also inside functions, and the names of other packages."""
    modules: set[Path | None] = set()
    packages: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for statement in _executed(tree.body):
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module and statement.level == 0:
            # Of `from a import b`, b may be a module or a name inside a.
            names = [statement.module]
            names += [f"{statement.module}.{alias.name}" for alias in statement.names]
        for name in names:
            package = name.split(".")[0]
            packages.add(package)
            if package == "wsoup":
                modules.add(_module_file(name))
    files = frozenset(file for file in modules if file is not None)
    return files, frozenset(packages)


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


def _module_file(name: str) -> Path | None:
    """wsoup.a.b -> its file; None for a package or a name inside a module."""
    file = ROOT / (name.replace(".", "/") + ".py")
    return file if file.is_file() else None


def modules(script: Path) -> list[Path]:
    """The script and every file of wsoup that its result depends on, sorted."""
    seen = {script}
    todo = [script]
    while todo:
        imported, _ = imports(todo.pop())
        for file in imported - seen:
            if file.parent.name not in UNDECIDING and file != ALL_KINDS:
                seen.add(file)
                todo.append(file)
    return sorted(seen)


def rooms(script: Path) -> list[str]:
    """What dvc.yaml lists for a script: a room of which it imports every module, else the modules that it imports."""
    imported = set(modules(script)) - {script}
    places = set()
    for file in imported:
        beside = {other for other in file.parent.glob("*.py") if other.name != "__init__.py"}
        # Of `KINDS`, each module counts for itself: another kind of soup must not run a soup again.
        whole = file.parent != KINDS and beside <= imported
        places.add(file.parent if whole else file)
    return sorted(place.relative_to(ROOT).as_posix() for place in places)


def kinds() -> list[str]:
    """The modules of `KINDS`, as dvc.yaml lists them: ``wsoup/search/grow/chains.py``."""
    return sorted(file.relative_to(ROOT).as_posix() for file in KINDS.glob("[a-z]*.py"))


def digest(room: str) -> str:
    """A digest of the names and bytes of the Python files in a room, which may be a single module."""
    sha = hashlib.sha256()
    files = [ROOT / room]
    if not room.endswith(".py"):
        files = sorted((ROOT / room).rglob("*.py"))
    for file in files:
        if file.name != "__init__.py":
            sha.update(f"{file.relative_to(ROOT).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


def meanings(script: Path) -> dict[str, str]:
    """The `meaning` of the script and of every file of wsoup that its result depends on."""
    # Not by its whole path: a project that is moved keeps its finished work.
    digests = {f"{script.parent.name}/{script.name}": _meaning_of_file(script)}
    for file in modules(script):
        if file != script:
            digests[file.relative_to(ROOT).as_posix()] = _meaning_of_file(file)
    return digests


def _meaning_of_file(file: Path) -> str:
    return meaning(file.read_text(encoding="utf-8"))


@cache
def meaning(source: str) -> str:
    """A digest of the syntax tree of a source, without comments, docstrings, line numbers and formatting.

    >>> meaning("x = 1  # one") == meaning("\'\'\'One.\'\'\'\\nx = (1)"), meaning("x = 1") == meaning("x = 2")
    (True, False)
    """
    tree = _WithoutTexts().visit(ast.parse(source))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


class _WithoutTexts(ast.NodeTransformer):
    """Removes statements that are only a string: the docstrings of modules, classes, functions and attributes."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return node


def packages(script: Path) -> dict[str, str]:
    """Versions of the packages that may change a script's numbers, by distribution."""
    distributions: set[str] = set()
    for file in modules(script):
        _, imported = imports(file)
        for name in imported & DECIDING.keys():
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
