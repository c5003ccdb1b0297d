"""The paper's tables as data (data/paper/*.csv, see the README there), and which row of a run each row is beside."""

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from wsoup.base import project
from wsoup.core.prompts import bare
from wsoup.disk.files import PRETRAINED

FOLDER = Path("data/paper")
SCALING_ENCODERS = {
    ("ViT-B-32", "openai"): "Open-AI CLIP ViT-B/32",
    ("ViT-L-14", "laion2b_s32b_b82k"): "Open CLIP ViT-L/14",
    ("coca_ViT-L-14", "laion2b_s13b_b90k"): "Open CLIP CoCa-L/14",
    ("ViT-g-14", "laion2b_s34b_b88k"): "Open CLIP ViT-g/14",
}
"""Models and weights of model_scaling.csv. Neither the paper nor the authors' code (Chris210634/word_soups:
argparse_parameters.py defaults to ViT-B-16 / openai, scripts/ablations/scaling_law.sh takes model and tag as arguments,
README.md names no others) gives the weights of the last three. These are open_clip's weights trained on LAION-2B; of
the two for ViT-g-14, the ones that reach the paper's 77.7 on ImageNet."""
ENCODER = ("ViT-B-16", "openai")
"""The encoder of the paper's other tables."""
ENCODERS = (ENCODER, *SCALING_ENCODERS)
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
SINGLE_TEXTS = ("single_descriptors", "word_chains")
"""The paper's tables 1 and 2: single texts, each alone, with the plain template whatever the dataset."""
NO_TEXT = "(class name only)"
NO_ROW = {"variant": "", "row": "", "needs": ""}
"""In place of a line of rows.csv, for a row of the paper to which none of ours corresponds."""
MEMORY = "device memory, MiB"
"""The column of the report's table of memory, which a claim of the paper is about."""
TABLES = (*SINGLE_TEXTS, "zero_shot", "model_scaling", *TITLES)


@dataclass(frozen=True)
class PaperRow:
    """A row of one of the paper's tables, and the row of ours that corresponds to it.

    Attributes:
        table, label: where it is; in model_scaling the label starts with the model.
        figures: column -> per cent.
        variant, row: of ours; empty if none corresponds.
        needs: what params.yaml must have for it (`wsoup.paper.coverage.lacks`).
    """

    table: str
    label: str
    figures: Mapping[str, float]
    variant: str = ""
    row: str = ""
    needs: tuple[str, ...] = ()


def path_of(name: str) -> Path:
    """A file of data/paper: of the run's folder, or else wsoup's own."""
    path = FOLDER / name
    if path.exists():
        return path
    return project.file(str(path))


