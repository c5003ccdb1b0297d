"""A finished miniature project to kill and restart long stages in, each in its own process."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from pathlib import Path

import yaml
from processes import Running, run_stage
from project import PLANE, SOFT, Project
from yaml_in_c import safe_load

LONG = {
    "embed@photo": "embeddings/pretrained/photo-test.zarr",
    "score@words": "scores/words.parquet",
    "soup@word": "soups/word",
    "finetune@ce": "finetuned/ce",
    "finetune@soft": "finetuned/soft",
    "landscape@soft": "results/landscape/soft.parquet",
    "evaluate": "results/pretrained",
    "evaluate_tuned@ce": "results/ce.parquet",
}
"""One of each stage with resume state, and its out in artifacts/."""
FEATURES = "wsoup/images/embed.py"
LEFT = Path(".cache/wsoup")
SECONDS = "seconds.json"


class Miniature:
    """A finished miniature project with several shards per long stage, and the digests of its outs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.undisturbed = {stage: self.digest(stage) for stage in LONG}
        self.seconds = json.loads((folder / SECONDS).read_text())

    @classmethod
    def make(cls, folder: Path, *, project: Project) -> None:
        """Run the long stages of a copy of the project once, undisturbed."""
        ignored = shutil.ignore_patterns(".git", ".dvc", ".cache", "reports")
        shutil.copytree(project.folder, folder, ignore=ignored)
        code = (folder / FEATURES).read_text()
        assert "BATCHES_PER_SHARD = 16" in code
        (folder / FEATURES).write_text(code.replace("BATCHES_PER_SHARD = 16", "BATCHES_PER_SHARD = 1"))
        params = safe_load((folder / "params.yaml").read_text())
        params["finetune"]["iterations"] = 30
        params["landscape"] = PLANE
        params["finetune"]["methods"]["soft"] = SOFT
        params["embed"]["batch_size"] = 4
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        run_stage(folder, "code", root=folder)
        seconds = {}
        run_stage(folder, "embed", "photo", root=folder)  # the first process waits for the imports of heavy packages
        for stage in LONG:
            began = time.monotonic()
            run_stage(folder, *stage.split("@"), root=folder)
            seconds[stage] = time.monotonic() - began
        (folder / SECONDS).write_text(json.dumps(seconds))

    def start(self, stage: str, **variables: str) -> Running:
        """Start a stage as if it had never run here."""
        shutil.rmtree(self.folder / LEFT / stage, ignore_errors=True)
        return self.resume(stage, **variables)

    def resume(self, stage: str, **variables: str) -> Running:
        return Running(self.folder, *stage.split("@"), root=self.folder, WSOUP_SAVE_SECONDS="0", **variables)

    def run(self, stage: str, *, code: int = 0, **variables: str) -> str:
        return run_stage(self.folder, *stage.split("@"), root=self.folder, code=code, **variables)

    def left(self, stage: str, pattern: str = "*.part") -> list[Path]:
        """Resume state of a stage."""
        return sorted((self.folder / LEFT / stage).rglob(pattern))

    def digest(self, stage: str) -> str:
        """One hash of all files of a stage's out."""
        out = self.folder / "artifacts" / LONG[stage]
        files = sorted(path for path in [out, *out.rglob("*")] if path.is_file())
        sha = hashlib.sha256()
        for path in files:
            sha.update(f"{path.relative_to(out)} {len(path.read_bytes())} ".encode() + path.read_bytes())
        return sha.hexdigest()

    def expect_undisturbed(self, stage: str) -> None:
        assert self.digest(stage) == self.undisturbed[stage]
        assert not self.left(stage, "*.running"), "states of running shards are left"
        assert not self.left(stage, "*.tmp"), "temporary files of shards are left"
        assert not [*(self.folder / "artifacts").rglob(".*.tmp")], "temporary files are left"

    def killed_half_way(self, stage: str) -> list[Path]:
        """Start a stage and kill it after its first shard; the shards that are finished by then."""
        running = self.start(stage)
        assert running.until(lambda: self.left(stage))
        running.send(signal.SIGKILL)
        assert running.wait()[0] == -signal.SIGKILL
        return self.left(stage)
