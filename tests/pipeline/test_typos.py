"""A typo in params.yaml costs no work: every stage checks all of it first, and `wsoup check` says what DVC refuses."""

from __future__ import annotations

import pytest
from project import Project
from yaml_in_c import safe_load

from wsoup.pipeline.checks.missing_keys import missing_keys


@pytest.fixture
def edited(project: Project):
    """The project, whose params.yaml is restored afterwards."""
    params = project.folder / "params.yaml"
    before = params.read_bytes()
    yield project
    # Not by git: an experiment that fails at once leaves an edit of the same size, which git takes for what it knows.
    params.write_bytes(before)
    project.run("dvc", "checkout", "-q")


def renamed(project: Project, where: str, *, old: str, new: str) -> None:
    """Give a key of params.yaml another name."""
    params = safe_load((project.folder / "params.yaml").read_text())
    section = params
    for name in where.split("."):
        section = section[name]
    section[new] = section.pop(old)
    project.write_params(params)


def errors(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("error: ")]


def test_a_mistyped_key_of_a_later_stage_is_found_before_the_search(edited: Project) -> None:
    """k0 is edited as well, and the method with the typo is trained on the soup; stage `code` reads all of it."""
    edited.edit("soups.word", k0=3)
    renamed(edited, "finetune.methods.coop_diverse", old="prompt_factor", new="promt_factor")
    shards = sorted(edited.folder.glob(".cache/wsoup/soup@word/*/*"))
    printed = edited.run("dvc", "repro", "finetune@coop_diverse", good=False)
    problem = (
        "error: params.yaml: unknown key 'finetune.methods.coop_diverse.promt_factor'; did you mean 'prompt_factor'?; "
        "key 'finetune.methods.coop_diverse.prompt_factor' is missing"
    )
    assert errors(printed) == [problem]
    assert printed.count("Running stage") == 1
    assert "Running stage 'code'" in printed
    assert sorted(edited.folder.glob(".cache/wsoup/soup@word/*/*")) == shards
    assert errors(edited.run("wsoup", "check", good=False)) == [problem]


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("patience=0", "soups.word.patience: 0 is not valid: it must be 1 or more"),
        ("k0=13", "soups.word: k0 (13) must not exceed k1 (12): it is taken from the top k1; lower it"),
    ],
)
def test_an_experiment_with_an_impossible_value_fails_in_one_line(edited: Project, setting: str, problem: str) -> None:
    printed = edited.run("dvc", "exp", "run", "-S", f"soups.word.{setting}", good=False)
    assert errors(printed) == [f"error: params.yaml: {problem}"]
    assert printed.count("Running stage") == 1


def test_what_dvc_refuses_without_a_word_is_said_by_check(edited: Project) -> None:
    """The key is optional for wsoup, but dvc.yaml names it."""
    params = safe_load((edited.folder / "params.yaml").read_text())
    del params["candidates"]["words"]["watch"]
    edited.write_params(params)
    assert "Could not find 'candidates.words.watch'" in edited.run("dvc", "status", good=False)
    sentence = (
        "params.yaml lacks 'candidates.words.watch', which dvc.yaml names for stage candidates; "
        "add it (docs/params.md explains it)"
    )
    assert f"error: {sentence}" in errors(edited.run("wsoup", "check", good=False))


def test_a_key_that_dvc_yaml_misspells_is_named_with_the_nearest(edited: Project, monkeypatch) -> None:
    monkeypatch.chdir(edited.folder)
    assert list(missing_keys()) == []
    text = (edited.folder / "dvc.yaml").read_text()
    try:
        (edited.folder / "dvc.yaml").write_text(text.replace("finetune.ema", "finetune.emma"))
        assert list(missing_keys()) == [
            "params.yaml lacks 'finetune.emma', which dvc.yaml names for stage finetune@ce; did you mean 'ema'?"
        ]
    finally:
        (edited.folder / "dvc.yaml").write_text(text)
