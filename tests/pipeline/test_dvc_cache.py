"""Damage in DVC's cache is found: `dvc checkout` would restore a file that a power cut left truncated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import make_dvc_folder

from wsoup.pipeline.graph import damaged_in_cache

PIPELINE = """
stages:
  one: {cmd: "mkdir one && echo a > one/a && echo b > one/b", outs: [one]}
  two: {cmd: "echo c > two", outs: [two]}
"""
A, B, C = "60b725f10c9c85c70d97880dfe8191b3", "3b5d5c3712955042212316173ccf37be", "2cd6ee2c70b0bde53fbe6cac3c8b8bb1"


@pytest.fixture
def run(in_tmp: Path) -> Path:
    make_dvc_folder(in_tmp)
    Path("dvc.yaml").write_text(PIPELINE)
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    assert damaged_in_cache() == (4, [])
    return in_tmp / ".dvc/cache/files/md5"


def spoil(file: Path, data: bytes = b"") -> None:
    os.chmod(file, 0o644)
    file.write_bytes(data)


@pytest.mark.parametrize(("digest", "stage"), [(A, "one"), (C, "two")])
def test_a_truncated_file_is_named_with_the_stage_to_repeat(run: Path, digest: str, stage: str) -> None:
    spoil(run / digest[:2] / digest[2:])
    count, (message,) = damaged_in_cache()
    assert count == 4
    assert message == (
        f".dvc/cache/files/md5/{digest[:2]}/{digest[2:]} is damaged: its bytes are not what its name says; remove it, "
        f"then `dvc fetch {stage}` or `dvc repro --force --single-item {stage}`"
    )


@pytest.mark.parametrize("data", [b"", b"[]", b'[{"md5": "../../x"}]'])
def test_a_damaged_listing_of_a_folder_is_named_too(run: Path, data: bytes) -> None:
    [listed] = run.rglob("*.dir")
    spoil(listed, data)
    count, (message,) = damaged_in_cache()
    assert (count, message.split()[0]) == (2, os.path.relpath(listed))


def test_a_missing_file_is_not_damage(run: Path) -> None:
    (run / B[:2] / B[2:]).unlink()
    assert damaged_in_cache() == (3, [])
