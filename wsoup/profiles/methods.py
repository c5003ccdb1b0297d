"""The list of finetuned methods: at the paper's settings, and at the toy world's scales.

There is one list, data/paper/methods.yaml. data/toy/scales.yaml states all that the toy world changes in it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import yaml

from wsoup.core.errors import ParamsError
from wsoup.profiles.common import DATA

GROUPS = ("core", "few-shot", "diversity", "parameter-efficiency", "all")
"""What `--methods` takes: a table of the paper, the four methods that most people want, or everything."""
PAPER_ITERATIONS = 750
_ALSO = {
    "core": ("core",),
    "few-shot": ("core", "few-shot"),
    "diversity": ("diversity",),
    "parameter-efficiency": ("parameter-efficiency",),
}
_SHARED = {
    "diversity": ("coop", "coop_diverse"),
    "parameter-efficiency": ("maple", "coop", "prograd", "kgcoop", "proda", "coop_diverse"),
}
"""Methods of another group that are rows of these tables, too."""


def of_paper(group: str, *, soups: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Section finetune.methods of one of `GROUPS`, at the paper's settings.

    Args:
        group: which.
        soups: methods over any other soup are left out; None keeps all.

    Raises:
        ParamsError: no such group.
    """
    if group not in GROUPS:
        raise ParamsError(f"--methods {group!r} must be one of {', '.join(GROUPS)}")
    found = {}
    for name, method in _read("paper/methods.yaml").items():
        if group == "all" or method["group"] in _ALSO[group] or name in _SHARED.get(group, ()):
            found[name] = {key: value for key, value in method.items() if key != "group"}
    return {name: m for name, m in found.items() if soups is None or m["soup"] in ("class_name", *soups)}


def of_toy(group: str) -> dict[str, dict[str, Any]]:
    """The same list at the scales of data/toy/scales.yaml; over the soups that the toy world has."""
    scales = _read("toy/scales.yaml")
    chosen = of_paper(group, soups=("descriptor", "word"))
    found = {name: _scaled(method, scales) for name, method in chosen.items() if name not in scales["left_out"]}
    for name, snapshots in scales["snapshots"].items():
        if name in found:
            found[name]["snapshots"] = snapshots
    return found


def _scaled(method: dict[str, Any], scales: dict[str, Any]) -> dict[str, Any]:
    scaled = {**method, "tune": dict(method["tune"]), "loss": dict(method["loss"])}
    for key in ("blocks", "depth"):
        if key in scaled["tune"]:
            scaled["tune"][key] = min(scaled["tune"][key], scales["most_blocks"])
    if "teacher_logit_scale" in scaled["loss"]:
        scaled["loss"]["teacher_logit_scale"] = scales["teacher_logit_scale"]
    rates = scales["rates"]
    found = rates.get(scaled["loss"]["kind"]) or rates.get(scaled["tune"]["kind"])
    if found:
        scaled["learning_rate"], scaled["prompt_factor"] = found
    if "iterations" in scaled:
        scaled["iterations"] = scaled["iterations"] * scales["iterations"] // PAPER_ITERATIONS
    return scaled


def _read(path: str) -> Any:
    return yaml.safe_load((DATA / path).read_text(encoding="utf-8"))
