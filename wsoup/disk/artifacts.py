"""Paths of the files that stages hand to each other, as in dvc.yaml.

Stages run in the folder of params.yaml, and all paths are relative to it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRETRAINED = "pretrained"
"""The variant of image features and results without training."""
_NAME = r"([A-Za-z0-9][A-Za-z0-9_-]*)"


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

    def tests(self) -> list[Path]:
        """The test features of every dataset, sorted."""
        return sorted(self.features("*", split="test").parent.glob(self.features("*", split="test").name))

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

    def strays(
        self,
        *,
        source: str,
        datasets: Collection[str],
        soups: Collection[str],
        methods: Collection[str],
        landscapes: Collection[str],
        heads: Collection[str],
    ) -> Iterator[tuple[Path, str]]:
        """Results of earlier params: their paths, each with a clause on the name that params.yaml no longer has.

        Only in folders that are deps of stages as a whole, where a fresh clone has just the names of params.yaml, and
        only what a stage writes under such a name. Anything else there is left alone.
        """
        artifacts, features = self.folder, self.folder / "embeddings" / PRETRAINED
        for folder, pattern, names, kind, is_ours in (
            (artifacts / "manifests", r"\.parquet", datasets, "dataset", Path.is_file),
            (features, r"-test\.zarr", datasets, "dataset", _is_zarr),
            (features, r"-train\.zarr", (source,), "source", _is_zarr),
            (artifacts / "soups", "", {"class_name", *soups}, "soup", _holds_seeds),  # every run has the class names
            (artifacts / "finetuned", "", methods, "method", _holds_seeds),
            (self.results, r"\.parquet", methods, "method", Path.is_file),
            (self.results / "landscape", r"\.parquet", landscapes, "landscape of method", Path.is_file),
            (artifacts / "heads", "", heads, "head", _holds_seeds),
            (self.results / "heads", r"\.parquet", heads, "head", Path.is_file),
        ):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                match = re.fullmatch(_NAME + pattern, path.name)
                if match and match[1] not in names and is_ours(path):
                    yield path, f"params.yaml names no {kind} {match[1]!r}"


def evaluated_soups(soups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Section soups of params.yaml as `Artifacts.evaluated` lists it: name and pool of every soup, in params' order."""
    return [{"name": name, "pool": soup["pool"]} for name, soup in soups.items()]


def _is_zarr(path: Path) -> bool:
    return not path.is_symlink() and (path / "zarr.json").is_file()


def _holds_seeds(path: Path) -> bool:
    """Whether a folder holds only seed1.json, seed2.json, ... (or .safetensors), or folders seed1, seed2, ..."""
    if path.is_symlink() or not path.is_dir():
        return False
    names = [inner.name for inner in path.iterdir()]
    return bool(names) and all(re.fullmatch(r"seed\d+(\.json|\.safetensors)?", name) for name in names)
