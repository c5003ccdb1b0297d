"""Resume state: only its own stage, inputs, code and packages use it, and damage is detected."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from wsoup.base.errors import MissingError
from wsoup.disk.shards import Owner, Shards
from wsoup.runtime.work import finish_shards

OWNER = Owner("score@words", code={"stages/score.py": "1", "wsoup/core/prompts.py": "2"}, packages={"torch": "2.9.0"})


def task(_: int, shard: int) -> dict[str, np.ndarray]:
    return {"a": np.arange(shard + 1), "b": np.array([shard], dtype=np.uint8)}


def test_saved_shards_are_not_computed_again_and_load_in_order(in_tmp):
    shards = Shards(OWNER, inputs={"x": 1}, n=5)
    shards.save(1, task(0, 1))
    again = Shards(OWNER, inputs={"x": 1}, n=5)
    assert again.missing() == [0, 2, 3, 4]
    with pytest.raises(MissingError, match=r"4 of 5 shards are missing; run the stage again"):
        again.load()
    finish_shards([again], task=task, label="test", unit="shard")
    assert [len(part["a"]) for part in again.load()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "other",
    [
        {"inputs": {"x": 2}},
        {"owner": dataclasses.replace(OWNER, name="score@descriptors")},
        {"owner": dataclasses.replace(OWNER, code={**OWNER.code, "wsoup/core/prompts.py": "3"})},
        {"owner": dataclasses.replace(OWNER, code={"stages/score.py": "1"})},
        {"owner": dataclasses.replace(OWNER, packages={"torch": "2.9.1"})},
        {"owner": dataclasses.replace(OWNER, packages={"torch": "2.9.0", "pillow": "12.0"})},
    ],
)
def test_other_inputs_stages_code_or_packages_have_other_shards(in_tmp, other):
    Shards(OWNER, inputs={"x": 1}, n=1).save(0, task(0, 0))
    assert Shards(**{"owner": OWNER, "inputs": {"x": 1}, "n": 1, **other}).missing() == [0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"code": {**OWNER.code, "wsoup/core/prompts.py": "3"}}, "code of 'score@words' changed"),
        ({"packages": {"torch": "2.9.1"}}, "packages of 'score@words' changed (torch 2.9.0 -> 2.9.1)"),
    ],
)
def test_shards_of_other_code_or_packages_are_reported_and_removed(in_tmp, capfd, changed, message):
    old, unrelated = Shards(OWNER, inputs={"x": 1}, n=1), Shards(OWNER, inputs={"x": 2}, n=1)
    for shards in (old, unrelated):
        shards.begin()
        shards.save(0, task(0, 0))
    new = Shards(dataclasses.replace(OWNER, **changed), inputs={"x": 1}, n=1)
    new.begin()
    new.begin()
    assert capfd.readouterr().err == f"{message} since it was interrupted: starting again\n"
    assert not old.folder.exists()
    assert unrelated.done(0), "of other params, which may run again"
    assert json.loads((new.folder / "about.json").read_text())["stage"] == "score@words"


@pytest.mark.parametrize("about", ["", "{", "[]", "null", '{"inputs": 1}', '{"inputs": "x", "packages": 3}'])
def test_an_unreadable_note_is_reported_or_left_alone(in_tmp, capfd, about):
    old, new = (Shards(OWNER, inputs={"x": x}, n=1) for x in (1, 2))
    old.begin()
    (old.folder / "about.json").write_text(about)
    new.begin()
    printed = capfd.readouterr().err
    assert old.folder.exists() == (printed == "")
    assert printed.count("\n") <= 1
    assert new.missing() == [0]


def damages(data: bytes) -> list[bytes]:
    cut = [data[: len(data) * i // 9] for i in range(9)]
    flipped = [data[:i] + bytes([data[i] ^ 16]) + data[i + 1 :] for i in range(0, len(data), 11)]
    return [*cut, *flipped, b"<html>", data + b"\0", data[::-1]]


def test_a_damaged_shard_is_reported_removed_and_computed_again(in_tmp, capfd):
    shards = Shards(OWNER, inputs={}, n=2)
    finish_shards([shards], task=task, label="test", unit="shard")
    whole = shards.path(1).read_bytes()
    for data in damages(whole):
        shards.path(1).write_bytes(data)
        capfd.readouterr()
        assert shards.missing() == [1]
        assert (
            "00001.part is damaged: its checksum is not that of its bytes: computing it again" in capfd.readouterr().err
        )
        assert not shards.path(1).exists()
        finish_shards([shards], task=task, label="test", unit="shard")
        assert shards.path(1).read_bytes() == whole


def test_saving_a_shard_removes_its_running_state(in_tmp):
    shards = Shards(OWNER, inputs={}, n=1)
    shards.begin()
    shards.running(0).write_text("half")
    shards.save(0, task(0, 0))
    assert {path.name for path in shards.folder.iterdir()} == {"about.json", "00000.part"}


def test_an_owner_has_the_code_and_packages_of_its_script():
    owner = Owner.of(Path(__file__).parents[2] / "stages/score.py", name="score@words")
    decide = {"stages/score.py", "wsoup/core", "wsoup/texts", "wsoup/search/rank"}
    assert decide <= set(owner.code)
    assert not {name for name in owner.code if "finetune" in name or "report" in name or "bench" in name}
    assert {"torch", "open_clip_torch", "torchvision", "pillow", "numpy"} <= set(owner.packages)
    assert all(version[0].isdigit() for version in owner.packages.values())