def table_rows(name: str) -> list[dict[str, str]]:
    """One of the paper's tables as rows of text."""
    with open(path_of(f"{name}.csv"), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows(name: str) -> list[PaperRow]:
    """Every row of one of the paper's tables, in its order.

    Rows of the same name are matched in order: the first in rows.csv belongs to the paper's first.
    """
    if name in SINGLE_TEXTS:
        return [_single(line, table=name) for line in table_rows(name)]
    of_method: dict[str, list[dict[str, str]]] = {}
    for line in table_rows("rows"):
        if line["table"] == name:
            of_method.setdefault(line["method"], []).append(line)
    # A table of several models has each method again for each of them, with the same rows of ours.
    in_turn = {method: cycle(lines) for method, lines in of_method.items()}
    models = {title: model for (model, _), title in SCALING_ENCODERS.items()}
    paper_rows = []
    for theirs in table_rows(name):
        method = theirs["method"]
        ours = NO_ROW if method not in in_turn else next(in_turn[method])
        model = models.get(theirs.get("model", ""), ENCODER[0])
        # With a star, because the model's name may end in its activation.
        needs = [f"encoder.model={model}*", *ours["needs"].split()]
        if ours["variant"] not in ("", PRETRAINED):
            needs.append(f"finetune.methods.{ours['variant']}")
        label = f"{theirs['model']}: {method}" if "model" in theirs else method
        paper_rows.append(PaperRow(name, label, _numbers(theirs), ours["variant"], ours["row"], tuple(needs)))
    return paper_rows


def gain_of_method(method: str, *, over: str, row: str) -> dict[str, float]:
    """Points of a finetuned method with a soup over another on the class name alone: XD and DG mean; {} if unknown.

    Args:
        method, over: variants of rows.csv, such as ``coop_diverse`` and ``coop``.
        row: of the first, such as ``word_soup``.
    """
    for table in ("few_shot", "diversity_ablation"):
        theirs = {(line.variant, line.row): line.figures for line in rows(table)}
        first = theirs.get((method, row))
        second = theirs.get((over, "class_name"))
        if first is not None and second is not None:
            return {place: first[place] - second[place] for place in ("XD mean", "DG mean")}
    return {}


def _single(line: Mapping[str, str], *, table: str) -> PaperRow:
    """A row of table 1 or 2; a text that the paper shortens cannot be counted."""
    target = line["target"]
    text = bare(line["text"])
    needs = [f"encoder.model={ENCODER[0]}*", f"source={target}"]
    row = "class_name"
    if text:
        needs.append(f"evaluate.texts={text}")
        row = "given_text"
    variant = PRETRAINED
    if "..." in line["text"]:
        row = variant = ""
    label = f"{target}: {text or NO_TEXT}"
    return PaperRow(table, label, _numbers(line), variant, row, tuple(needs))


def single_texts(target: str) -> dict[str, dict[str, float]]:
    """The texts that the paper counts alone on a dataset, bare -> alignment, uniformity (table 2) and accuracy."""
    texts: dict[str, dict[str, float]] = {}
    start = f"{target}: "
    for table in SINGLE_TEXTS:
        for row in rows(table):
            if row.row and row.label.startswith(start):
                text = row.label.removeprefix(start).removeprefix(NO_TEXT)
                texts.setdefault(text, {}).update(row.figures)
    return texts


def _numbers(row: Mapping[str, str]) -> dict[str, float]:
    """The numeric cells of a row."""
    cells = {}
    for column, text in row.items():
        with suppress(ValueError):
            cells[column] = float(text)
    return cells


def zero_shot(key: str, *, encoder: Mapping[str, object]) -> Mapping[str, float]:
    """The paper's figures for one of our rows, from its table for this encoder: column -> per cent; empty if none.

    Word soups of model_scaling.csv are score means (the authors' scripts/ablations/scaling_law.sh). An encoder that is
    not the paper's gets the row of the same model with other weights, else of ViT-B-16 / openai; see `encoder_differs`.
    """
    pair = pair_of(encoder)
    title = SCALING_ENCODERS.get(pair)
    # Beside other weights of the same model the paper's figure still tells something; it is marked.
    if title is None:
        same_model = [title for (model, _), title in SCALING_ENCODERS.items() if model == pair[0]]
        title = next(iter(same_model), None)
    table = "zero_shot"
    start = ""
    if title is not None:
        table = "model_scaling"
        start = f"{title}: "
    for line in rows(table):
        if line.row == key and line.label.startswith(start):
            return line.figures
    return {}


def encoder_differs(encoder: Mapping[str, object], *, tuned: bool) -> str | None:
    """Why the paper's figures are not of this encoder; None if they are.

    Weights are compared by tag, and the activation: a model's name may contain it (``-quickgelu``) or not.

    Args:
        encoder: its id.
        tuned: whether the model is finetuned; the paper finetunes only ViT-B-16.
    """
    model, tag = pair = pair_of(encoder)
    known = (ENCODER,) if tuned else ENCODERS
    if pair not in known:
        same_model = [each for each in known if each[0] == model]
        their_model, their_tag = next(iter(same_model), ENCODER)
        return f"encoder {model} / {tag}, theirs {their_model} / {their_tag}"
    ours = "QuickGELU" if encoder.get("quick_gelu") else "GELU"
    theirs = "QuickGELU" if tag == "openai" else "GELU"
    if ours != theirs:
        return f"encoder {model} / {tag} with {ours}, theirs with {theirs}"
    return None


def pair_of(encoder: Mapping[str, object]) -> tuple[str, str]:
    """Model, without the activation in its name, and tag."""
    return str(encoder["model"]).removesuffix(QUICK_GELU), str(encoder["pretrained"])
