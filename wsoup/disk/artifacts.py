"""Paths of the files that stages hand to each other, as in dvc.yaml.

Stages run in the folder of params.yaml, and all paths are relative to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRETRAINED = "pretrained"
"""The variant of image features and results without training."""


@dataclass(frozen=True)
class Artifacts:
    """Paths of one run.

    Attributes:
        root: the run's folder.
    """

    root: Path = Path()

    @property
    def folder(self) -> Path:
        return self.root / "artifacts"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def manifest(self, dataset: str) -> Path:
        """The manifest of one dataset: the images that a run uses."""
        return self.folder / "manifests" / f"{dataset}.parquet"

    def split(self, source: str, *, seed: int) -> Path:
        """The few-shot training images of one seed."""
        return self.folder / "splits" / source / f"seed{seed}.parquet"

    def features(self, dataset: str, *, split: str) -> Path:
        """Image features of the pretrained encoder; `split` is train or test."""
        return self.folder / "embeddings" / PRETRAINED / f"{dataset}-{split}.zarr"

    def pool(self, name: str) -> Path:
        """A pool of candidates, one bare text a line."""
        return self.folder / "pools" / f"{name}.txt"

    @property
    def evaluated(self) -> Path:
        """The datasets and soups to evaluate, and each dataset's GPT descriptors by its own class names."""
        return self.folder / "evaluated.json"

    def scores(self, pool: str) -> Path:
        """Scores of every candidate in a pool."""
        return self.folder / "scores" / f"{pool}.parquet"

    def soups(self, name: str) -> Path:
        """The folder of one soup's seeds."""
        return self.folder / "soups" / name

    def soup(self, name: str, *, seed: int) -> Path:
        """One soup file."""
        return self.soups(name) / f"seed{seed}.json"

    @property
    def upper_bound(self) -> Path:
        """The soup selected on the targets themselves."""
        return self.folder / "soups" / "upper_bound.json"

    def tuned(self, method: str, *, seed: int) -> Path:
        """The folder of one finetuned model."""
        return self.folder / "finetuned" / method / f"seed{seed}"

    def head(self, name: str, *, seed: int) -> Path:
        """One head file."""
        return self.folder / "heads" / name / f"seed{seed}.safetensors"

    @property
    def results(self) -> Path:
        """The folder of results (counts)."""
        return self.folder / "results"

    @property
    def survey(self) -> Path:
        """Counts of texts that were not selected."""
        return self.folder / "survey"


def evaluated_soups(soups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Section soups of params.yaml as `Artifacts.evaluated` lists it: name and pool of every soup, in params' order."""
    return [{"name": name, "pool": soup["pool"]} for name, soup in soups.items()]
