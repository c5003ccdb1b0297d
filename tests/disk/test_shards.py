"""Resume state: only its own stage, inputs, code and packages use it, damage is detected, others' files stay."""

from __future__ import annotations

import dataclasses

import pytest

from wsoup.base.errors import MissingError
from wsoup.disk import code, shards
from wsoup.disk.shards import Owner, Shard
from wsoup.runtime.work import finish_by_group, finish_shards

OWNER = Owner("score@words", code="1", packages={"torch": "2.9.0"})


def shard(inputs: object = 1, *, owner: Owner = OWNER, computed: list[object] | None = None) -> Shard:
    """A shard whose result is its inputs as text, and which notes that it was computed."""

    def compute() -> bytes:
        if computed is not None:
            computed.append(inputs)
        return str(inputs).encode()

    return Shard(owner, inputs, compute)


def finish(*inputs: object, owner: Owner = OWNER) -> tuple[list[bytes], list[object]]:
    """The results of these shards, and which of them were computed now."""
    computed: list[object] = []
    work = [shard(each, owner=owner, computed=computed) for each in inputs]
    return list(finish_shards(work, label="test", unit="shard")), computed


def run(*inputs: object) -> list[object]:
    """Which shards a run of the stage computes that then ends well."""
    owner = dataclasses.replace(OWNER, used=set())
    _, computed = finish(*inputs, owner=owner)
    owner.finished()
    return computed


def test_saved_shards_are_not_computed_again_and_come_in_order(in_tmp, capfd):
    shard(1).save(b"1")
    assert finish(0, 1, 2) == ([b"0", b"1", b"2"], [0, 2])
    assert "test: 1 of 3 shards were finished before; going on" in capfd.readouterr().err
    assert finish(0, 1, 2) == ([b"0", b"1", b"2"], [])
    with pytest.raises(MissingError, match=r"\.part does not exist"):
        shard(3).load()


@pytest.mark.parametrize(
    "other",
    [
        {"inputs": {"x": 2}},
        {"owner": dataclasses.replace(OWNER, name="score@descriptors")},
        {"owner": dataclasses.replace(OWNER, code="2")},
        {"owner": dataclasses.replace(OWNER, packages={"torch": "2.9.1"})},
        {"owner": dataclasses.replace(OWNER, packages={"torch": "2.9.0", "pillow": "12.0"})},
    ],
)
def test_other_inputs_stages_code_or_packages_have_other_shards(in_tmp, other):
    shard().save(b"1")
    assert shard().done()
    assert not dataclasses.replace(shard(), **other).done()


def test_a_finished_run_keeps_what_it_used_for_the_next_one_and_nothing_else(in_tmp):
    """A fourth seed computes itself alone; a seed that was taken out is gone after one run without it."""
    assert run("seed 1", "seed 2") == ["seed 1", "seed 2"]
    assert run("seed 1", "seed 2", "seed 4") == ["seed 4"]
    assert run("seed 1", "seed 4") == []
    assert run("seed 2", "seed 1", "seed 4") == ["seed 2"]


def test_a_finished_run_removes_what_other_code_or_a_killed_run_left_but_no_file_of_yours(in_tmp):
    old = dataclasses.replace(OWNER, packages={"torch": "2.8"})
    finish(1, owner=old)
    running = OWNER.path("killed", suffix=".running")
    running.parent.mkdir()
    running.write_text("half")
    finish(1, owner=dataclasses.replace(OWNER, packages={"torch": "2.7"}))
    notes = [OWNER.folder / "notes.txt", running.with_name("notes.txt"), old.folder / old.version / "x.part"]
    notes.append(running.with_name(f"{shard(2).path.name}.bak"))
    for note in notes:
        note.write_text("mine")
    run(1)
    left = {path for path in OWNER.folder.rglob("*") if path.is_file()}
    assert left == {*notes, shard().path}
    assert {path.name for path in OWNER.folder.glob("*/")} == {OWNER.version, old.version}, "the empty one is gone"


