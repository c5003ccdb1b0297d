"""The keys that what ships as params.yaml lacks: a half-done change of a section, found before any test runs."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from wsoup.params.graph import graph_of, value_at
from wsoup.params.problems import clauses
from wsoup.params.reading import read_yaml
from wsoup.pipeline.params import Params

ROOT = Path(__file__).parents[2]
FILES = ("params.yaml", "data/profiles/demo.yaml", "data/profiles/own.yaml", "data/profiles/paper.yaml")
OF_KEYS = ("missing", "extra_forbidden", "union_tag_not_found")
"""Kinds of problems that are of a key, not of its value."""


def half_done() -> list[str]:
    """A line for each file that lacks a key of a section or has one too many, or lacks what dvc.yaml names."""
    lines = []
    for file in FILES:
        raw = read_yaml(ROOT / file)
        problems = _of_keys(raw)
        if problems:
            lines.append(f"{file}: {'; '.join(problems)}")
    lacking = _named_by_dvc_yaml()
    if lacking:
        lines.append(f"dvc.yaml names {', '.join(lacking)}, which params.yaml does not have")
    return lines


def _of_keys(raw: object) -> list[str]:
    try:
        Params.model_validate(raw)
    except ValidationError as error:
        if any(each["type"] in OF_KEYS or "beside it" in each["msg"] for each in error.errors()):
            return clauses(error, model=Params, raw=raw)  # type: ignore[arg-type]
    return []


def _named_by_dvc_yaml() -> list[str]:
    params = read_yaml(ROOT / "params.yaml")
    keys: dict[str, None] = {}
    for stage in graph_of(read_yaml(ROOT / "dvc.yaml"), params=params).stages.values():
        keys |= dict.fromkeys(key for key in stage.own_keys if value_at(params, key) is None)
    return list(keys)
