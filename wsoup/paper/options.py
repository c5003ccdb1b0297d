"""Which options of `wsoup profile paper` fill a row that a params.yaml leaves out, or take a mark away."""

from collections import Counter
from collections.abc import Sequence

from wsoup.paper.coverage import Covered

OF_DESCRIPTORS = ("candidates.descriptors.paths", "datasets.*.gpt_descriptors", "soups.descriptor")
"""Keys that the profile writes only with GPT descriptors."""


def advice(rows: Sequence[Covered]) -> list[str]:
    """A line for rows that an option fills and one for marks that an option takes away; none where there is none."""
    fills = Counter(_gives(row.need) for row in rows)
    takes_away = Counter(mark.option for row in rows for mark in row.marks)
    # What no option gives or takes away.
    del fills[""], takes_away[""]
    lines = []
    if fills:
        lines.append(f"filled by a params.yaml of `wsoup profile paper` with {_counted(fills)}")
    if takes_away:
        lines.append(f"marks that `wsoup profile paper` takes away with {_counted(takes_away)}")
    return lines


def _gives(need: str) -> str:
    """The option that gives a params.yaml what a row needs, as data/paper/rows.csv writes it; "" if none does."""
    key, _, value = need.partition("=")
    if key == "source":
        # LAION is in no folder of datasets, so it is given with its own.
        return f"--source {value}:FOLDER" if value == "laion" else f"--source {value}"
    if key == "encoder.model":
        return f"--model {value.removesuffix('*')}"
    if key.startswith("finetune.methods."):
        return "--methods all"
    return "--gpt-descriptors DIR" if key in OF_DESCRIPTORS else ""


def _counted(options: Counter[str]) -> str:
    """``--source dtd (11), --model ViT-B-32 (5)``."""
    return ", ".join(f"{option} ({n})" for option, n in options.items())