def test_a_shard_that_you_removed_meanwhile_ends_nothing(in_tmp):
    finish(1, owner=OWNER)
    shard(1).path.unlink()
    OWNER.finished()
    assert not OWNER.folder.exists()


def test_large_shards_are_not_kept(in_tmp, monkeypatch):
    monkeypatch.setattr(shards, "KEPT_BYTES", 150)  # a shard is its bytes and a checksum of 65
    assert [run(1, 2), run(1, 2), run(1, 2, 3), run(1, 2)] == [[1, 2], [], [3], [1, 2]]


def test_each_group_has_its_own_results_whatever_its_size(in_tmp):
    groups = {"three": [shard(1), shard(2), shard(3)], "none": [], "one": [shard(4)]}
    results = finish_by_group(groups, label="test", unit="shard")
    assert results == {"three": [b"1", b"2", b"3"], "none": [], "one": [b"4"]}


def test_shards_of_other_code_are_said_to_be_out_of_use(in_tmp, capfd):
    finish(1, owner=dataclasses.replace(OWNER, packages={"torch": "2.8"}))
    assert "changed" not in capfd.readouterr().err, "there was nothing before"
    finish(1, 2)
    assert capfd.readouterr().err.startswith("test: code or packages have changed since its last run: starting again\n")


def test_a_stage_that_has_begun_again_with_new_code_goes_on(in_tmp, capfd):
    """The first shard after an edit is said to be a new start; those after it continue, though old ones are there."""
    finish(1, owner=dataclasses.replace(OWNER, packages={"torch": "2.8"}))
    finish(1)
    capfd.readouterr()
    finish(1, 2)
    assert capfd.readouterr().err.startswith("test: 1 of 2 shards were finished before; going on\n")


def damages(data: bytes) -> list[bytes]:
    cut = [data[: len(data) * i // 9] for i in range(9)]
    flipped = [data[:i] + bytes([data[i] ^ 16]) + data[i + 1 :] for i in range(0, len(data), 11)]
    return [*cut, *flipped, b"<html>", data + b"\0", data[::-1]]


def test_a_damaged_shard_is_reported_removed_and_computed_again(in_tmp, capfd):
    finish(1, 2)
    path = shard(2).path
    whole = path.read_bytes()
    for data in damages(whole):
        path.write_bytes(data)
        capfd.readouterr()
        assert not shard(2).done()
        message = f"{path.name} is damaged: its checksum is not that of its bytes: computing it again"
        assert message in capfd.readouterr().err
        assert not path.exists()
        assert finish(1, 2)[1] == [2]
        assert path.read_bytes() == whole


def test_saving_a_shard_removes_its_running_state(in_tmp):
    running = OWNER.path(1, suffix=".running")
    running.parent.mkdir(parents=True)
    running.write_text("half")
    shard(1).save(b"1")
    assert list(running.parent.iterdir()) == [shard(1).path]


def test_an_owner_has_the_code_and_packages_of_its_script():
    script = code.ROOT / "stages/score.py"
    owner = Owner.of(script, name="score@words")
    decide = {"stages/score.py", "wsoup/core/scoring.py", "wsoup/texts/encoder.py", "wsoup/search/rank/source.py"}
    names = {file.relative_to(code.ROOT).as_posix() for file in code.modules(script)}
    assert decide <= names
    assert not {name for name in names if "finetune" in name or "report" in name or "bench" in name}
    assert owner.code == code.digest(code.modules(script))
    assert {"torch", "open_clip_torch", "torchvision", "pillow", "numpy"} <= set(owner.packages)
    assert all(version[0].isdigit() for version in owner.packages.values())


def test_a_stage_that_uses_another_module_has_shards_of_its_own():
    """The script of stage soup names no kind of soup; what it computes is of the kind that it makes."""
    owner = Owner.of(code.ROOT / "stages/soup.py", name="soup@word")
    kinds = [code.ROOT / f"wsoup/search/grow/{kind}.py" for kind in ("chains", "greedy")]
    assert len({owner.version, *(owner.using(kind).version for kind in kinds)}) == 3
    assert owner.using(kinds[0]).version == owner.using(kinds[0]).version
