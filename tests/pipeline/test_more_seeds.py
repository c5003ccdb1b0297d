"""One more seed costs itself: what was searched and trained for the others is found again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project import Project
from yaml_in_c import safe_load


@pytest.mark.long
def test_one_more_seed_searches_and_trains_only_itself(project: Project, tmp_path: Path) -> None:
    run = project.copy(tmp_path / "run")
    params = safe_load((run.folder / "params.yaml").read_text())
    run.write_params({**params, "seeds": [*params["seeds"], 7]})
    before = {
        path: path.read_bytes()
        for pattern in ("soups/[dw]*/seed*.json", "finetuned/*/seed*/weights.safetensors")
        for path in (run.folder / "artifacts").glob(pattern)
    }
    parts = [*(run.folder / ".cache/wsoup/evaluate_tuned@coop_diverse").rglob("*.part")]
    written = {path: path.stat().st_mtime_ns for path in parts}
    printed = run.run("dvc", "repro", "soup", "finetune", "head", "evaluate_tuned@coop_diverse")
    found = dict(re.findall(r"^(.+): (\d+ of \d+ \w+)s were finished before; going on$", printed, re.MULTILINE))
    assert found == {
        "embed photo train": "13 of 16 image",
        "soup descriptor": "2 of 3 part",
        "soup word": "4 of 6 part",
        "ce": "6 of 9 iteration",
        "coop_diverse": "6 of 9 iteration",
        "head": "2 of 3 seed",
        "survey": "1 of 2 part",  # texts on the targets, which have no seed
    }
    assert {path: path.read_bytes() for path in before} == before
    assert written
    assert {path: path.stat().st_mtime_ns for path in parts} == written, (
        "the first seeds' models are not evaluated again"
    )
