"""A stage depends on exactly what the code that decides its result means: what would run again after an edit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import run_stage
from project import METHODS, ROOT, Project
from yaml_in_c import safe_load

from wsoup.disk import code
from wsoup.params.graph import CODE, value_at
from wsoup.pipeline import code_file

TRAINED = {f"{stage}@{method}" for stage in ("finetune", "evaluate_tuned") for method in METHODS}
LAYOUT = '''"""A user's own layout."""

from wsoup.datasets import folder
from wsoup.datasets.listing import Listing


def read(root: str, *, wanted: set[str]) -> Listing:
    """As an image folder."""
    return folder.read(root, wanted=wanted, class_names=None)
'''


@pytest.fixture(scope="module")
def edited(project, tmp_path_factory) -> Project:
    return project.copy(tmp_path_factory.mktemp("status") / "project")


@pytest.fixture(autouse=True)
def undone(edited):
    """Every edit is undone after its test."""
    digests = edited.folder / "artifacts/code.yaml"
    before = digests.read_bytes()
    yield
    digests.write_bytes(before)
    edited.git("checkout", "-q", ".")
    edited.git("clean", "-fdq", "wsoup", "stages")


def append(project: Project, *paths: str, text: str = "EDITED = True") -> None:
    for path in paths:
        with open(project.folder / path, "a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")


def running_in_dvc(project: Project) -> set[str]:
    """The stages that stage `code`, once it has run, would make DVC run."""
    assert project.repro("code") <= {"code"}
    return project.changed()


@pytest.fixture
def running(edited, monkeypatch) -> Callable[[], set[str]]:
    """As `running_in_dvc`, without a process: whose code has another digest than the one in dvc.lock."""
    monkeypatch.setattr(code, "ROOT", edited.folder)
    monkeypatch.chdir(edited.folder)
    locked = safe_load((edited.folder / "dvc.lock").read_text())["stages"]

    def running() -> set[str]:
        digests = code_file.digests(edited.folder / "stages")
        was = {stage: about["params"][CODE] for stage, about in locked.items() if CODE in about.get("params", {})}
        return {stage for stage, of in was.items() if any(value_at(digests, key) != of[key] for key in of)}

    return running


def test_a_comment_or_a_docstring_anywhere_runs_stage_code_alone(edited):
    """In every file of the library and the stages, so before stage `code` has run, no edit of one makes another run."""
    files = [*edited.folder.glob("wsoup/**/*.py"), *edited.folder.glob("stages/*.py")]
    names = [path.relative_to(edited.folder).as_posix() for path in files]
    append(edited, *names, text='# a comment\n"""A text."""')
    assert len(names) > 250
    assert edited.changed() == {"code"}
    assert edited.repro() == {"code"}
    assert edited.changed() == set()


def test_a_new_loss_or_tuner_trains_again_and_runs_nothing_before(edited, running):
    """No soup is searched, no pool scored and no image embedded again."""
    append(edited, "wsoup/finetune/losses.py", "wsoup/finetune/tuners.py", "wsoup/finetune/tune_params.py")
    assert running() == running_in_dvc(edited) == TRAINED | {"report"}


def test_a_new_table_or_label_of_a_row_runs_only_the_report(edited, running):
    append(edited, "wsoup/report/tables.py", "stages/report.py")
    assert running() == {"report"}


def test_a_new_baseline_is_evaluated_and_runs_nothing_before(edited, running):
    append(edited, "wsoup/evaluate/baselines.py", "wsoup/evaluate/params.py")
    evaluated = {name for name in TRAINED if name.startswith("evaluate_tuned")}
    # `evaluated` reads which lists of templates there are.
    assert running() == evaluated | {"evaluated", "evaluate", "head@ridge", "survey", "report"}


def test_a_new_kind_of_soup_runs_nothing_again(edited, running):
    (edited.folder / "wsoup/search/grow/beam.py").write_text('"""A kind of soup."""\n')
    append(edited, "wsoup/search/grow/all_kinds.py", text="from wsoup.search.grow import beam")
    assert running() == set()


@pytest.mark.parametrize(("kind", "run"), [("chains", {"soup@word"}), ("greedy", {"soup@descriptor", "survey"})])
def test_an_edited_kind_of_soup_runs_no_soup_of_another_kind(edited, running, kind, run):
    """The survey holds the soup that the targets would select, by Algorithm 1."""
    append(edited, f"wsoup/search/grow/{kind}.py")
    assert running() == run
    if kind == "chains":
        assert running_in_dvc(edited) == run


def test_a_helper_of_two_kinds_of_soup_runs_the_soups_of_both_and_no_other(edited, running):
    """A module of its own, which no stage names."""
    (edited.folder / "wsoup/search/grow/shared.py").write_text('"""Shared."""\n\nX = 1\n')
    for kind in ("chains", "greedy"):
        append(edited, f"wsoup/search/grow/{kind}.py", text="from wsoup.search.grow import shared")
    assert running() == {"soup@word", "soup@descriptor", "survey"}


def test_an_operator_in_scoring_runs_the_stages_that_score(edited, running):
    edited.edit_code("wsoup/core/scoring.py", "wins = own > best", "wins = own < best")
    scored = {"score@words", "score@descriptors", "soup@word", "soup@descriptor", "head@ridge", "survey", "evaluate"}
    assert running() == scored | {name for name in TRAINED if name.startswith("evaluate_tuned")}


def test_code_that_decides_no_result_runs_nothing_again(edited, running):
    """Commands, checks, plans, profiles, the Python face, progress bars and signals."""
    rim = ("api", "cli", "pipeline", "runtime")
    files = [path for room in rim for path in (edited.folder / "wsoup" / room).rglob("*.py")]
    append(edited, *(str(path.relative_to(edited.folder)) for path in files))
    assert len(files) >= 50
    assert running() == set()


def test_another_package_version_runs_the_stages_that_it_decides(edited):
    versions = edited.folder / "data/packages.yaml"
    versions.write_text(versions.read_text().replace("pillow ", "pillow 99"))
    changed = edited.changed()
    assert {"embed@photo", "score@words", "soup@word", "evaluate"} <= changed
    assert not {"prepare@photo", "fewshot", "report"} & changed
    refused = edited.run("python", "stages", "embed", "photo", good=False)
    assert refused.count("\n") == 1
    assert "pillow" in refused
    assert "run `wsoup packages --accept` and `dvc repro`" in refused


def test_a_new_layout_prepares_again_and_changes_no_dataset(edited):
    before = edited.outs()
    del before[CODE]
    (edited.folder / "wsoup/datasets/own.py").write_text(LAYOUT)
    edited.edit_code("wsoup/datasets/layouts.py", "import coop, folder,", "import own, coop, folder,")
    edited.edit_code(
        "wsoup/datasets/layouts.py",
        '    if kind == "huggingface":',
        '    if kind == "own":\n        return own.read(params.root, wanted=wanted)\n    if kind == "huggingface":',
    )
    prepared = {f"prepare@{name}" for name in ("photo", "other", "dim")}
    assert running_in_dvc(edited) == prepared
    assert edited.repro("prepare", "fewshot") == prepared
    assert edited.changed() == set(), "the same manifests: nothing behind them runs"
    assert edited.outs().items() > before.items()


def test_reworded_errors_checks_of_arguments_and_urls_run_nothing_again(edited, running):
    append(edited, *(f"wsoup/base/{name}.py" for name in ("errors", "arguments", "remote", "project")))
    assert running() == set()


STAGES = {
    "prepare": (["photo"], ("report", {"confidence": 95}), "report.confidence: 95 is not valid"),  # of any section
    "fewshot": ([], ("fewshot", {"shots": 0}), "fewshot.shots: 0 is not valid"),
    "embed": (["photo"], ("embed", {"batch_size": 0}), "embed.batch_size: 0 is not valid"),
    "candidates": ([], ("candidates.words", {"count": -1}), "candidates.words.count: -1 is not valid"),
    "score": (["words"], ("score", {"shard": 1}), "unknown key 'score.shard'; did you mean 'shard_size'?"),
    "soup": (["word"], ("soups.word", {"k0": 9, "k1": 10**6}), "k1 is 1000000 but the pool words holds 13"),
    "finetune": (["ce"], ("finetune", {"ema": 2}), "finetune.ema: 2 is not valid"),
    "head": (["ridge"], ("heads.ridge", {"kind": "x"}), "heads.ridge"),
    "evaluate": ([], ("evaluate", {"m": [0]}), "evaluate.m.0: 0 is not valid"),
    "report": ([], ("soups.word", {"k2": 1}), "unknown key 'soups.word.k2'; did you mean 'k1'?"),  # of any section
}


def test_stages_refuse_bad_params_before_they_begin(edited):
    """Of the sections that they read; the first stage of a run and the last one of any section."""
    for stage, (item, (section, values), message) in STAGES.items():
        edited.edit(section, **values)
        printed = run_stage(edited.folder, stage, *item, code=1, root=edited.folder)
        assert printed.startswith("error: "), stage
        assert message in printed, stage
        assert printed.count("\n") == 1, stage
        edited.git("checkout", "-q", "params.yaml")
    assert edited.changed() == set(), "the outs are unchanged"


def test_dvc_finds_the_stages_where_python_has_no_current_folder_on_its_path(project):
    """With processes that Python starts itself, unlike those of `project.run`."""
    (project.folder / "artifacts/manifests/photo.parquet").unlink()
    # An editor or a policy of a machine may set it.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    command = [sys.executable, "-m", "dvc", "repro", "--force", "--single-item", "prepare@photo"]
    done = subprocess.run(command, cwd=project.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "> python stages prepare" in done.stdout
    assert (project.folder / "artifacts/manifests/photo.parquet").is_file()


def test_without_the_name_of_a_stage_its_names_are_said(monkeypatch):
    monkeypatch.chdir(ROOT)
    stages = safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    for arguments in ([], ["sore"], ["__init__"]):
        done = subprocess.run([sys.executable, "stages", *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"error: name a stage: python stages {{{','.join(sorted(stages))}}} [item]\n"
