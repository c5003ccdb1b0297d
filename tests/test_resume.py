"""Long stages survive a kill: finished shards are kept, and the end is the same bytes. Stages are really killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCORE = "stages/score.py --pool artifacts/pools/words.txt --out again.parquet"
SOUP = "stages/word_soup.py --scores artifacts/scores/words.parquet --out again"
SOURCE = " --embeddings artifacts/embeddings/pretrained/photo-train.zarr --splits artifacts/splits/photo"


@pytest.fixture
def finished(project, tmp_path: Path) -> Path:
    """A finished miniature without its resume cache: stages run in it from the start."""
    folder = tmp_path / "finished"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns(".git", ".dvc", ".cache"), symlinks=False)
    return folder


def start(folder: Path, command: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *(command + SOURCE).split()],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(folder: Path, command: str, **variables: str) -> str:
    process = start(folder, command, **variables)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    return printed


def shards(folder: Path, stage: str) -> list[Path]:
    return sorted((folder / ".cache/wsoup" / stage).rglob("*.safetensors"))


def test_a_killed_scoring_goes_on_and_ends_in_the_same_bytes(finished):
    process = start(finished, SCORE)
    while not shards(finished, "score") and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in shards(finished, "score")}
    assert before
    finish(finished, SCORE)
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in before.items()), "a finished shard was redone"
    assert (finished / "again.parquet").read_bytes() == (finished / "artifacts/scores/words.parquet").read_bytes()


def test_parts_of_an_array_job_give_the_same_bytes(finished):
    for index in ("1", "0"):
        printed = finish(finished, f"{SOUP} --shard-index {index} --num-shards 2")
        assert f"part {index} of 2 is done" in printed
        assert not (finished / "again").exists()
    finish(finished, SOUP)
    for seed in (1, 2):
        name = f"seed{seed}.json"
        assert (finished / "again" / name).read_bytes() == (finished / "artifacts/soups/word" / name).read_bytes()


def test_several_processes_give_the_same_bytes(finished):
    finish(finished, SCORE, WSOUP_PROCESSES="2")
    assert (finished / "again.parquet").read_bytes() == (finished / "artifacts/scores/words.parquet").read_bytes()


def test_a_part_that_is_none_is_said(finished):
    process = start(finished, f"{SOUP} --shard-index 2 --num-shards 2")
    printed, _ = process.communicate()
    assert process.returncode == 1
    assert "error: WSOUP_SHARD_INDEX=2, WSOUP_NUM_SHARDS=2: must be whole numbers with 0 <= index < count" in printed
