"""The published figure beside the row of the 80 templates, on the datasets whose figure is of these templates.

Others are made with templates of their own, or are means over classes: `wsoup verify published` counts those.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wsoup.paper.published import OF_IMAGENET, dataset_of, of_encoder
from wsoup.report.record import Record

ROW = "80 templates"
"""The name of the row in the answer."""


def figures(
    encoder: Mapping[str, Any], *, datasets: Mapping[str, Mapping[str, Any]], images: Mapping[str, int]
) -> dict[str, float]:
    """Published figures, per cent, by name of the dataset in params.yaml; none for an encoder that has none.

    Args:
        encoder: its section of params.yaml, or its id.
        datasets: their sections.
        images: test images of each dataset; another number is another split.
    """
    name = Path(str(encoder["pretrained"])).name
    # A line by the name with QuickGELU is there only if the weights were trained with it, and then wsoup takes it.
    published, _ = of_encoder(str(encoder["model"]), name, quick_gelu=True)
    beside: dict[str, float] = {}
    if published is None:
        return beside
    for dataset, section in datasets.items():
        known = dataset_of(dataset, layout=str(section.get("layout", "imagefolder")))
        is_theirs = known is not None and known.templates == OF_IMAGENET and images.get(dataset) == known.n_images
        if known is not None and is_theirs and known.name in published.accuracy:
            beside[dataset] = published.accuracy[known.name]
    return beside


def in_words(beside: Mapping[str, float]) -> str:
    """The figures in a line; "" without any."""
    if not beside:
        return ""
    listed = ", ".join(f"{name} {figure:.2f}" for name, figure in beside.items())
    return f"published (open_clip): {listed}"


def beside_templates(lines: Sequence[str], *, record: Record) -> list[str]:
    """The lines of an answer, with the published figures in that of the templates, or after all if it has none."""
    params = record.params
    note = in_words(figures(params["encoder"], datasets=params["datasets"], images=record.images))
    if not note:
        return list(lines)
    if not any(_is_of_templates(line) for line in lines):
        return [*lines, f"{ROW}, {note}"]
    return [f"{line}  {note}" if _is_of_templates(line) else line for line in lines]


def _is_of_templates(line: str) -> bool:
    """Whether a line is that of the templates in the table of an answer."""
    return line[:24].rstrip() == ROW
