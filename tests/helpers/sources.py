"""The code itself, parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from processes import ROOT

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def trees() -> dict[Path, ast.Module]:
    """Each file of the library, of the stages and of the benchmarks, parsed."""
    files = [*(ROOT / "wsoup").rglob("*.py"), *(ROOT / "stages").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(files)}
