"""What a run was, for the page and the terminal: encoder, machine, datasets, and how long its stages took."""

from __future__ import annotations

import os
import platform
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wsoup.check.whole import load_params
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED, Artifacts
from wsoup.images.versions import differing
from wsoup.report.reading import as_written
from wsoup.report.results import Results
from wsoup.report.run import load_run
from wsoup.report.terminal import per_target, summary, verdicts
from wsoup.report.verdict import headline

AUTO = "auto"
SPENT = ("images_seconds", "texts_seconds", "images_gflops", "texts_gflops")
"""What `wsoup.runtime.process` notes of a stage."""
EVALUATING = ("embed", "evaluate", "evaluate_tuned")
EVALUATION = "evaluation, all of it"
Figure = Annotated[int | float, Field(ge=0, lt=2**53)]
"""Seconds, memory or FLOPs: nothing that a stage takes is more."""


class Timing(BaseModel):
    """One stage's run, as it noted it itself (`wsoup.pipeline.stage`)."""

    model_config = ConfigDict(strict=True, frozen=True)

    stage: str
    seconds: Figure
    cpu_seconds: Figure
    peak_mib: Figure | None
    device: str
    spent: dict[str, Figure] = {}


def facts(results: Results) -> list[tuple[str, str]]:
    """Names and values: encoder, seeds, methods, machine."""
    encoder = {key: value for key, value in results.encoder.items() if value is not None}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return [
        ("encoder", yaml.safe_dump(encoder, sort_keys=True).strip()),
        ("seeds", ", ".join(map(str, results.seeds))),
        ("finetuned", ", ".join(v for v in results.variants if v != PRETRAINED) or "nothing"),
        ("machine", machine),
    ]


def datasets(results: Results, *, artifacts: Artifacts) -> dict[str, Any]:
    """What each dataset was, and the columns that say it.

    Sizes, whether its split is the paper's, and a fingerprint of its manifest. What is to be said of every split is
    said once, as ``datasets_note``.
    """
    rows = []
    for name, about in results.facts.items():
        manifest, papers = artifacts.manifest(name), about.get("paper_comparable")
        split = "the paper's split" if papers else about.get("reason", "another split")
        rows.append(
            {
                "name": name,
                "role": about.get("role", ""),
                "classes": about["n_classes"],
                "images": about["n_images"],
                "template": about.get("template", ""),
                "paper": "" if papers is None else split,
                "fingerprint": store.sha256_file(manifest)[:16] if manifest.exists() else "",
            }
        )
    splits = {row["paper"] for row in rows}
    columns = ["dataset", "role", "classes", "test images", "template", *(["split"] * (len(splits) > 1)), "manifest"]
    return {"datasets": rows, "dataset_columns": columns, "datasets_note": splits.pop() if len(splits) == 1 else ""}


def mixed(results: Results) -> list[str]:
    """A sentence for each dataset whose features were made by older packages than those of others."""
    older = differing({name: about.get("made_with", {}) for name, about in results.facts.items()})
    return [
        f"{name}: its features {sentence}; `wsoup data check` says how to make them again"
        for name, sentence in older.items()
    ]


def timings(path: Path) -> list[Timing]:
    """Each stage's latest run on this machine, in the order in which they ran.

    What no stage notes is left out, such as half a line of one that was killed while it wrote.
    """
    latest: dict[str, Timing] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            timing = Timing.model_validate_json(line)
        except ValidationError:
            continue
        latest.pop(timing.stage, None)
        latest[timing.stage] = timing
    return list(latest.values())


def timings_shown(path: Path) -> dict[str, Any]:
    """`timings`, whether any stage was told its device, and `costs`."""
    rows = timings(path)
    return {"timings": rows, "costs": costs(path), "devices": any(row.device != AUTO for row in rows)}


def costs(path: Path) -> list[dict[str, Any]]:
    """What images and texts took in the latest run of each stage, all its items together; a stage without is left out.

    The last row is the sum of those that evaluate: the paper's "239 s, of which 234 s images and 4.6 s texts".
    """
    rows: dict[str, Counter[str]] = {}
    for timing in timings(path):
        kind = timing.stage.rpartition(":")[2].partition("@")[0]
        for row in (kind, EVALUATION) if timing.spent and kind in EVALUATING else (kind,) if timing.spent else ():
            rows.setdefault(row, Counter()).update({"seconds": timing.seconds, **timing.spent})
    rows |= {EVALUATION: rows.pop(EVALUATION)} if EVALUATION in rows else {}  # the last one
    return [{"stage": row, **{key: float(spent[key]) for key in ("seconds", *SPENT)}} for row, spent in rows.items()]


def costs_shown(path: Path) -> str:
    """`costs` for the terminal; empty where nothing was noted."""
    rows = costs(path)
    keys = {
        "seconds": "seconds",
        "images_seconds": "images",
        "texts_seconds": "texts",
        "images_gflops": "GFLOPs images",
        "texts_gflops": "GFLOPs texts",
    }
    lines = [f"{'seconds of stages here':<24}" + "".join(f"{head:>15}" for head in keys.values())]
    lines += [f"{row['stage']:<24}" + "".join(f"{row[key]:>15,.1f}" for key in keys) for row in rows]
    return "\n".join(lines) if rows else ""


def whole_run(params_file: str | Path) -> str:
    """All that `wsoup results` prints of the run in the working folder.

    Raises:
        MissingError, MismatchError: a stage has not run, or a file of it is not as it was written.
    """
    params = load_params(params_file)
    with as_written():
        run = load_run(params, artifacts=Artifacts())
        costs = costs_shown(store.cache_dir() / "timings.jsonl")
        parts = [summary(run.results), per_target(run.results), verdicts(run.judgement), headline(run.judgement)]
    return "\n\n".join([*parts, *([costs] if costs else [])])
