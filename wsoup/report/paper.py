"""The paper's own figures, to stand beside ours: data/paper/*.csv (see the README there)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from wsoup.core.disk import project
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.encoders import ENCODER, ENCODERS, SCALING_ENCODERS
from wsoup.evaluate.rows import TableRow
from wsoup.evaluate.rows import table as rows_of

FOLDER = Path("data/paper")
COLUMNS = {
    "imagenet": "INet",
    "laion": "INet",
    "caltech101": "Caltech",
    "oxford_pets": "Pets",
    "stanford_cars": "Cars",
    "oxford_flowers": "Flowers",
    "food101": "Food",
    "fgvc_aircraft": "Aircraft",
    "sun397": "SUN",
    "dtd": "DTD",
    "eurosat": "EuroSAT",
    "ucf101": "UCF",
    "imagenetv2": "INet-V2",
    "imagenet_sketch": "Sketch",
    "imagenet_a": "INet-A",
    "imagenet_r": "INet-R",
}
"""Dataset names of profile `paper` -> columns of the paper's tables. LAION as the source is tested on ImageNet."""
QUICK_GELU = "-quickgelu"
TITLES = {
    "few_shot": "Few-shot methods",
    "diversity_ablation": "What the diversity loss does",
    "parameter_efficiency": "Parameter efficiency",
    "laion_source": "Soups from a subset of LAION",
}
"""The paper's tables with finetuned models, in its order."""


TABLES = ("zero_shot", "model_scaling", *TITLES)
REPORTED = "\u2020"
"""Behind the name of a row whose figures are those of its own authors: nobody ran it for the paper."""


@dataclass(frozen=True)
class PaperRow:
    """A row of one of the paper's tables, and ours that belongs beside it.

    Attributes:
        table, label: whose; in model_scaling the label begins with the model.
        figures: column -> per cent.
        variant, row: of ours; empty where none belongs beside it.
        missing: why a params.yaml does not fill it; empty where it does (`wsoup.report.coverage`).
        marks: why ours would be marked.
    """

    table: str
    label: str
    figures: Mapping[str, float]
    variant: str = ""
    row: str = ""
    missing: str = ""
    marks: tuple[str, ...] = ()

    @property
    def reported(self) -> bool:
        """Whether it cannot be run: figures of its own authors."""
        return self.label.endswith(REPORTED)


def read(name: str) -> list[dict[str, str]]:
    """One of the paper's tables as rows of text: from the run's folder, else from wsoup's own files."""
    path = FOLDER / f"{name}.csv"
    if not path.exists():
        path = project.file("data/paper") / path.name
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows(name: str) -> list[PaperRow]:
    """Every row of one of the paper's tables, in its order.

    Of rows that have the same name in rows.csv, the first of ours belongs to the first of theirs.
    """
    if name in ("zero_shot", "model_scaling"):
        labelled = [
            (row.label if name == "zero_shot" else row.scaling, row.key) for row in rows_of(["descriptor", "word"])
        ]
        ours: dict[str, Iterator[tuple[str, str]]] = {
            label: repeat((PRETRAINED, key)) for label, key in labelled if label
        }
    else:
        lines = [line for line in read("rows") if line["table"] == name]
        labels = {line["method"] for line in lines}
        ours = {
            label: iter([(line["variant"], line["row"]) for line in lines if line["method"] == label])
            for label in labels
        }
    return [
        PaperRow(
            name,
            ": ".join(line[key] for key in ("model", "method") if key in line),
            numbers(line),
            *next(ours.get(line["method"], iter(())), ("", "")),
        )
        for line in read(name)
    ]


def zero_shot(row: TableRow, *, encoder: Mapping[str, Any]) -> Mapping[str, float]:
    """The paper's row for one of ours, of the table that has this encoder: column -> per cent, empty if none.

    Word soups of model_scaling.csv are score means (the authors' scripts/ablations/scaling_law.sh).
    An encoder that is not the paper's gets the row of ViT-B-16 / openai; `encoder_differs` then says so.
    """
    title = SCALING_ENCODERS.get(_pair(encoder))
    if title is None:  # other weights of one of these models still belong beside its figures, marked
        title = next((t for (model, _), t in SCALING_ENCODERS.items() if model == _pair(encoder)[0]), None)
    theirs = rows("zero_shot" if title is None else "model_scaling")
    start = "" if title is None else f"{title}: "
    return next((line.figures for line in theirs if line.row == row.key and line.label.startswith(start)), {})


def beside(table: str) -> list[tuple[str, str, str, Mapping[str, float]]]:
    """The rows of one of the paper's tables that ours belong beside: (their name, variant, our row, their figures)."""
    return [(line.label, line.variant, line.row, line.figures) for line in rows(table) if line.row]


def encoder_differs(encoder: Mapping[str, Any], *, tuned: bool) -> str | None:
    """Why the paper's figures are not of this encoder; None where they are.

    Judged are the weights, by their tag, and the activation: a model's name may say it (``-quickgelu``) or not.

    Args:
        encoder: its id.
        tuned: whether a finetuned model is meant; the paper's are of ViT-B-16 alone.
    """
    pair, quick_gelu = _pair(encoder), bool(encoder.get("quick_gelu"))
    known = (ENCODER,) if tuned else ENCODERS
    if pair not in known:
        theirs = next((one for one in known if one[0] == pair[0]), ENCODER)
        return f"encoder {pair[0]} / {pair[1]}, theirs {' / '.join(theirs)}"
    if quick_gelu != (pair[1] == "openai"):
        names = ("GELU", "QuickGELU")
        return f"encoder {pair[0]} / {pair[1]} with {names[quick_gelu]}, theirs with {names[not quick_gelu]}"
    return None


def _pair(encoder: Mapping[str, Any]) -> tuple[str, str]:
    """Model without what its name says of the activation, and tag."""
    return str(encoder["model"]).removesuffix(QUICK_GELU), str(encoder["pretrained"])


def numbers(row: dict[str, str]) -> dict[str, float]:
    """The cells of a row that are numbers."""
    cells = {}
    for column, text in row.items():
        with suppress(ValueError):
            cells[column] = float(text)
    return cells
