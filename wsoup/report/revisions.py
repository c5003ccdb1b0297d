"""One side of a comparison: what reports/ and DVC's cache hold of a git revision, an experiment or the workspace.

Records and counts (reports/) are read from git, so any commit, branch, tag or DVC experiment that contains them will
do. Images that a row gets right are read from DVC's cache.
"""

import csv
import io
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.evaluate.right import Right, right_by_row
from wsoup.evaluate.row_key import RowKey, files_of_right, row_in_mode
from wsoup.report import record
from wsoup.report.record import Record
from wsoup.runtime.git import git

WORKSPACE = "workspace"


class TestImages(NamedTuple):
    """The test images of one dataset at a revision; two are equal if the images are."""

    name: str
    role: str
    n_images: int
    images: str
    """Digest of the test images."""


Counts = dict[TestImages, dict[int, int]]
"""Test images -> seed -> how many are correct."""


class Revision:
    """What is known of a run at a revision.

    Attributes:
        name, root: a git revision, a DVC experiment or `WORKSPACE`, of the repository in a folder.
        commit: its hash; None for the workspace.
        record: of the run.

    Raises:
        MissingError: there is no such revision, or it has no report.
    """

    def __init__(self, name: str, *, root: Path) -> None:
        self.name = name
        self.root = root
        self.commit = None if name == WORKSPACE else self._commit()
        self.record = Record.parse(self.text(record.FILE), origin=f"{record.FILE} of {name}")

    @cached_property
    def counts(self) -> dict[RowKey, Counts]:
        """The counts of every row."""
        rows: dict[RowKey, Counts] = {}
        table = io.StringIO(self.text(Path("reports/tables/counts.csv")))
        for line in csv.DictReader(table):
            dataset = TestImages(line["dataset"], line["role"], int(line["n_images"]), line["images"])
            counts = rows.setdefault(RowKey(line["variant"], line["row"]), {})
            by_seed = counts.setdefault(dataset, {})
            by_seed[int(line["seed"])] = int(line["n_correct"])
        return rows

    @cached_property
    def right(self) -> dict[RowKey, Right]:
        """Which images rows get right; empty if DVC does not have them at hand."""
        params = self.record.params
        files = files_of_right(
            Artifacts().results, methods=params["finetune"]["methods"], heads=params.get("heads", ())
        )
        rows: dict[RowKey, Right] = {}
        for variant, path in files.items():
            for (method, mode), right in right_by_row(self._stored(path.as_posix())).items():
                rows[RowKey(variant, row_in_mode(method, mode))] = right
        return rows

    def images(self, key: RowKey, datasets: list[TestImages], seeds: list[int]) -> Right | None:
        """Which images a row gets right with some seeds; None if they are not known or do not fit the counts."""
        chosen: Right = {}
        for dataset in datasets:
            counts = dict(sorted(self.counts[key][dataset].items()))
            right = self.right.get(key, {}).get(dataset.name)
            if right is None or right.sum(axis=1).tolist() != list(counts.values()):
                return None
            # Right images are stacked by rising seed.
            order = list(counts)
            chosen[dataset.name] = right[[order.index(seed) for seed in seeds]]
        return chosen

    def text(self, path: Path) -> str:
        """A file as it is at this revision."""
        if self.commit is None:
            return store.require(self.root / path, made_by="report").read_text(encoding="utf-8")
        # From this folder, which may lie in a repository of a larger project.
        text = git("show", f"{self.commit}:./{path.as_posix()}", folder=self.root)
        if text is None:
            raise MissingError(f"{path} is not in revision {self.name}; commit reports/ after `dvc repro`")
        return text

    def _commit(self) -> str:
        """The hash of a revision, or of an experiment by its name."""
        commit = git("rev-parse", "--verify", "--quiet", f"{self.name}^{{commit}}", folder=self.root)
        # DVC keeps experiments as references of git that are neither branches nor tags.
        if not commit:
            reference = f"refs/exps/*/*/{self.name}"
            commit = git("for-each-ref", "--format=%(objectname)", reference, folder=self.root)
        if not commit:
            raise MissingError(
                f"{self.name!r} is neither a revision nor an experiment here; see `git log` and `dvc exp list`"
            )
        return commit.split()[0]

    def _stored(self, path: str) -> list[dict[str, object]]:
        """Lines of a Parquet file of this revision; none if DVC does not have it."""
        try:
            from pyarrow import parquet

            if self.commit is None:
                return parquet.read_table(self.root / path).to_pylist()
            place = self.root.resolve().relative_to(self._repository)
            content = self._files.read_bytes((place / path).as_posix())
            return parquet.read_table(io.BytesIO(content)).to_pylist()
        except Exception:  # not cached, no DVC, another layout: counts are still there
            return []

    @cached_property
    def _repository(self) -> Path:
        """The root of the git repository, which may hold more than this folder."""
        here = self.root.resolve()
        return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)

    @cached_property
    def _files(self) -> Any:
        """The revision's files, as DVC has them, from the repository's root; made once: that takes it a second."""
        from dvc.api import DVCFileSystem

        # At a revision DVC knows a folder within a repository only as a part of it, and looks for such only if asked.
        is_part = self._repository != self.root.resolve()
        return DVCFileSystem(url=str(self._repository), rev=self.commit, subrepos=is_part)
