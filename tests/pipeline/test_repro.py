"""`wsoup repro`: what `dvc repro` makes, by stages that are forked from one process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from processes import ROOT, children
from project import Project, miniature_params, write_miniature, write_params

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stages are forked on Linux alone")


def start(project: Project, *arguments: str) -> subprocess.Popen[str]:
    """Start `wsoup repro` with the project's own code, and with the usual `python` for stages."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = (sys.executable, "-m", "wsoup", "repro", *arguments)
    # As in an activated environment, whose prompt the shell that starts a stage unsets.
    return project.start(*command, PATH=path, PYTHONPATH=str(project.folder), PS1="(.venv) ")


def forked(running: subprocess.Popen[str], project: Project) -> Iterator[str]:
    """Every stage that works in a fork of the command's server, as long as the command runs."""
    seen = set()
    while running.poll() is None:
        servers = children(running.pid, doing="wsoup.runtime.fork_server")
        for holder in (project.folder / ".cache/wsoup/locks").glob("*.pid"):
            with suppress(OSError, IndexError):  # it has just ended, or begun
                pid = int(holder.read_text().split()[1])
                if holder.stem not in seen and servers:
                    assert pid in children(servers[0]) or not Path(f"/proc/{pid}").exists(), "it runs by itself"
                    seen.add(holder.stem)
                    yield holder.stem
        time.sleep(0.001)


def test_stages_are_forked_and_make_what_dvc_repro_makes(first_run, tmp_path):
    project = first_run.copy(tmp_path / "project")
    before = project.outs()
    for name in ("finetune@ce", "embed@other"):
        shutil.rmtree(project.folder / ".cache/wsoup" / name)
    running = start(project, "--force", "--single-item", "embed@other", "finetune@ce")
    assert [*forked(running, project)] == ["embed@other", "finetune@ce"]
    printed, _ = running.communicate()
    assert running.returncode == 0, printed
    assert printed.count("Running stage '") == 2
    assert project.outs() == before


def test_an_interrupt_ends_the_stage_with_one_line_and_its_work_is_kept(first_run, tmp_path):
    project = first_run.copy(tmp_path / "project")
    project.edit("finetune", iterations=100_000)
    running = start(project, "--single-item", "finetune@ce")
    assert next(forked(running, project)) == "finetune@ce"
    states = project.folder / ".cache/wsoup/finetune@ce"
    while not [*states.glob("*/*.running")]:
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    assert printed.count("interrupted") == 1
    assert "finetune: interrupted; finished work is kept, run it again to continue" in printed
    assert [*states.glob("*/*.running")]


def test_an_error_of_a_stage_is_its_line_and_ends_the_run(first_run, tmp_path):
    project = first_run.copy(tmp_path / "project")
    project.edit("soups.word", k0=0)
    running = start(project, "soup@word")
    printed, _ = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "error: " in printed
    assert "soups.word.k0" in printed


def test_outside_of_a_pipeline_folder_it_is_refused(tmp_path):
    command = [sys.executable, "-m", "wsoup", "repro"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "is not a pipeline folder" in done.stderr


def test_a_folder_that_is_not_there_is_said_with_its_key(in_tmp: Path, tiny_encoder_files: dict[str, str]) -> None:
    """DVC names the path alone; what it may bring itself need not be there."""
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    write_miniature(in_tmp, encoder=tiny_encoder_files)
    params = miniature_params(tiny_encoder_files)
    params["datasets"]["dim"] |= {"watch": "dimm"}
    params["datasets"]["other"] |= {"watch": "brought"}
    write_params(in_tmp, params)
    Path("brought.dvc").touch()
    command = [sys.executable, "-m", "wsoup", "repro"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if line.startswith("datasets.")]
    assert said == ["datasets.dim.watch: dimm does not exist; did you mean dim?"]
