"""``wsoup results``: the run in the working folder as text."""

from __future__ import annotations

from pathlib import Path

from wsoup.artifacts import Artifacts
from wsoup.params.whole import load_params
from wsoup.report.judgement import load_judgement, sentence
from wsoup.report.reading import as_written
from wsoup.report.results import load_results
from wsoup.report.terminal import per_target, summary, verdicts


def whole_run(params_file: str | Path) -> str:
    """All that `wsoup results` prints of the run in the working folder.

    Raises:
        MissingError, MismatchError: a stage has not run, or a file of it is not as it was written.
    """
    found, folder = load_params(params_file), Artifacts().results
    with as_written():
        results = load_results(
            folder,
            datasets=found.datasets,
            soups=list(found.soups),
            methods=list(found.finetune.methods),
            evaluate=found.evaluate,
            sections=found.model_dump(mode="json", by_alias=True),
        )
        judgement = load_judgement(folder, soups=found.soups, roles=results.roles, confidence=found.report.confidence)
        parts = [summary(results), per_target(results), verdicts(judgement), sentence(judgement)]
    return "\n\n".join(parts)
