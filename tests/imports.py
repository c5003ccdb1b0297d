"""What a stage script imports from wsoup, transitively, by parsing the source. DVC does not follow imports itself.

``python tests/imports.py`` writes the code files that each stage's ``deps`` must list into dvc.yaml; tests check them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def module_file(name: str) -> Path | None:
    """wsoup.a.b -> its file, relative to the project; None where there is no such module."""
    base = ROOT / name.replace(".", "/")
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path.relative_to(ROOT)
    return None


def direct_imports(path: Path) -> set[Path]:
    """Files of wsoup that one file imports, at its top or inside a function."""
    found: set[Path | None] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {module_file(alias.name) for alias in node.names if alias.name.startswith("wsoup")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("wsoup"):
            assert node.level == 0, f"{path}: relative imports are not used here"
            found.add(module_file(str(node.module)))
            found |= {module_file(f"{node.module}.{alias.name}") for alias in node.names}
    return {file for file in found if file is not None and file != path}


def all_imports(path: Path) -> set[Path]:
    """The same, transitively."""
    seen: set[Path] = set()
    todo = [path]
    while todo:
        new = direct_imports(todo.pop()) - seen
        seen |= new
        todo += new
    return seen


def expected_deps(script: Path) -> set[str]:
    """What dvc.yaml must list for a script: modules by file, subpackages by folder."""
    deps = {script.as_posix()}
    for file in all_imports(script):
        if len(file.parts) > 2:
            deps.add("/".join(file.parts[:2]))
        elif file.name != "__init__.py":
            deps.add(file.as_posix())
    return deps


def with_code_deps(dvc_yaml: str) -> str:
    """The text of dvc.yaml with the code files of every stage's deps brought up to date."""
    lines: list[str] = []
    script = ""
    written = False
    for line in dvc_yaml.splitlines():
        if found := re.search(r"python (stages/\w+\.py)", line):
            script, written = found[1], False
        if found := re.match(r"( +)- (stages|wsoup)/", line):
            if not written:
                lines += [f"{found[1]}- {dep}" for dep in sorted(expected_deps(Path(script)))]
                written = True
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    file = ROOT / "dvc.yaml"
    file.write_text(with_code_deps(file.read_text(encoding="utf-8")), encoding="utf-8")
