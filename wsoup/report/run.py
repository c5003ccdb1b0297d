"""A run as reports see it: its results, and the verdict on its soups."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from wsoup.finetune.params import FinetuneParams
from wsoup.params.base.datasets import Datasets
from wsoup.params.evaluation import EvaluateParams, ReportParams
from wsoup.report.judgement import Judgement, load_judgement
from wsoup.report.results import Results, load_results
from wsoup.search.grow.params import Soups


class RunParams(Protocol):
    """The sections of params.yaml that reports need: all of them, or those of stage `report`."""

    datasets: Datasets
    soups: Soups
    finetune: FinetuneParams
    evaluate: EvaluateParams
    report: ReportParams

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        """All sections as JSON values."""


def load_run(params: RunParams, *, folder: Path) -> tuple[Results, Judgement]:
    """Read what stages `evaluate` and `evaluate_tuned` left in `folder`.

    Raises:
        MissingError, MismatchError: a stage has not run, or a file of it is not as it was written.
    """
    results = load_results(
        folder,
        datasets=params.datasets,
        soups=list(params.soups),
        methods=list(params.finetune.methods),
        evaluate=params.evaluate,
        sections=params.model_dump(mode="json", by_alias=True),
    )
    return results, load_judgement(folder, soups=params.soups, roles=results.roles, confidence=params.report.confidence)
