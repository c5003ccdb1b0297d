"""DVC with interrupted stages, two runs at once, edits during a run, and experiments with edited code."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from processes import run_stage
from project import Project

REAL_PYTHON = {"WSOUP_WARM_PYTHON": ""}
"""Stages are started as new processes instead of forked."""


@pytest.fixture(scope="module")
def other(project, tmp_path_factory) -> Project:
    return project.copy(tmp_path_factory.mktemp("runs") / "project")


def wait_until_at_work(process: subprocess.Popen[str], project: Project, stage: str) -> int:
    """Wait until a stage holds its lock; returns its process id."""
    holder = project.folder / ".cache/wsoup/locks" / f"{stage}.pid"
    while True:
        assert process.poll() is None, process.communicate()[0]
        with contextlib.suppress(FileNotFoundError, IndexError):  # not there yet, or not written yet
            return int(holder.read_text().split()[1])
        time.sleep(0.005)


def members(project: Project) -> list[list[str]]:
    texts = []
    for seed in (1, 2):
        soup = json.loads((project.folder / f"artifacts/soups/word/seed{seed}.json").read_text())
        texts.append([member["text"] for member in soup["members"]])
    return texts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_an_interrupted_stage_is_not_committed(other, number, shell):
    """SIGINT as Ctrl-C sends it, to DVC and the stage; SIGTERM to the stage alone."""
    if not Path(shell).exists():
        pytest.skip(f"no {shell}")
    lock = (other.folder / "dvc.lock").read_text()
    process = other.start("dvc", "repro", "--force", "--single-item", "score@words", SHELL=shell, **REAL_PYTHON)
    stage = wait_until_at_work(process, other, "score@words")
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        os.kill(stage, number)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "score: interrupted; " in printed
    code = re.search(r"failed to run: python stages score, exited with (-?\d+)\n", printed)
    assert code, printed
    # bash becomes the stage; a shell that waits for it, as dash does, is interrupted itself, after the stage
    may_wait = shell == "/bin/sh" and number == signal.SIGINT
    assert int(code[1]) in ({130, -signal.SIGINT} if may_wait else {130}), printed
    assert "Traceback" not in printed
    assert not (other.folder / ".cache/wsoup/locks/score@words.pid").exists(), "the next run would name this one"
    assert (other.folder / "dvc.lock").read_text() == lock
    assert "score@words" in other.changed(), "its out is gone"
    other.run("dvc", "checkout")
    assert other.changed() == set()


def test_a_second_run_at_once_is_refused_and_told_about_the_first(other):
    other.edit("soups.word", k0=6)
    first = other.start("dvc", "repro", "soup@word")
    wait_until_at_work(first, other, "soup@word")
    printed = other.run("dvc", "repro", "soup@word", good=False)
    assert "is busy, it is being blocked by:" in printed
    assert f"(PID {first.pid}):" in printed
    assert "Running stage" not in printed
    printed, _ = first.communicate(timeout=120)
    assert first.returncode == 0, printed
    before = members(other)
    run_stage(other.folder, "soup", "word", root=other.folder)
    assert members(other) == before
    assert other.run("dvc", "status", "soup@word").strip() == "Data and pipelines are up to date."
    other.git("checkout", "-q", ".")
    other.run("dvc", "checkout", "-q")


EDITS = {
    "params": ("soup@word", "params.yaml", "k0: 4", "k0: 3", "params.yaml: soups.word changed while soup@word ran"),
    "code": ("soup@word", "wsoup/core/draws.py", "", "\nX = 1\n", "wsoup/core/draws.py changed while soup@word ran"),
    "an image": ("prepare@photo", "photo/train/red/late.png", None, None, "photo/train/red/late.png changed while"),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_while_a_stage_runs_is_not_recorded(other, what):
    """DVC hashes a stage's deps after it has ended, and would record the edit if the stage did not look itself."""
    stage, name, old, new, message = EDITS[what]
    lock, file, soups = (other.folder / "dvc.lock").read_text(), other.folder / name, members(other)
    process = other.start("dvc", "repro", "--force", "--single-item", stage)
    running = wait_until_at_work(process, other, stage)
    os.kill(running, signal.SIGSTOP)
    if old is None:
        shutil.copy(next(file.parent.glob("*.png")), file)
    else:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new) if old else text + new)
    os.kill(running, signal.SIGCONT)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode != 0, printed
    assert printed.count("error: ") == 1
    assert message in printed
    assert (other.folder / "dvc.lock").read_text() == lock
    other.git("checkout", "-q", ".")
    other.git("clean", "-fdq", "photo")
    other.run("dvc", "repro", stage)  # the outs are made again or come from DVC's cache
    assert members(other) == soups
    assert other.changed() == set()


