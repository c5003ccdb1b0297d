"""All that `wsoup results` prints; the stage's own table is in `wsoup.report.terminal`."""

from __future__ import annotations

from pathlib import Path

from wsoup.check.whole import load_params
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.store import cache_dir
from wsoup.report.about import costs_shown
from wsoup.report.headline import headline
from wsoup.report.reading import as_written
from wsoup.report.run import load_run
from wsoup.report.terminal import per_target, summary, verdicts


def whole_run(params_file: str | Path) -> str:
    """All that `wsoup results` prints of the run in the working folder.

    Raises:
        MissingError, MismatchError: a stage has not run, or a file of it is not as it was written.
    """
    params = load_params(params_file)
    with as_written():
        run = load_run(params, artifacts=Artifacts())
        costs = costs_shown(cache_dir() / "timings.jsonl")
        parts = [summary(run.results), per_target(run.results), verdicts(run.judgement), headline(run.judgement)]
    return "\n\n".join([*parts, *([costs] if costs else [])])
