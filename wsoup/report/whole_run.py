"""All that `wsoup results` prints; the stage's own table is in `wsoup.report.terminal`."""

from __future__ import annotations

from pathlib import Path

from wsoup.artifacts import Artifacts
from wsoup.params.whole import load_params
from wsoup.report.about import costs_shown
from wsoup.report.judgement import load_judgement, sentence
from wsoup.report.reading import as_written
from wsoup.report.results import load_results
from wsoup.report.terminal import per_target, summary, verdicts
from wsoup.store import cache_dir


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
        parts += [costs] if (costs := costs_shown(cache_dir() / "timings.jsonl")) else []
    return "\n\n".join(parts)