@pytest.mark.long
def test_a_queued_experiment_runs_the_code_that_was_queued(other):
    """The edit is undone before the experiment starts: a stage runs the wsoup of its own tree."""
    before, code = members(other), Path(other.folder / "wsoup/search/grow/rising.py").read_text()
    other.edit_code("wsoup/search/grow/rising.py", "judgement.value > bar", "judgement.value >= bar")
    other.run("dvc", "exp", "run", "--queue", "--name", "edited", "soup@word")
    other.git("checkout", "-q", ".")
    assert Path(other.folder / "wsoup/search/grow/rising.py").read_text() == code
    other.run("dvc", "exp", "run", "--run-all")
    assert members(other) == before, "the workspace is unchanged"
    other.run("dvc", "exp", "apply", "edited")
    assert Path(other.folder / "wsoup/search/grow/rising.py").read_text() != code
    experiment = members(other)
    assert experiment != before
    run_stage(other.folder, "soup", "word", root=other.folder)
    assert members(other) == experiment, "the soups of the edited code"
    assert other.run("dvc", "status", "soup@word").strip() == "Data and pipelines are up to date."
    other.git("checkout", "-q", ".")
    other.run("dvc", "checkout", "-q", "--force")


@pytest.mark.long
def test_a_temporary_experiment_makes_what_the_stage_makes_in_place(other):
    before = members(other)
    other.run("dvc", "exp", "run", "--temp", "--name", "temporary", "-S", "soups.word.k0=7", "finetune@coop_diverse")
    assert members(other) == before, "the workspace is unchanged"
    assert other.changed() == set(), "the workspace is unchanged"
    other.run("dvc", "exp", "apply", "temporary")
    experiment = members(other)
    run_stage(other.folder, "soup", "word", root=other.folder)
    assert members(other) == experiment
    other.git("checkout", "-q", ".")
    other.run("dvc", "checkout", "-q")


@pytest.mark.long
def test_clones_that_share_a_cache_run_the_same_stage_at_once(other, tmp_path):
    """One has a umask of 077; each has its own locks and shards, and both make the same bytes."""
    clones = []
    for name in ("first", "second"):
        other.git("clone", "-q", str(other.folder), str(tmp_path / name))
        clone = Project.__new__(Project)
        clone.folder = tmp_path / name
        clone.run("dvc", "cache", "dir", "--local", str(other.folder / ".dvc/cache"))
        clone.run("dvc", "checkout", "-q")
        assert clone.changed() == set()
        clone.edit("soups.word", k0=8)
        clones.append(clone)
    first, second = clones
    runs = [
        first.start("dvc", "repro", "soup@word"),
        second.start("sh", "-c", "umask 077; dvc repro soup@word", **REAL_PYTHON),
    ]
    for process in runs:
        printed, _ = process.communicate(timeout=300)
        assert process.returncode == 0, printed
    assert members(first) == members(second)
    assert first.outs() == second.outs()
    for clone in clones:
        assert clone.run("dvc", "status", "soup@word").strip() == "Data and pipelines are up to date."
    assert other.changed() == set()
