"""DVC's cache held against the names in it: `dvc checkout` would put back a file that a power cut left truncated."""

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
def test_a_truncated_file_is_named_with_what_makes_it_again(run: Path, digest: str, stage: str) -> None:
    spoil(run / digest[:2] / digest[2:])
    count, (said,) = damaged_in_cache()
    assert count == 4
    assert said == (
        f".dvc/cache/files/md5/{digest[:2]}/{digest[2:]} is damaged: its bytes are not what its name says; remove it, "
        f"then `dvc fetch {stage}` or `dvc repro --force --single-item {stage}`"
    )


@pytest.mark.parametrize("data", [b"", b"[]", b'[{"md5": "../../x"}]'])
def test_the_list_of_a_folder_is_held_against_its_name_too(run: Path, data: bytes) -> None:
    [listed] = run.rglob("*.dir")
    spoil(listed, data)
    count, (said,) = damaged_in_cache()
    assert (count, said.split()[0]) == (2, os.path.relpath(listed))


def test_what_the_cache_does_not_have_is_no_damage(run: Path) -> None:
    (run / B[:2] / B[2:]).unlink()
    assert damaged_in_cache() == (3, [])
