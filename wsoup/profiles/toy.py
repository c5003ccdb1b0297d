"""params.yaml of the toy world: as it is, and with every finetuned method."""

from __future__ import annotations

import re

from wsoup.profiles.common import lines, template
from wsoup.profiles.methods import of_toy

HEAD = """\
# yaml-language-server: $schema=data/params.schema.json
# The toy world with the finetuned methods of `wsoup profile methods --methods @GROUP@`: the demo profile, its
# section `finetune` extended, and loss landscapes. All of them take an hour or so on two cores.
"""
LANDSCAPES = ("coop", "coop_word_lambda0", "coop_diverse", "soft_random", "soft_word_diverse")


def demo() -> str:
    """params.yaml of the toy world."""
    return template("demo")


def methods(group: str = "all") -> str:
    """The demo profile with other finetuned methods, one a line, trained for longer.

    Args:
        group: which of `wsoup.profiles.methods.GROUPS`.
    """
    found = of_toy(group)
    text = re.sub(r"\A(#.*\n)+", lambda _: HEAD.replace("@GROUP@", group), demo())
    text = re.sub(r"(?m)^  iterations: 100 ", "  iterations: 150 ", text)
    head = "  methods:                 # data/paper/methods.yaml at the scales of data/toy/scales.yaml"
    section = f"{head}\n{lines(found, indent=4)}\n"
    text = re.sub(r"(?ms)^  methods:  .*?(?=^evaluate:)", lambda _: section, text, count=1)
    shown = ", ".join(name for name in LANDSCAPES if name in found)
    return re.sub(r"(?m)^  methods: \[\].*$", lambda _: f"  methods: [{shown}]", text)
