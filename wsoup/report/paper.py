"""The paper's own figures, to stand beside ours: data/paper/*.csv (see the README there)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wsoup.datasets.paper import ENCODER, ENCODERS, SCALING_ENCODERS
from wsoup.disk import project
from wsoup.evaluate.rows import TableRow

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


def read(name: str, *, folder: Path = FOLDER) -> list[dict[str, str]]:
    """One of the paper's tables as rows of text: from the run's folder, else from wsoup's own files."""
    path = folder / f"{name}.csv"
    if folder == FOLDER and not path.exists():
        path = project.file("data/paper") / path.name
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def zero_shot(row: TableRow, *, encoder: Mapping[str, Any], folder: Path = FOLDER) -> dict[str, float]:
    """The paper's row for one of ours, of the table that has this encoder: column -> per cent, empty if none.

    Word soups of model_scaling.csv are score means (the authors' scripts/ablations/scaling_law.sh).
    An encoder that the paper has not gets the row of ViT-B-16 / openai; `encoder_differs` then says so.
    """
    title = SCALING_ENCODERS.get(_pair(encoder))
    if title is None:  # other weights of one of these models still belong beside its figures, marked
        title = next((t for (model, _), t in SCALING_ENCODERS.items() if model == _pair(encoder)[0]), None)
    if title is not None:
        theirs = read("model_scaling", folder=folder)
        found = [line for line in theirs if line["model"] == title and line["method"] == row.scaling]
    else:
        found = [line for line in read("zero_shot", folder=folder) if line["method"] == row.label]
    return numbers(found[0]) if found else {}


def beside(table: str, *, folder: Path = FOLDER) -> list[tuple[str, str, str, dict[str, float]]]:
    """The rows of one of the paper's tables that rows.csv has ours for: (their name, variant, our row, their figures).

    In the paper's order; of rows that have the same name there, the first of ours belongs to the first of theirs.
    """
    ours: dict[str, list[dict[str, str]]] = {}
    for row in read("rows", folder=folder):
        if row["table"] == table:
            ours.setdefault(row["method"], []).append(row)
    found = []
    for theirs in read(table, folder=folder):
        if ours.get(theirs["method"]):
            row = ours[theirs["method"]].pop(0)
            found.append((theirs["method"], row["variant"], row["row"], numbers(theirs)))
    return found


def encoder_differs(encoder: Mapping[str, Any], *, tuned: bool) -> str | None:
    """Why the paper's figures are not of this encoder; None where they are.

    Judged are the weights, by their tag, and the activation: a model's name may say it (``-quickgelu``) or not.

    Args:
        encoder: its id.
        tuned: whether a finetuned model is meant; the paper's are of ViT-B-16 alone.
    """
    pair, quick_gelu = _pair(encoder), bool(encoder.get("quick_gelu"))
    known = (ENCODER,) if tuned else ENCODERS
    theirs = next((found for found in known if found == pair), None)
    if theirs is None:
        same = next((found for found in known if found[0] == pair[0]), ENCODER)
        return f"encoder {pair[0]} / {pair[1]}, theirs {' / '.join(same)}"
    if quick_gelu != (theirs[1] == "openai"):
        names = ("GELU", "QuickGELU")
        return f"encoder {pair[0]} / {pair[1]} with {names[quick_gelu]}, theirs with {names[not quick_gelu]}"
    return None


def _pair(encoder: Mapping[str, Any]) -> tuple[str, str]:
    """Model without what its name says of the activation, and tag."""
    return str(encoder["model"]).removesuffix(QUICK_GELU), str(encoder["pretrained"])


def numbers(row: dict[str, str]) -> dict[str, float]:
    """The cells of a row that are numbers."""
    found = {}
    for column, text in row.items():
        try:
            found[column] = float(text)
        except ValueError:
            continue
    return found
