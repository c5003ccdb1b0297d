"""Notebooks are run as Jupyter runs them, without Jupyter.

    python tests/helpers/notebooks.py docs/paper_soup.ipynb      # in the project's folder: writes the outputs

An output is what a cell prints to stdout, then the value of its last line if that is an expression.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def executed(notebook: Notebook) -> Notebook:
    """The same notebook with the outputs of its code cells."""
    names: dict[str, object] = {}
    cells = []
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell = {**cell, "execution_count": number, "outputs": _outputs("".join(cell["source"]), names, number)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def text_of(outputs: list[dict[str, Any]]) -> str:
    """The text of a cell's outputs."""
    lines: list[str] = []
    for output in outputs:
        lines += output["text"] if "text" in output else output["data"]["text/plain"]
    return "".join(lines)


def _outputs(source: str, names: dict[str, object], number: int) -> list[dict[str, Any]]:
    parsed = ast.parse(source)
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(parsed, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append(
            {"data": shown, "execution_count": number, "metadata": {}, "output_type": "execute_result"},
        )
    return outputs


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        made = executed(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
