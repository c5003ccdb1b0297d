"""Long stages survive whatever ends them: kills, interrupts, damage, two at once. Processes, really killed.

A stage that is begun again ends in the bytes of an undisturbed run, and does not do again what is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from processes import Running, run_stage
from project import ROOT, Project

LONG = {
    "embed": ("photo", "embeddings/pretrained/photo-test.zarr"),
    "score": ("words", "scores/words.parquet"),
    "soup": ("word", "soups/word"),
    "finetune": ("ce", "finetuned/ce"),
    "evaluate_tuned": ("ce", "results/ce.parquet"),
    "landscape": ("coop_diverse", "results/landscape/coop_diverse.parquet"),
}
"""The stages that keep their finished shards: an item of each, and what it leaves in artifacts/."""
FEATURES = "wsoup/images/features.py"
LEFT = Path(".cache/wsoup")


class Miniature:
    """A finished miniature whose long stages have several shards each, and what they leave undisturbed."""

    def __init__(self, folder: Path, *, project: Project) -> None:
        ignored = shutil.ignore_patterns(".git", ".dvc", ".cache", "__pycache__", "reports")
        shutil.copytree(project.folder, folder, ignore=ignored)
        self.folder = folder
        code = (folder / FEATURES).read_text()
        assert "IMAGES_PER_SHARD = 2048" in code
        (folder / FEATURES).write_text(code.replace("IMAGES_PER_SHARD = 2048", "IMAGES_PER_SHARD = 4"))
        params = yaml.safe_load((folder / "params.yaml").read_text())
        params["landscape"].update(steps=2, margin=0, methods=["coop_diverse"])
        params["finetune"]["iterations"] = 30
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        self.undisturbed: dict[str, str] = {}
        self.seconds: dict[str, float] = {}

    def start(self, stage: str, **variables: str) -> Running:
        return Running(self.folder, stage, LONG[stage][0], root=self.folder, WSOUP_SAVE_SECONDS="0", **variables)

    def run(self, stage: str, *, code: int = 0, **variables: str) -> str:
        return run_stage(self.folder, stage, LONG[stage][0], root=self.folder, code=code, **variables)

    def left(self, stage: str, pattern: str = "*.part") -> list[Path]:
        """Resume state of a stage."""
        return sorted((self.folder / LEFT / f"{stage}@{LONG[stage][0]}").rglob(pattern))

    def digest(self, stage: str) -> str:
        """One hash of what the stage left in artifacts/, file by file."""
        out = self.folder / "artifacts" / LONG[stage][1]
        files = sorted(path for path in [out, *out.rglob("*")] if path.is_file())
        found = hashlib.sha256()
        for path in files:
            found.update(f"{path.relative_to(out)} {len(path.read_bytes())} ".encode() + path.read_bytes())
        return found.hexdigest()

    def expect_undisturbed(self, stage: str) -> None:
        assert self.digest(stage) == self.undisturbed[stage]
        assert not (self.folder / LEFT / f"{stage}@{LONG[stage][0]}").exists(), "finished shards are kept for nothing"
        assert not [*(self.folder / "artifacts").rglob(".*.tmp")], "half-written files are left"

    def killed_half_way(self, stage: str) -> list[Path]:
        """Begin a stage and kill it once it has finished a shard; the shards that are finished then."""
        shutil.rmtree(self.folder / LEFT / f"{stage}@{LONG[stage][0]}", ignore_errors=True)
        running = self.start(stage)
        assert running.until(lambda: self.left(stage))
        running.send(signal.SIGKILL)
        assert running.wait()[0] == -signal.SIGKILL
        return self.left(stage)


@pytest.fixture(scope="module")
def miniature(project, tmp_path_factory) -> Miniature:
    made = Miniature(tmp_path_factory.mktemp("resume") / "project", project=project)
    for stage in LONG:
        began = time.monotonic()
        made.run(stage)
        made.seconds[stage] = time.monotonic() - began
        made.undisturbed[stage] = made.digest(stage)
    return made


# --------------------------------------------------------------------------------------------------------- killed


@pytest.mark.parametrize("stage", LONG)
def test_a_killed_stage_goes_on_where_it_was_and_ends_in_the_same_bytes(miniature, stage):
    finished = miniature.killed_half_way(stage)
    abouts = [json.loads(path.read_text()) for path in miniature.left(stage, "about.json")]
    printed = miniature.run(stage)
    said = re.search(r": (\d+) of (\d+) \w+s were finished before; going on", printed)
    assert (int(said[1]), int(said[2])) == (len(finished), sum(about["n"] for about in abouts)) if said else finished
    miniature.expect_undisturbed(stage)


def kill_at_random(miniature: Miniature, stage: str, *, seed: int, times: int) -> None:
    """Kill a stage `times` times, each time at a moment of its run by the seed, then let it finish."""
    moments = random.Random(f"{stage} {seed}")
    for _ in range(times):
        running = miniature.start(stage)
        time.sleep(moments.uniform(0, miniature.seconds[stage]))
        running.send(signal.SIGKILL)
        assert running.wait()[0] in (0, -signal.SIGKILL)
    miniature.run(stage)
    miniature.expect_undisturbed(stage)


@pytest.mark.parametrize("stage", LONG)
def test_kills_at_random_moments_end_in_the_same_bytes(miniature, stage):
    kill_at_random(miniature, stage, seed=0, times=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("stage", LONG)
def test_many_kills_at_random_moments_end_in_the_same_bytes(miniature, stage, seed):
    kill_at_random(miniature, stage, seed=seed, times=4)


def test_damaged_shards_are_named_dropped_and_done_again(miniature):
    """Cut short, one bit of it turned, and something else altogether; what is whole stays."""
    running = miniature.start("score")
    assert running.until(lambda: len(miniature.left("score")) >= 3)
    running.send(signal.SIGKILL)
    running.wait()
    cut, flipped, other, *_ = miniature.left("score")
    cut.write_bytes(cut.read_bytes()[:-5])
    data = flipped.read_bytes()
    flipped.write_bytes(data[:90] + bytes([data[90] ^ 1]) + data[91:])
    other.write_text("<html>")
    printed = miniature.run("score")
    for path in (cut, flipped, other):
        assert printed.count(f"{path.name} is damaged: its checksum is not that of its bytes: it is done again") == 1
    miniature.expect_undisturbed("score")


# ---------------------------------------------------------------------------------------------------- interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["score", "finetune"])
def test_an_interrupt_while_at_work_is_one_line_and_what_is_finished_is_kept(miniature, stage, number):
    running = miniature.start(stage)
    assert running.until(lambda: miniature.left(stage))
    running.send(number)
    code, printed = running.wait()
    assert code == 130
    last = printed.rstrip("\n").splitlines()[-1]
    assert last.endswith(f"{stage}: interrupted; what is finished is kept, run it again to go on")
    assert "Traceback" not in printed
    assert miniature.left(stage)
    miniature.run(stage)
    miniature.expect_undisturbed(stage)


def handles_signals(process: int) -> bool:
    """Whether a process has a handler for SIGTERM by now, as the kernel sees it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    found = re.search(r"SigCgt:\s*(\w+)", status)
    return bool(found and int(found[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the moment is read from /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.4, 1.0])
def test_an_interrupt_while_modules_are_imported_is_one_line_too(miniature, number, seconds):
    """A start of Python as `dvc repro` makes it, from its first moment on."""
    command = [sys.executable, "-m", "stages.score", "words"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=miniature.folder, **pipes) as process:
        while not handles_signals(process.pid):
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(number)
        printed, _ = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in printed
    assert "interrupted" in printed.splitlines()[-1]
    assert [line for line in printed.splitlines() if line and "score words:" not in line] == printed.splitlines()[-1:]


# ------------------------------------------------------------------------------------------------------ two at once


def test_a_second_run_of_a_stage_says_who_holds_the_lock_and_the_first_is_undisturbed(miniature):
    first = miniature.start("score")
    assert first.until(lambda: miniature.left("score"))
    first.send(signal.SIGSTOP)
    try:
        printed = miniature.run("score", code=1)
        said = rf"error: stage 'score@words' is running here already \(process {first.process.pid} since [\d: -]+\)"
        assert re.fullmatch(rf"{said}; wait for it, or stop it\n", printed)
        run_stage(miniature.folder, "score", "descriptors", root=miniature.folder)  # another item is another lock
    finally:
        first.send(signal.SIGCONT)
    assert first.wait()[0] == 0
    miniature.expect_undisturbed("score")


# --------------------------------------------------------------------------------------------------- another tree


def test_a_script_that_would_run_another_trees_wsoup_is_refused_in_one_line(miniature, tmp_path):
    script = miniature.folder / "stages/score.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), "words"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    said = f"error: {script} would run {ROOT / 'wsoup'}, not {miniature.folder / 'wsoup'} beside it; run it from "
    assert done.stderr == f"{said}{miniature.folder} as `python -m stages.score` and clear PYTHONPATH\n"
