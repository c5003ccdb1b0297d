"""Groups of finetuned methods, as `--methods` names them."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import yaml

from wsoup.base import project
from wsoup.base.errors import ParamsError

DATA = project.file("data")
GROUPS = ("core", "few-shot", "diversity", "parameter-efficiency", "landscape", "rivals", "all")
"""Values of `--methods`: the four methods that most people want, a table or figure of the paper, later methods beside
CoOp with and without the diversity loss, or everything."""
LISTS = ("methods.yaml", "rivals.yaml")
"""The paper's methods, and those that it does not have."""
LANDSCAPES = ("soft_random", "soft_word_diverse")
"""Methods of the paper's loss landscape."""
JUDGED = ("coop_diverse", "soft_word_diverse")
"""The finetuned method that a run is about: the first of these that it has; each is the paper's own of its groups."""


def methods_of(group: str, *, world: str = "paper", soups: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Section finetune.methods of one of `GROUPS`.

    Args:
        group: one of `GROUPS`.
        world: paper, or toy: `LISTS` in data/<world>.
        soups: leave out methods that need any other soup; None keeps all.

    Raises:
        ParamsError: no such group.
    """
    if group not in GROUPS:
        raise ParamsError(f"--methods {group!r} must be one of {', '.join(GROUPS)}")
    chosen = {}
    for name, method in deepcopy(_all_methods(world)).items():
        groups = method.pop("group")
        if group not in ("diversity", "all"):  # the figure of accuracy during training is theirs
            method.pop("snapshots", None)
        soup = method["soup"]
        is_in_group = group == "all" or group in groups
        has_soup = soups is None or soup == "class_name" or soup in soups
        if is_in_group and has_soup:
            chosen[name] = method
    return chosen


def sections_of(methods: Mapping[str, object]) -> dict[str, object]:
    """Values of params.yaml, by dotted key, that go with section finetune.methods; None if a key is to be left out."""
    return {
        "finetune.methods": methods,
        "landscape.methods": [name for name in LANDSCAPES if name in methods],
        "report.method": next((name for name in JUDGED if name in methods), None),
    }


@cache
def _all_methods(world: str) -> dict[str, dict[str, Any]]:
    every: dict[str, dict[str, Any]] = {}
    for name in LISTS:
        content = (DATA / world / name).read_text(encoding="utf-8")
        every |= yaml.safe_load(content)
    return every
