"""Which code and which packages decide a stage's result: its `deps` in dvc.yaml and the keys of its resume state.

Both come from the imports of the stage's script, followed transitively by parsing the source: DVC does not follow
imports itself. ``python -m wsoup.resume.code`` brings the code files in dvc.yaml's deps up to date; a test compares.
Packages' ``__init__.py`` hold a docstring and nothing else, so they decide nothing (.dvcignore leaves them out).
"""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The tree that this wsoup stands in: a checkout, or where packages are installed."""
DECIDING = {
    "torch": ("torch",),
    "open_clip": ("open_clip_torch", "torchvision", "pillow"),
    "PIL": ("pillow",),
    "numpy": ("numpy",),
    "wordfreq": ("wordfreq",),
}
"""Imported name -> the distributions whose version decides numbers where it is imported."""
UNDECIDING = ("check", "pipeline")
"""Rooms that decide no result: a stage imports them to begin with, and what they import is not followed."""
WIDTH = 120


@cache
def _source_imports(path: Path) -> tuple[frozenset[Path], frozenset[str]]:
    """Modules of wsoup that one file imports, at its top or inside a function, and the names of other packages."""
    modules: set[Path | None] = set()
    packages: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        modules |= {_module_file(name) for name in names if name.split(".")[0] == "wsoup"}
        packages |= {name.split(".")[0] for name in names}
    return frozenset(file for file in modules if file is not None), frozenset(packages)


def _module_file(name: str) -> Path | None:
    """wsoup.a.b -> its file; None for a package, or a name inside a module."""
    file = ROOT / (name.replace(".", "/") + ".py")
    return file if file.is_file() else None


def imports(path: Path) -> set[Path]:
    """Files of wsoup that one file imports directly."""
    return set(_source_imports(path)[0])


def modules(script: Path) -> list[Path]:
    """The script and every file of wsoup that it imports, transitively, sorted."""
    seen, todo = {script}, [script]
    while todo:
        new = {file for file in imports(todo.pop()) if file.parent.name not in UNDECIDING} - seen
        seen |= new
        todo += new
    return sorted(seen)


def digests(script: Path) -> dict[str, str]:
    """A digest of each of `modules`, by its path in the tree."""
    return {_shown(file): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in modules(script)}


def library_digests(script: Path) -> dict[str, str]:
    """The same without the script itself: what a pipeline folder of an installed wsoup keeps in code/<stage>.json."""
    return {name: digest for name, digest in digests(script).items() if name != _shown(script)}


def packages(script: Path) -> dict[str, str]:
    """Versions of the packages that decide numbers in a script, by the name of their distribution."""
    imported = {name for file in modules(script) for name in _source_imports(file)[1]}
    found = {}
    for name in sorted({d for key, distributions in DECIDING.items() if key in imported for d in distributions}):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def _shown(file: Path) -> str:
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else f"{file.parent.name}/{file.name}"


# ---------------------------------------------------------------------------------------------------- dvc.yaml


def deps(script: Path) -> list[str]:
    """The code that dvc.yaml lists for a script: whole packages where all of their modules are used, else files."""
    files = set(modules(script)) - {script}
    listed = {script}
    for folder in sorted({file.parent for file in files}):
        inside = {file for file in folder.glob("*.py") if file.name != "__init__.py"}
        listed |= {folder} if folder.name != "wsoup" and inside <= files else files & inside
    return sorted(_shown(path) for path in listed)


def with_code_deps(dvc_yaml: str, *, root: Path = ROOT) -> str:
    """The text of dvc.yaml with the code in every stage's deps brought up to date.

    Code stands behind the data in the deps, in lines of names between ``# code`` and the end of the list.
    """
    lines: list[str] = []
    script, inside = Path(), False
    for line in dvc_yaml.splitlines():
        if found := re.search(r"python -m stages\.(\w+)", line):
            script = root / "stages" / f"{found[1]}.py"
        if inside and line.strip() == "]":
            inside = False
        if not inside:
            lines.append(line)
        if line.strip() == "# code":
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            lines += textwrap.wrap(
                ", ".join(deps(script)) + ",",
                width=WIDTH,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    place = ROOT / "dvc.yaml"
    place.write_text(with_code_deps(place.read_text(encoding="utf-8")), encoding="utf-8")
