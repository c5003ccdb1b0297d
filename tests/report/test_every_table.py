"""Every table and figure that the report can make is shown: one that nothing calls is missed by no other test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from half_done import is_used, of_rooms, trees
from processes import ROOT
from yaml_in_c import safe_load

from wsoup.report.figures import FIGURES

RUN = ROOT / "wsoup/report/run.py"


def makers_of_tables() -> dict[str, Path]:
    """Function -> its file, of all that return a `Table`, or some."""
    makers = {}
    for path, tree in of_rooms("report"):
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef)
                and node.returns
                and re.search(r"\bTable\b", ast.unparse(node.returns))
            ):
                makers[node.name] = path
    return makers


def test_every_table_is_shown() -> None:
    makers = makers_of_tables()
    assert {"verdict_table", "zero_shot_table", "base_to_new", "paper_tables"} <= makers.keys()
    shown = "call it in tables() of wsoup/report/run.py, which writes and shows all of them"
    hidden = [f"{file}: {function}()" for function, file in makers.items() if not is_used(file, function)]
    assert not hidden, f"{', '.join(hidden)} makes a table that nothing shows: {shown}"


def test_every_function_of_the_report_is_used() -> None:
    unused = []
    for path, tree in of_rooms("report"):
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not is_used(path, node.name):
                unused.append(f"{path}: nothing uses {node.name}()")
    data = "the data of a figure is named in figures() of wsoup/report/run.py, a table in tables() there"
    assert not unused, f"{', '.join(unused)}; {data}"


def keys_of_figures() -> set[str]:
    """The figures that `wsoup.report.run.figures` makes data for."""
    (tree,) = [tree for path, tree in trees().items() if ROOT / path == RUN]
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "figures"]
    (returned,) = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    assert isinstance(returned, ast.Dict)
    return {key.value for key in returned.keys if isinstance(key, ast.Constant)}


def named_figures() -> dict[str, set[str]]:
    """Where each figure has a part of its own -> the figures that have it."""
    listed = safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["plots"]
    in_dvc = {re.sub(r"^reports/plots/|\.json$", "", path) for plot in listed for path in plot}
    templates = {path.stem for path in (ROOT / "data/plots").glob("*.json")}
    return {"wsoup/report/figures.py: FIGURES": set(FIGURES), "data/plots/": templates, "dvc.yaml: plots": in_dvc}


@pytest.mark.parametrize("where", named_figures())
def test_every_figure_has_its_data_caption_template_and_plot(where: str) -> None:
    names, made = named_figures()[where], keys_of_figures()
    assert not made - names, f"{where} has no {sorted(made - names)}, a figure of wsoup/report/run.py"
    assert not names - made, f"wsoup/report/run.py: figures() makes no {sorted(names - made)}, which {where} has"
