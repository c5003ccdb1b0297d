"""Which options of `wsoup profile paper` fill a row that a params.yaml leaves out, or take a mark away."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from wsoup.paper.coverage import Covered

FILLS = {
    "source=laion": "--source laion:FOLDER",
    "source=(.+)": r"--source \1",
    r"encoder\.model=(.+)\*": r"--model \1",
    r"finetune\.methods\..+": "--methods all",
    r"datasets\.\*\.gpt_descriptors|candidates\.descriptors\.paths|soups\.descriptor": "--gpt-descriptors DIR",
}
"""What a params.yaml lacks -> the option that gives it."""
TAKES_AWAY = {
    r"candidates\.words: .*|soft descriptors start .*": "--words FILE",
    "Waffle: .*": "--waffle FILE",
    r"datasets\.imagenet\.fewshot_pickles: .*": "--fewshot-pickles FOLDER",
}
"""Why a row is marked -> the option that takes the mark away."""


def advice(rows: Sequence[Covered]) -> list[str]:
    """A line for rows that an option fills and one for marks that an option takes away; none where there is none."""
    fills = Counter(_options((row.missing.removeprefix("params.yaml has no ") for row in rows), FILLS))
    marks = Counter(_options((mark for row in rows for mark in row.marks), TAKES_AWAY))
    lines = []
    if fills:
        lines.append(f"filled by a params.yaml of `wsoup profile paper` with {_counted(fills)}")
    if marks:
        lines.append(f"marks that `wsoup profile paper` takes away with {_counted(marks)}")
    return lines


def _options(reasons: Iterable[str], known: dict[str, str]) -> Iterable[str]:
    """The option against each reason; none for a reason that no option removes."""
    for reason in reasons:
        for pattern, option in known.items():
            match = re.fullmatch(pattern, reason)
            if match is not None:
                yield match.expand(option)
                # The first pattern is the narrowest.
                break


def _counted(options: Counter[str]) -> str:
    """``--source dtd (11), --model ViT-B-32 (5)``."""
    return ", ".join(f"{option} ({n})" for option, n in options.items())
