"""A result belongs to its code and packages: a stage that is killed and edited starts over, and says so.

Each edit changes the result, so that resume state from before the edit would show in it.
"""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from long_stages import Miniature
from processes import run_stage

from wsoup.disk.shards import Owner
from wsoup.params.graph import CODE

CHANGED = ": code or packages have changed since its last run: starting again\n"

EDITS = {
    "a loss": (
        "finetune@ce",
        "wsoup/finetune/losses.py",
        "return -(targets * log_p).sum(dim=-1).mean()",
        "return -2 * (targets * log_p).sum(dim=-1).mean()",
    ),
    "the acceptance rule": (
        "soup@word",
        "wsoup/search/grow/rising.py",
        "judgement.value > bar",
        "judgement.value >= bar",
    ),
    "the preprocessing": (
        "embed@photo",
        "wsoup/images/decode.py",
        'rgb = image.convert("RGB")',
        'rgb = image.convert("L").convert("RGB")',
    ),
    "the prompts": ("score@words", "wsoup/core/prompts.py", 'f", {text}" if text', 'f", {text} {text}" if text'),
}


@contextmanager
def edited(miniature: Miniature, path: str, old: str, new: str, *, first: bool = False) -> Iterator[None]:
    """A file of the miniature's code with one passage replaced: the only one that is so, or the first.

    Stage `code` has seen the edit, as in a `dvc repro`.
    """
    file, digests = miniature.folder / path, miniature.folder / CODE
    text, before = file.read_text(encoding="utf-8"), digests.read_bytes()
    assert text.count(old) == 1 or first
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        run_stage(miniature.folder, "code", root=miniature.folder)
        yield
    finally:
        file.write_text(text, encoding="utf-8")
        digests.write_bytes(before)


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_changes_the_result_despite_resume_state(miniature, what):
    stage, path, old, new = EDITS[what]
    assert miniature.killed_half_way(stage)
    with edited(miniature, path, old, new):
        printed = miniature.run(stage)
        assert CHANGED in printed
        assert "were finished before" not in printed
        digest = miniature.digest(stage)
        assert digest != miniature.undisturbed[stage]
        miniature.run(stage)
        assert miniature.digest(stage) == digest, "not that of the edited code alone"
    miniature.run(stage)
    miniature.expect_undisturbed(stage)


def test_editing_code_that_a_stage_does_not_use_keeps_its_resume_state(miniature):
    finished = miniature.killed_half_way("score@words")
    with edited(miniature, "wsoup/finetune/losses.py", "return -(targets", "return -3 * (targets"):
        printed = miniature.run("score@words")
    assert CHANGED not in printed
    assert re.search(rf"score words: (round \d of \d: )?{len(finished)} of ", printed)
    miniature.expect_undisturbed("score@words")


def test_an_edited_docstring_keeps_the_resume_state_of_a_stage(miniature):
    finished = miniature.killed_half_way("score@words")
    with edited(miniature, "wsoup/core/prompts.py", '"""', '"""Edited. ', first=True):
        printed = miniature.run("score@words")
    assert CHANGED not in printed
    assert re.search(rf"score words: (round \d of \d: )?{len(finished)} of ", printed)
    miniature.expect_undisturbed("score@words")


@pytest.mark.parametrize("package", ["torch", "pillow"])
def test_resume_state_of_other_package_versions_is_not_used(miniature, package):
    """Resume state as left by another version, which is part of its key."""
    part, *_ = miniature.killed_half_way("score@words")
    owner = Owner.of(miniature.folder / "stages/score.py", name="score@words")
    assert part.parent.name == owner.version
    before = dataclasses.replace(owner, packages={**owner.packages, package: "0.1"})
    part.parent.rename(part.parent.with_name(before.version))
    printed = miniature.run("score@words")
    assert CHANGED in printed
    assert "were finished before" not in printed
    miniature.expect_undisturbed("score@words")


def test_a_training_edited_between_two_iterations_starts_over(miniature):
    """The running state of a seed, saved at every iteration, belongs to the code as well."""
    running = miniature.start("finetune@ce")
    assert running.until(lambda: miniature.left("finetune@ce", "*.running"))
    running.send(signal.SIGKILL)
    running.wait()
    assert not miniature.left("finetune@ce")
    with edited(miniature, "wsoup/finetune/averages.py", "iteration: 1 - ema", "iteration: 1 - ema**2"):
        printed = miniature.run("finetune@ce")
        assert CHANGED in printed
        assert miniature.digest("finetune@ce") != miniature.undisturbed["finetune@ce"]
    miniature.run("finetune@ce")
    miniature.expect_undisturbed("finetune@ce")
