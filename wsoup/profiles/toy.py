"""params.yaml of the toy world, and finetuned methods: at the paper's settings, and at the toy world's scales.

There is one list, data/paper/methods.yaml. data/toy/scales.yaml states all that the toy world changes in it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import yaml

from wsoup.core.errors import ParamsError
from wsoup.profiles.common import DATA, filled, lines, one_line, template

HEAD = """\
# The toy world with more finetuned methods and loss landscapes (`wsoup profile methods --methods {group}`): those of
# data/paper/methods.yaml at the scales of data/toy/scales.yaml. All of them take about an hour on two cores.
"""
ITERATIONS = 150
LANDSCAPES = ("coop", "coop_word_lambda0", "coop_diverse", "soft_random", "soft_word_diverse")
GROUPS = ("core", "few-shot", "diversity", "parameter-efficiency", "all")
"""What `--methods` takes: a table of the paper, the four methods that most people want, or everything."""
PAPER_ITERATIONS = 750


def demo() -> str:
    """params.yaml of the toy world."""
    return template("demo")


def methods(group: str = "all") -> str:
    """The demo profile with other finetuned methods, one a line, trained for longer.

    Args:
        group: which of `GROUPS`.
    """
    chosen = of_toy(group)
    values = {
        "finetune.iterations": one_line(ITERATIONS),
        "finetune.methods": lines(chosen, indent=4),
        "landscape.methods": one_line([name for name in LANDSCAPES if name in chosen]),
    }
    return filled(demo(), values, head=HEAD.format(group=group))


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
    chosen = {}
    for name, method in _read("paper/methods.yaml").items():
        groups, known_soup = method.pop("group"), soups is None or method["soup"] in ("class_name", *soups)
        if known_soup and group in ("all", *groups):
            chosen[name] = method
    return chosen


def of_toy(group: str) -> dict[str, dict[str, Any]]:
    """The same list at the scales of data/toy/scales.yaml; over the soups that the toy world has."""
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
