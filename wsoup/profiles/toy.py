"""Finetuned methods for params.yaml, at the paper's settings or at the toy world's scales.

data/paper/methods.yaml is the one list of methods; data/toy/scales.yaml holds everything that the toy world changes.
"""

from collections.abc import Collection
from typing import Any

import yaml

from wsoup.base.errors import ParamsError
from wsoup.profiles.files import DATA, filled, template

HEAD = """\
# The toy world with more finetuned methods and loss landscapes (`wsoup profile demo --methods {group}`): those of
# data/paper/methods.yaml at the scales of data/toy/scales.yaml. All of them take about an hour on two cores.
"""
ITERATIONS = 150
PAPER_ITERATIONS = 750
LANDSCAPES = ("coop", "coop_word_lambda0", "coop_diverse", "soft_random", "soft_word_diverse")
GROUPS = ("core", "few-shot", "diversity", "parameter-efficiency", "all")
"""Values of `--methods`: the four methods that most people want, a table of the paper, or everything."""


def demo(group: str | None = None) -> str:
    """The toy world's params.yaml; with one of `GROUPS`, those finetuned methods, trained for longer."""
    if group is None:
        return template("demo")
    chosen = of_toy(group)
    plane = {"methods": [name for name in LANDSCAPES if name in chosen], "steps": 6, "margin": 3, "soup": "word"}
    values = {"finetune.iterations": ITERATIONS, "finetune.methods": chosen, "landscape": plane}
    return filled(template("demo"), values, head=HEAD.format(group=group))


def of_paper(group: str, *, soups: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Section finetune.methods of one of `GROUPS`, at the paper's settings.

    Args:
        group: one of `GROUPS`.
        soups: leave out methods that need any other soup; None keeps all.

    Raises:
        ParamsError: no such group.
    """
    if group not in GROUPS:
        raise ParamsError(f"--methods {group!r} must be one of {', '.join(GROUPS)}")
    chosen = {}
    for name, method in _read("paper/methods.yaml").items():
        groups, soup = method.pop("group"), method["soup"]
        if group in ("all", *groups) and (soups is None or soup in ("class_name", *soups)):
            chosen[name] = method
    return chosen


def of_toy(group: str) -> dict[str, dict[str, Any]]:
    """The same at the scales of data/toy/scales.yaml, without methods that need a soup that the toy world lacks."""
    scales = _read("toy/scales.yaml")
    chosen = {
        name: _scaled(method, scales)
        for name, method in of_paper(group, soups=("descriptor", "word")).items()
        if name not in scales["left_out"]
    }
    for name, snapshots in scales["snapshots"].items():
        if name in chosen:
            chosen[name]["snapshots"] = snapshots
    return chosen


def _scaled(method: dict[str, Any], scales: dict[str, Any]) -> dict[str, Any]:
    tune, loss = dict(method["tune"]), dict(method["loss"])
    for key in tune.keys() & {"blocks", "depth"}:
        tune[key] = min(tune[key], scales["most_blocks"])
    if "teacher_logit_scale" in loss:
        loss["teacher_logit_scale"] = scales["teacher_logit_scale"]
    scaled = {**method, "tune": tune, "loss": loss}
    if "iterations" in scaled:
        scaled["iterations"] = scaled["iterations"] * scales["iterations"] // PAPER_ITERATIONS
    rates = scales["rates"].get(loss["kind"]) or scales["rates"].get(tune["kind"])
    return scaled | (dict(zip(("learning_rate", "prompt_factor"), rates, strict=True)) if rates else {})


def _read(path: str) -> Any:
    return yaml.safe_load((DATA / path).read_text(encoding="utf-8"))
