"""Where every file of a run lies: what stages hand to each other, by its name. dvc.yaml names the same places.

Stages run in the folder of params.yaml, and every path here is relative to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PRETRAINED = "pretrained"
"""The variant of image features and results that no training touched."""


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
        """The images of one dataset that a run uses."""
        return self.folder / "manifests" / f"{dataset}.parquet"

    def split(self, source: str, *, seed: int) -> Path:
        """The few-shot training images of one seed."""
        return self.folder / "splits" / source / f"seed{seed}.parquet"

    def features(self, dataset: str, *, split: str) -> Path:
        """Image features of the pretrained encoder, of split train or test."""
        return self.folder / "embeddings" / PRETRAINED / f"{dataset}-{split}.zarr"

    def pool(self, name: str) -> Path:
        """A pool of candidates, one bare text a line."""
        return self.folder / "pools" / f"{name}.txt"

    @property
    def gpt(self) -> Path:
        """GPT descriptors of every dataset by its own class names."""
        return self.folder / "pools" / "gpt.json"

    def scores(self, pool: str) -> Path:
        """What every candidate of a pool scored."""
        return self.folder / "scores" / f"{pool}.parquet"

    def soups(self, name: str) -> Path:
        """The folder of one soup's seeds."""
        return self.folder / "soups" / name

    def soup(self, name: str, *, seed: int) -> Path:
        """One soup file."""
        return self.soups(name) / f"seed{seed}.json"

    @property
    def upper_bound(self) -> Path:
        """The soup that the targets themselves would select."""
        return self.folder / "soups" / "upper_bound.json"

    def tuned(self, method: str, *, seed: int) -> Path:
        """The folder of one finetuned model."""
        return self.folder / "finetuned" / method / f"seed{seed}"

    @property
    def results(self) -> Path:
        """The folder of counts."""
        return self.folder / "results"

    @property
    def survey(self) -> Path:
        """Counts of texts that nobody selected."""
        return self.folder / "survey"
