"""What a run was, for the page: encoder, machine, datasets, and how long its stages took."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.images.versions import differing
from wsoup.report.results import Results

AUTO = "auto"
SPENT = ("images_seconds", "texts_seconds", "images_gflops", "texts_gflops")
"""What `wsoup.runtime.spent` notes of a stage."""
EVALUATING = ("embed", "evaluate", "evaluate_tuned")
KEPT = ("run", "time", "seconds")
MOST = 2**53
"""No seconds and no bytes are more."""
TIMED = ("stage", "seconds", "cpu_seconds", "peak_mib", "device")


def facts(results: Results) -> list[tuple[str, str]]:
    """Names and values: encoder, seeds, methods, machine."""
    encoder = {key: value for key, value in results.encoder.items() if value is not None}
    return [
        ("encoder", yaml.safe_dump(encoder, sort_keys=True).strip()),
        ("seeds", ", ".join(map(str, results.seeds))),
        ("finetuned", ", ".join(v for v in results.variants if v != PRETRAINED) or "nothing"),
        (
            "machine",
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        ),
    ]


def datasets(results: Results, *, artifacts: Artifacts) -> list[dict[str, Any]]:
    """What each dataset was: sizes, whether its split is the paper's, and a fingerprint of its manifest."""
    rows = []
    for name, about in results.facts.items():
        manifest = artifacts.manifest(name)
        paper = about.get("paper_comparable")
        rows.append(
            {
                "name": name,
                "role": about.get("role", ""),
                "classes": about["n_classes"],
                "images": about["n_images"],
                "template": about.get("template", ""),
                "paper": ""
                if paper is None
                else "the paper's split"
                if paper
                else about.get("reason", "another split"),
                "fingerprint": store.sha256_file(manifest)[:16] if manifest.exists() else "",
            }
        )
    return rows


def datasets_shown(results: Results, *, artifacts: Artifacts) -> dict[str, Any]:
    """`datasets` and its columns; what is to be said of every split is said once, as ``datasets_note``."""
    rows = datasets(results, artifacts=artifacts)
    said = {row["paper"] for row in rows}
    columns = ["dataset", "role", "classes", "test images", "template", "split", "manifest"]
    if len(said) > 1:
        return {"datasets": rows, "dataset_columns": columns, "datasets_note": ""}
    columns.remove("split")
    return {"datasets": rows, "dataset_columns": columns, "datasets_note": "".join(said)}


def mixed(results: Results) -> list[str]:
    """A sentence for each dataset whose features were made by older packages than those of others."""
    found = differing({name: about.get("made_with", {}) for name, about in results.facts.items()})
    return [
        f"{name}: its features {sentence}; `wsoup data check` says how to make them again"
        for name, sentence in found.items()
    ]


def timings(path: Path) -> list[dict[str, Any]]:
    """Seconds and memory of each stage's latest run on this machine, in the order in which they ran.

    Half a line, of a stage that was killed while it wrote, is left out.
    """
    latest: dict[str, dict[str, Any]] = {}
    for entry in _lines(path, texts=("stage", "device"), figures=("seconds", "cpu_seconds", "peak_mib")):
        latest.pop(entry["stage"], None)
        latest[entry["stage"]] = {**{key: entry[key] for key in TIMED}, "spent": _spent(entry.get("spent"))}
    return list(latest.values())


def _lines(path: Path, *, texts: Sequence[str], figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The lines of the timings whose texts are texts and whose figures are numbers that time or memory can be."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            whole = all(isinstance(entry[key], str) for key in texts)
            numbers = [entry[key] for key in figures if key != "peak_mib" or entry[key] is not None]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if whole and all(map(_is_figure, numbers)):
            yield entry


def _spent(noted: object) -> dict[str, float]:
    """What a stage noted of images and texts; nothing where that is not what stages note."""
    found = noted if isinstance(noted, dict) else {}
    return {key: float(found[key]) for key in SPENT if _is_figure(found.get(key))}


def _is_figure(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < MOST


def timings_shown(path: Path) -> dict[str, Any]:
    """`timings`, whether any stage was told its device, and `beside_stages`."""
    rows = timings(path)
    return {
        "timings": rows,
        "costs": costs(path),
        "devices": any(row["device"] != AUTO for row in rows),
        "rest": beside_stages(path),
    }


def costs(path: Path) -> list[dict[str, Any]]:
    """What images and texts took in the latest run of each stage, all its items together; a stage without is left out.

    The last row is the sum of those that evaluate: the paper's "239 s, of which 234 s images and 4.6 s texts".
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in timings(path):
        kind = str(entry["stage"]).rpartition(":")[2].partition("@")[0]
        names = [kind, *(["evaluation"] if kind in EVALUATING else [])]
        for name in names if entry["spent"] else ():
            row = found.setdefault(name, {"stage": name, "seconds": 0.0, **dict.fromkeys(SPENT, 0.0)})
            row["seconds"] += entry["seconds"]
            for key in SPENT:
                row[key] += entry["spent"].get(key, 0.0)
    rows = [row for name, row in found.items() if name != "evaluation"]
    return rows + ([{**found["evaluation"], "stage": "evaluation, all of it"}] if "evaluation" in found else [])


def costs_shown(path: Path) -> str:
    """`costs` for the terminal; empty where nothing was noted."""
    rows = costs(path)
    if not rows:
        return ""
    heads = ("seconds", "images", "texts", "GFLOPs images", "GFLOPs texts")
    keys = ("seconds", "images_seconds", "texts_seconds", "images_gflops", "texts_gflops")
    lines = [f"{'seconds of stages here':<24}" + "".join(f"{head:>15}" for head in heads)]
    lines += [f"{row['stage']:<24}" + "".join(f"{row[key]:>15,.1f}" for key in keys) for row in rows]
    return "\n".join(lines)


def beside_stages(path: Path) -> int | None:
    """Seconds of the last `dvc repro` that no stage counts: Python's start-up in each, and DVC's own time.

    From the first stage's begin to the last one's end, without what stages took. None where less than two stages ran.
    """
    lines = [(entry["run"], entry["time"], entry["seconds"]) for entry in _lines(path, texts=(), figures=KEPT)]
    last = [(time, seconds) for run, time, seconds in lines if run == lines[-1][0]]
    if len(last) < 2:
        return None
    wall = max(time for time, _ in last) - min(time - seconds for time, seconds in last)
    return max(0, round(wall - sum(seconds for _, seconds in last)))
