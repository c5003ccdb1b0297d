"""Long stages survive kills, interrupts, damage and two runs at once; the processes are really killed.

A stage that is started again ends in the bytes of an undisturbed run, and does not repeat finished work.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from long_stages import LONG, Miniature
from processes import run_stage
from project import ROOT

# --------------------------------------------------------------------------------------------------------- killed


@pytest.mark.parametrize("stage", LONG)
def test_a_killed_stage_continues_and_ends_in_the_same_bytes(miniature, stage):
    finished = miniature.killed_half_way(stage)
    written = {path: path.stat().st_mtime_ns for path in finished}
    printed = miniature.run(stage)
    assert re.search(r": \d+ of \d+ \w+s were finished before; going on", printed) or len(finished) > 1
    left = [path for path in finished if path.exists()]
    assert left or stage.startswith("e"), "shards of images are not kept"
    assert all(path.stat().st_mtime_ns == written[path] for path in left), "finished work is not repeated"
    miniature.expect_undisturbed(stage)


def kill_at_random(miniature: Miniature, stage: str, *, seed: int, times: int) -> None:
    """Kill a stage `times` times, at moments drawn by the seed, then let it finish."""
    moments = random.Random(f"{stage} {seed}")
    for i in range(times):
        running = miniature.resume(stage) if i else miniature.start(stage)
        time.sleep(moments.uniform(0, miniature.seconds[stage]))
        running.send(signal.SIGKILL)
        assert running.wait()[0] in (0, -signal.SIGKILL)
    miniature.run(stage)
    miniature.expect_undisturbed(stage)


@pytest.mark.parametrize("stage", LONG)
def test_kills_at_random_moments_end_in_the_same_bytes(miniature, stage):
    kill_at_random(miniature, stage, seed=0, times=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("stage", LONG)
def test_many_kills_at_random_moments_end_in_the_same_bytes(miniature, stage, seed):
    kill_at_random(miniature, stage, seed=seed, times=4)


# ---------------------------------------------------------------------------------------------------- interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["score@words", "finetune@ce"])
def test_an_interrupt_is_one_line_and_keeps_finished_shards(miniature, stage, number):
    running = miniature.start(stage)
    assert running.until(lambda: miniature.left(stage))
    running.send(number)
    code, printed = running.wait()
    assert code == 130
    last = printed.rstrip("\n").splitlines()[-1]
    assert last.endswith(f"{stage.partition('@')[0]}: interrupted; finished work is kept, run it again to continue")
    assert "Traceback" not in printed
    assert miniature.left(stage)
    miniature.run(stage)
    miniature.expect_undisturbed(stage)


def handles_signals(process: int) -> bool:
    """Whether a process has a handler for SIGTERM, according to the kernel."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    mask = re.search(r"SigCgt:\s*(\w+)", status)
    return bool(mask and int(mask[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the moment is read from /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.4, 1.0])
def test_an_interrupt_during_imports_is_one_line_too(miniature, number, seconds):
    """A start of Python as by `dvc repro`, from its first moment on."""
    command = [sys.executable, "stages", "score", "words"]
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


def test_a_second_run_of_a_stage_names_the_lock_holder_and_leaves_the_first_alone(miniature):
    first = miniature.start("score@words")
    assert first.until(lambda: miniature.left("score@words"))
    first.send(signal.SIGSTOP)
    try:
        printed = miniature.run("score@words", code=1)
        holder = rf"process {first.process.pid} of [^ ]+ since [\d: -]+"
        message = rf"error: stage 'score@words' is running here already \({holder}\)"
        assert re.fullmatch(rf"{message}; wait for it, or stop it\n", printed)
        run_stage(miniature.folder, "score", "descriptors", root=miniature.folder)  # another item is another lock
    finally:
        first.send(signal.SIGCONT)
    assert first.wait()[0] == 0
    miniature.expect_undisturbed("score@words")


# --------------------------------------------------------------------------------------------------- another tree


def test_a_script_that_would_run_the_wsoup_of_another_tree_is_refused(miniature, tmp_path):
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
    message = f"error: {script} would run {ROOT / 'wsoup'}, not {miniature.folder / 'wsoup'} beside it; run it from "
    assert done.stderr == f"{message}{miniature.folder} as `python stages score` and clear PYTHONPATH\n"
