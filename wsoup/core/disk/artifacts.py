"""Where every file of a run lies: what stages hand to each other, by its name. dvc.yaml names the same places.

Stages run in the folder of params.yaml, and every path here is relative to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PRETRAINED = "pretrained"
"""The variant of image features and results that no training touched."""
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
        """The images of one dataset that a run uses."""
        return self.folder / "manifests" / f"{dataset}.parquet"

    def split(self, source: str, *, seed: int) -> Path:
        """The few-shot training images of one seed."""
        return self.folder / "splits" / source / f"seed{seed}.parquet"

    def features(self, dataset: str, *, split: str) -> Path:
        """Image features of the pretrained encoder, of split train or test."""
        return self.folder / "embeddings" / PRETRAINED / f"{dataset}-{split}.zarr"

    def tests(self) -> list[Path]:
        """The test features of every dataset, sorted."""
        return sorted(self.features("*", split="test").parent.glob(self.features("*", split="test").name))

    @property
    def piles(self) -> Path:
        """The folder of targets' images without labels."""
        return self.folder / "piles"

    def pool(self, name: str) -> Path:
        """A pool of candidates, one bare text a line."""
        return self.folder / "pools" / f"{name}.txt"

    @property
    def evaluated(self) -> Path:
        """The datasets and soups that are evaluated, and every dataset's GPT descriptors by its own class names."""
        return self.folder / "evaluated.json"

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

    def head(self, name: str, *, seed: int) -> Path:
        """One head file."""
        return self.folder / "heads" / name / f"seed{seed}.safetensors"

    @property
    def results(self) -> Path:
        """The folder of counts."""
        return self.folder / "results"

    @property
    def survey(self) -> Path:
        """Counts of texts that nobody selected."""
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
        adaptations: Collection[str],
    ) -> Iterator[tuple[Path, str]]:
        """What earlier params left behind: paths, and what params.yaml does not name any more.

        Only in folders with a file for each name, which are deps of stages as a whole: there a fresh clone has what
        params.yaml names and no more. Only what a stage writes by such a name; anything else there is left alone.
        """
        made = self.folder
        features = made / "embeddings" / PRETRAINED
        for folder, pattern, kept, kind, ours in (
            (made / "manifests", r"\.parquet", datasets, "dataset", Path.is_file),
            (features, r"-test\.zarr", datasets, "dataset", _is_zarr),
            (features, r"-train\.zarr", (source,), "source", _is_zarr),
            (made / "soups", "", {"class_name", *soups}, "soup", _holds_seeds),  # every run makes that one
            (made / "finetuned", "", methods, "method", _holds_seeds),
            (self.results, r"\.parquet", methods, "method", Path.is_file),
            (self.results / "landscape", r"\.parquet", landscapes, "landscape of method", Path.is_file),
            (made / "heads", "", heads, "head", _holds_seeds),
            (self.results / "heads", r"\.parquet", heads, "head", Path.is_file),
            (self.results / "adapted", r"\.parquet", adaptations, "adaptation", Path.is_file),
        ):
            for path, name in _named(folder, re.compile(_NAME + pattern), ours=ours):
                if name not in kept:
                    yield path, f"params.yaml names no {kind} {name!r}"


def _named(folder: Path, pattern: re.Pattern[str], *, ours: Callable[[Path], bool]) -> Iterator[tuple[Path, str]]:
    """What lies in a folder, is of our making and is called as `pattern` says, with its name."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (match := pattern.fullmatch(path.name)) and ours(path):
            yield path, match[1]


def _is_zarr(path: Path) -> bool:
    return not path.is_symlink() and (path / "zarr.json").is_file()


def _holds_seeds(path: Path) -> bool:
    """seed1.json, seed2.json, ... (or .safetensors), or folders seed1, seed2, ..., and nothing else."""
    if path.is_symlink() or not path.is_dir():
        return False
    names = [inner.name for inner in path.iterdir()]
    return bool(names) and all(re.fullmatch(r"seed\d+(\.json|\.safetensors)?", name) for name in names)
