"""The paper's own figures, to stand beside ours: data/paper/*.csv (see the README there)."""

from __future__ import annotations

import csv
from pathlib import Path

from wsoup import project
from wsoup.evaluate.rows import TableRow

FOLDER = Path("data/paper")
COLUMNS = {
    "imagenet": "INet",
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
"""Dataset names of profile `paper` -> columns of the paper's tables."""
ENCODER = ("ViT-B-16", "openai")
"""The encoder of all the paper's tables but model_scaling.csv."""
SCALING_MODELS = {
    ("ViT-B-32", "openai"): "Open-AI CLIP ViT-B/32",
    ("ViT-L-14", None): "Open CLIP ViT-L/14",
    ("coca_ViT-L-14", None): "Open CLIP CoCa-L/14",
    ("ViT-g-14", None): "Open CLIP ViT-g/14",
}
"""Models of model_scaling.csv. None: any weights but OpenAI's, since the paper does not name the open_clip tag."""
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


def zero_shot(row: TableRow, *, encoder: tuple[str, str | None], folder: Path = FOLDER) -> dict[str, float]:
    """The paper's row for one of ours, of the table that has this encoder: column -> per cent, empty if none.

    Word soups of model_scaling.csv are score means (the authors' scripts/ablations/scaling_law.sh).
    An encoder that the paper has not gets the row of ViT-B-16 / openai; `encoder_differs` then says so.
    """
    model = scaling_model(encoder)
    if model is not None:
        theirs = read("model_scaling", folder=folder)
        found = [line for line in theirs if line["model"] == model and line["method"] == row.scaling]
    else:
        found = [line for line in read("zero_shot", folder=folder) if line["method"] == row.label]
    return numbers(found[0]) if found else {}


def beside(table: str, *, folder: Path = FOLDER) -> list[tuple[str, str, str, dict[str, float]]]:
    """The rows of one of the paper's tables that rows.csv has ours for: (their name, variant, our row, their figures).

    In the paper's order; two rows of the same name are taken to be the first.
    """
    theirs: dict[str, dict[str, float]] = {}
    for row in read(table, folder=folder):
        theirs.setdefault(row["method"], numbers(row))
    ours = {row["method"]: row for row in read("rows", folder=folder) if row["table"] == table}
    return [(name, ours[name]["variant"], ours[name]["row"], found) for name, found in theirs.items() if name in ours]


def scaling_model(encoder: tuple[str, str | None]) -> str | None:
    """The name of an encoder in model_scaling.csv; None if it is not there."""
    model, tag = encoder
    return SCALING_MODELS.get((model, tag if tag == "openai" else None))


def encoder_differs(encoder: tuple[str, str | None], *, tuned: bool) -> str | None:
    """Why the paper's figures are not of this encoder; None where they are."""
    if encoder == ENCODER or (not tuned and encoder in SCALING_MODELS):
        return None
    if not tuned and scaling_model(encoder) is not None:
        return f"the paper does not name its weights for {encoder[0]}; here {encoder[1]}"
    return f"encoder {encoder[0]} / {encoder[1]}, theirs {' / '.join(ENCODER)}"


def numbers(row: dict[str, str]) -> dict[str, float]:
    """The cells of a row that are numbers."""
    found = {}
    for column, text in row.items():
        try:
            found[column] = float(text)
        except ValueError:
            continue
    return found
