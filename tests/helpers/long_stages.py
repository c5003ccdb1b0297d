"""A finished miniature whose long stages are begun, killed and begun again, as processes of their own."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from pathlib import Path

import yaml
from processes import Running, run_stage
from project import Project

from wsoup.images import known

LONG = {
    "embed@photo": "embeddings/pretrained/photo-test.zarr",
    "score@words": "scores/words.parquet",
    "soup@word": "soups/word",
    "finetune@ce": "finetuned/ce",
    "evaluate": "results/pretrained",
    "evaluate_tuned@ce": "results/ce.parquet",
    "landscape@coop_diverse": "results/landscape/coop_diverse.parquet",
}
"""One of each stage that keeps its finished shards, and what it leaves in artifacts/."""
FEATURES = "wsoup/images/features.py"
LEFT = Path(".cache/wsoup")
SECONDS = "seconds.json"


class Miniature:
    """A finished miniature whose long stages have several shards each, and what they leave undisturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.undisturbed = {stage: self.digest(stage) for stage in LONG}
        self.seconds = json.loads((folder / SECONDS).read_text())

    @classmethod
    def make(cls, folder: Path, *, project: Project) -> None:
        """Run the long stages of a copy of the project, once and undisturbed."""
        ignored = shutil.ignore_patterns(".git", ".dvc", ".cache", "reports")
        shutil.copytree(project.folder, folder, ignore=ignored)
        code = (folder / FEATURES).read_text()
        assert "IMAGES_PER_SHARD = 2048" in code
        (folder / FEATURES).write_text(code.replace("IMAGES_PER_SHARD = 2048", "IMAGES_PER_SHARD = 4"))
        params = yaml.safe_load((folder / "params.yaml").read_text())
        params["landscape"].update(steps=2, margin=0, methods=["coop_diverse"])
        params["finetune"]["iterations"] = 30
        params["score"]["racing"] = {"words": [{"classes": 0.5, "keep": 12}]}  # of 13: two rounds
        params["embed"]["batch_size"] = 4
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        seconds = {}
        run_stage(folder, "embed", "photo", root=folder)  # the first process of all waits for the heavy packages
        for stage in LONG:
            began = time.monotonic()
            run_stage(folder, *stage.split("@"), root=folder)
            seconds[stage] = time.monotonic() - began
        (folder / SECONDS).write_text(json.dumps(seconds))

    def start(self, stage: str, **variables: str) -> Running:
        return Running(self.folder, *stage.split("@"), root=self.folder, WSOUP_SAVE_SECONDS="0", **variables)

    def run(self, stage: str, *, code: int = 0, **variables: str) -> str:
        return run_stage(self.folder, *stage.split("@"), root=self.folder, code=code, **variables)

    def left(self, stage: str, pattern: str = "*.part") -> list[Path]:
        """Resume state of a stage."""
        return sorted((self.folder / LEFT / stage).rglob(pattern))

    def digest(self, stage: str) -> str:
        """One hash of what the stage left in artifacts/, file by file."""
        out = self.folder / "artifacts" / LONG[stage]
        files = sorted(path for path in [out, *out.rglob("*")] if path.is_file())
        found = hashlib.sha256()
        for path in files:
            found.update(f"{path.relative_to(out)} {len(path.read_bytes())} ".encode() + path.read_bytes())
        return found.hexdigest()

    def expect_undisturbed(self, stage: str) -> None:
        assert self.digest(stage) == self.undisturbed[stage]
        assert not (self.folder / LEFT / stage).exists(), "finished shards are kept for nothing"
        assert not [*(self.folder / "artifacts").rglob(".*.tmp")], "half-written files are left"

    def killed_half_way(self, stage: str) -> list[Path]:
        """Begin a stage and kill it once it has finished a shard; the shards that are finished then."""
        for whose in (stage, known.FOLDER):  # without those of the run before, embed has all images to do
            shutil.rmtree(self.folder / LEFT / whose, ignore_errors=True)
        running = self.start(stage)
        assert running.until(lambda: self.left(stage))
        running.send(signal.SIGKILL)
        assert running.wait()[0] == -signal.SIGKILL
        return self.left(stage)
