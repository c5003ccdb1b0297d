"""Zero-shot figures of encoders as open_clip publishes them (data/published), and of which test images they are.

A figure is of an encoder, by its name and tag in open_clip, and of a dataset: its test images, OpenAI's templates and
class names, and a metric, which for some datasets is the mean over classes.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.disk.store import sha256_file
from wsoup.paper.tables import QUICK_GELU

FOLDER = Path("data/published")
Metric = Literal["accuracy", "mean_per_class"]
IN_WORDS: dict[Metric, str] = {"accuracy": "accuracy", "mean_per_class": "mean over classes"}
OF_IMAGENET = "imagenet1k"
"""The key of the 80 templates of ImageNet and its variants."""


@dataclass(frozen=True)
class PublishedDataset:
    """A dataset that has figures.

    Attributes:
        name: ours.
        column: of openclip_results.csv.
        templates: its key in templates.json.
        n_images, n_classes: of its test images.
        metric: what the figure is.
    """

    name: str
    column: str
    templates: str
    n_images: int
    n_classes: int
    metric: Metric

    def differs(self, *, n_images: int, n_classes: int) -> str:
        """Why other test images are not these; "" if their numbers agree."""
        if n_classes != self.n_classes:
            return f"{n_classes:,} classes instead of {self.n_classes:,}"
        if n_images != self.n_images:
            return f"{n_images:,} test images instead of {self.n_images:,}"
        return ""


@dataclass(frozen=True)
class PublishedEncoder:
    """An encoder with its figures.

    Attributes:
        model, pretrained: its name and tag in open_clip.
        parameters: in millions.
        flops: of an image and a text, in billions.
        average: per cent, over all 38 datasets.
        accuracy: per cent by our name of the dataset.
    """

    model: str
    pretrained: str
    parameters: float
    flops: float
    average: float
    accuracy: Mapping[str, float]

    @property
    def title(self) -> str:
        return f"{self.model} / {self.pretrained}"


def datasets() -> dict[str, PublishedDataset]:
    """All datasets by our name."""
    known = {}
    for line in _rows("datasets.csv"):
        metric: Metric = "mean_per_class" if line["metric"] == "mean_per_class" else "accuracy"
        known[line["dataset"]] = PublishedDataset(
            line["dataset"],
            line["column"],
            line["templates"],
            n_images=int(line["n_images"]),
            n_classes=int(line["n_classes"]),
            metric=metric,
        )
    return known


def encoders() -> list[PublishedEncoder]:
    """All encoders in the order of the file, best average first.

    Raises:
        DataError: a line of the folder's own file is not as open_clip's.
    """
    known = datasets()
    listed = []
    for number, line in enumerate(_rows("openclip_results.csv"), start=2):
        try:
            accuracy = {name: 100 * float(line[each.column]) for name, each in known.items() if line[each.column]}
            encoder = PublishedEncoder(
                line["name"],
                line["pretrained"],
                parameters=float(line["params (M)"]),
                flops=float(line["FLOPs (B)"]),
                average=100 * float(line["Average perf. on 38 datasets"]),
                accuracy=accuracy,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{FOLDER / 'openclip_results.csv'}, line {number}: {type(error).__name__} {error}; a line has the "
                "columns of the first one, shares such as 0.6834, and an empty cell where there is no figure"
            ) from None
        listed.append(encoder)
    return listed


def of_encoder(
    model: str, pretrained: str, *, quick_gelu: bool
) -> tuple[PublishedEncoder | None, PublishedEncoder | None]:
    """The line of an encoder, and that of the same weights with another activation; None where there is none.

    open_clip's file has some weights twice, by the name with QuickGELU and by the name without. Weights work with the
    activation that they were trained with, which wsoup takes from the tag.

    Args:
        model, pretrained: as in section encoder; the model's name may end in ``-quickgelu``.
        quick_gelu: whether the loaded model has QuickGELU.
    """
    plain = model.removesuffix(QUICK_GELU)
    lines = {each.model: each for each in encoders() if each.pretrained == pretrained}
    pair = [lines.get(plain), lines.get(f"{plain}{QUICK_GELU}")]
    if quick_gelu:
        pair.reverse()
    known = [line for line in pair if line is not None]
    if not known:
        return None, None
    # A name without its activation may also stand for weights with it: openai's have one figure by both names.
    twin = next((other for other in known[1:] if other.accuracy != known[0].accuracy), None)
    return known[0], twin


def dataset_of(name: str, *, layout: str) -> PublishedDataset | None:
    """The dataset of a section of params.yaml: that of its layout ``coop:NAME``, else the one of its own name.

    >>> dataset_of("cifar-10", layout="imagefolder").column, dataset_of("pets", layout="coop:dtd").column
    ('CIFAR-10', 'Describable Textures')
    """
    kind, _, of_layout = layout.partition(":")
    if kind == "laion":  # tested on ImageNet
        of_layout = "imagenet"
    wanted = _letters(of_layout if kind in ("coop", "laion") and of_layout else name)
    for each in datasets().values():
        if wanted in (_letters(each.name), _letters(each.column), _letters(each.templates)):
            return each
    return None


def templates_of(dataset: PublishedDataset) -> list[str]:
    """The prompt templates of a dataset's figures, with ``{}`` for the class name."""
    by_key: dict[str, list[str]] = json.loads(_path("templates.json").read_text(encoding="utf-8"))
    return [template.replace("{c}", "{}") for template in by_key[dataset.templates]]


def names_of(dataset: PublishedDataset) -> Sequence[str]:
    """The class names of a dataset's figures; empty where they are not known here, or are open_clip's own."""
    by_name: dict[str, list[str]] = json.loads(_path("class_names.json").read_text(encoding="utf-8"))
    return by_name.get(dataset.name, [])


def own_files() -> dict[str, str]:
    """The folder's own files, by name, with their digests: whoever remembers a figure depends on them."""
    if not FOLDER.is_dir():
        return {}
    return {path.name: sha256_file(path) for path in sorted(FOLDER.iterdir()) if path.is_file()}


def _rows(name: str) -> list[dict[str, str]]:
    with open(_path(name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _path(name: str) -> Path:
    """A file of data/published: of the run's folder, or else wsoup's own."""
    path = FOLDER / name
    if path.exists():
        return path
    return project.file(str(path))


def _letters(name: str) -> str:
    """Letters and digits of a name, which spellings have in common."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
