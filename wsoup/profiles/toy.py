"""params.yaml of the toy world: as it is, and with every finetuned method."""

from __future__ import annotations

from wsoup.profiles.common import filled, lines, one_line, template
from wsoup.profiles.methods import of_toy

HEAD = """\
# The toy world with more finetuned methods and loss landscapes (`wsoup profile methods --methods {group}`): those of
# data/paper/methods.yaml at the scales of data/toy/scales.yaml. All of them take about an hour on two cores.
"""
ITERATIONS = 150
LANDSCAPES = ("coop", "coop_word_lambda0", "coop_diverse", "soft_random", "soft_word_diverse")


def demo() -> str:
    """params.yaml of the toy world."""
    return template("demo")


def methods(group: str = "all") -> str:
    """The demo profile with other finetuned methods, one a line, trained for longer.

    Args:
        group: which of `wsoup.profiles.methods.GROUPS`.
    """
    chosen = of_toy(group)
    values = {
        "finetune.iterations": one_line(ITERATIONS),
        "finetune.methods": lines(chosen, indent=4),
        "landscape.methods": one_line([name for name in LANDSCAPES if name in chosen]),
    }
    return filled(demo(), values, head=HEAD.format(group=group))
