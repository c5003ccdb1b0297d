"""`wsoup ahead`: shards of several stages as one pool of work, the bytes of plain stages, whatever is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from processes import children
from project import METHODS, Project

AHEAD = ("python", "-m", "wsoup", "ahead")
"""The wsoup of the project's own folder."""
THREE = {
    "ce": METHODS["ce"],
    "ce_fast": {**METHODS["ce"], "learning_rate": 3e-4},
    "coop_diverse": METHODS["coop_diverse"],
}


def with_three_methods(project: Project, folder: Path, **finetune: object) -> Project:
    """A copy whose finetuned models are to be made anew: two methods that train images, one of texts alone."""
    copy = project.copy(folder)
    for path in (folder / ".cache/wsoup").glob("*tune*@*"):
        shutil.rmtree(path)
    copy.edit("finetune", methods=THREE, momentum=0.5, **finetune)
    return copy


def shards(project: Project) -> dict[str, int]:
    """Every finished shard of the stages that finetuned models go through, with the time when it was written."""
    cache = project.folder / ".cache/wsoup"
    found = sorted(cache.glob("finetune@*/*/*.part")) + sorted(cache.glob("evaluate_tuned@*/*/*.part"))
    return {str(path.relative_to(cache)): path.stat().st_mtime_ns for path in found}


def lines(printed: str) -> list[str]:
    """The lines of finished shards, without their seconds."""
    return re.findall(r"^(\S+@\S+: shard \d+ of \d+) \(\d+ s\)$", printed, re.MULTILINE)


@pytest.fixture(scope="module")
def plain(first_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """What DVC alone makes, one stage after another."""
    made = with_three_methods(first_run, tmp_path_factory.mktemp("plain") / "project")
    made.repro()
    return made


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_the_outs_are_those_of_plain_stages_and_dvc_computes_no_shard_again(first_run, plain, tmp_path, workers):
    project = with_three_methods(first_run, tmp_path / "project")
    before = project.outs()
    printed = project.run(*AHEAD, "finetune", "evaluate_tuned", "--workers", workers)
    assert {line for line in lines(printed) if line.startswith("finetune@ce:")} == {
        "finetune@ce: shard 1 of 2",
        "finetune@ce: shard 2 of 2",
    }
    assert printed.splitlines()[-1] == f"{len(lines(printed))} shards computed; next: dvc repro"
    assert project.outs() == before, "nothing of DVC's is touched"
    assert not (project.folder / ".cache/wsoup/ahead").exists()
    made = shards(project)
    project.repro()
    assert made.items() <= shards(project).items(), "none is written again"
    assert shards(project).keys() == shards(plain).keys()
    assert project.outs() == plain.outs()
    again = project.run(*AHEAD, "finetune", "evaluate_tuned")
    assert again == "nothing to compute: all shards that can be computed now are there; next: dvc repro\n"


@pytest.mark.long
def test_a_killed_worker_loses_its_shard_alone_and_a_killed_command_goes_on(first_run, tmp_path):
    project = with_three_methods(first_run, tmp_path / "project", iterations=200)
    command = (sys.executable, *AHEAD[1:], "finetune", "--workers", "2")
    running = project.start(*command, OMP_NUM_THREADS="1", PYTHONPATH=str(project.folder))
    try:
        while not shards(project):
            assert running.poll() is None
            time.sleep(0.01)
        kept = shards(project)
        first = children(running.pid, doing="spawn_main")
        os.kill(first[0], signal.SIGKILL)
        # Shards are short here: without waiting, enough may be there before anybody has noticed.
        while not set(children(running.pid, doing="spawn_main")) - set(first):
            assert running.poll() is None
            time.sleep(0.01)
        while len(shards(project)) < 3:
            assert running.poll() is None
            time.sleep(0.01)
        workers = children(running.pid, doing="spawn_main")
        running.kill()
        printed, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert "ahead: a worker is gone (exit code -9); its shard is given to another" in printed
    assert kept.items() <= shards(project).items()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "workers end with the command"
        time.sleep(0.05)
    before = shards(project)
    rest = project.run(*AHEAD, "finetune", OMP_NUM_THREADS="1")
    assert before.items() <= shards(project).items()
    assert len(lines(rest)) == len(shards(project)) - len(before)
    assert len([path for path in shards(project) if path.startswith("finetune@")]) == 6


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (["finetuen"], "there is no stage 'finetuen'; did you mean 'finetune'?"),
        (["finetune@cee"], "there is no stage 'finetune@cee'; did you mean 'finetune@ce'?"),
        (
            ["report"],
            "report: nothing of it can be computed ahead; the stages with shards are embed, embed_train, score,",
        ),
    ],
)
def test_a_stage_that_is_none_is_refused(project, stages, said):
    assert said in project.run(*AHEAD, *stages, good=False)


def test_inputs_of_other_params_are_made_first(first_run, tmp_path):
    """The soup's search changed, so what would be trained on now is not what `dvc repro` trains on."""
    project = with_three_methods(first_run, tmp_path / "project")
    project.edit("soups.word", patience=5)
    said = project.run(*AHEAD, "finetune@coop_diverse", good=False)
    assert said == (
        "error: finetune@coop_diverse reads what is made by soup@word and is not there yet for these params; "
        "run `dvc repro soup@word` first\n"
    )
    said = project.run(*AHEAD, "evaluate_tuned@ce", good=False)
    assert "run `dvc repro evaluated soup@word finetune@ce` first" in said
    printed = project.run(*AHEAD)
    computed = {line.partition(":")[0] for line in lines(printed)}
    assert computed == {"soup@word", "finetune@ce", "finetune@ce_fast"}, "all that can be computed now"
    assert "\nfinetune@coop_diverse is left: soup@word must run before it\n" in printed
    assert project.repro() >= {"soup@word", "finetune@ce"}


def test_where_nothing_has_run_the_stages_to_begin_with_are_named(first_run, tmp_path):
    project = first_run.copy(tmp_path / "project")
    for folder in ("artifacts", ".cache"):
        shutil.rmtree(project.folder / folder)
    (project.folder / "dvc.lock").unlink()
    printed = project.run(*AHEAD)
    assert "embed_train is left: prepare@photo must run before it\n" in printed
    assert (
        printed.splitlines()[-1] == "nothing can be computed yet; next: dvc repro prepare fewshot candidates evaluated"
    )


def test_a_stage_that_runs_already_is_left_alone(first_run, tmp_path):
    from filelock import FileLock

    project = with_three_methods(first_run, tmp_path / "project")
    locks = project.folder / ".cache/wsoup/locks"
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / "finetune@ce.lock"):
        said = project.run(*AHEAD, "finetune", good=False)
    assert "stage 'finetune@ce' is running here already" in said


def test_workers_are_of_this_machine_and_not_of_ray(first_run, tmp_path):
    project = with_three_methods(first_run, tmp_path / "project")
    said = project.run(*AHEAD, "finetune", "--workers", "2", good=False, WSOUP_EXECUTOR="ray")
    assert "--workers is for this machine; on Ray WSOUP_RAY_GPUS and WSOUP_RAY_CPUS decide" in said
