"""Which part of the work is whose: read from the environment of wsoup, Slurm or torchrun, refused where it is none."""

from __future__ import annotations

import pytest

from wsoup.errors import ParamsError
from wsoup.runtime.parts import ARRAY_VARIABLES, part_of_work, processes_wanted


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in [name for pair in ARRAY_VARIABLES for name in pair]:
        monkeypatch.delenv(name, raising=False)


def slurm(monkeypatch, task: int, count: int, **more: int) -> tuple[int, int]:
    for name, value in {"ID": task, "COUNT": count, **more}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", str(value))
    return part_of_work()


def test_alone_it_is_all_of_it():
    assert part_of_work() == (0, 1)


def test_an_array_may_begin_anywhere_and_go_in_steps(monkeypatch):
    assert [slurm(monkeypatch, i, 4, MIN=1) for i in (1, 2, 3, 4)] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert [slurm(monkeypatch, i, 3, MIN=10, STEP=5) for i in (10, 15, 20)] == [(0, 3), (1, 3), (2, 3)]
    assert [slurm(monkeypatch, i, 2, MIN=0, STEP=1) for i in (0, 1)] == [(0, 2), (1, 2)]


def test_wsoups_own_variables_go_before_slurms_and_slurms_before_torchruns(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert part_of_work() == (1, 3)
    assert slurm(monkeypatch, 2, 4, MIN=1) == (1, 4)
    monkeypatch.setenv("WSOUP_SHARD_INDEX", "4")
    monkeypatch.setenv("WSOUP_NUM_SHARDS", "5")
    assert part_of_work() == (4, 5)


@pytest.mark.parametrize(("index", "count"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0"), ("0", ""), ("1.0", "2")])
def test_a_part_that_is_none_is_said(monkeypatch, index, count):
    monkeypatch.setenv("WSOUP_SHARD_INDEX", index)
    monkeypatch.setenv("WSOUP_NUM_SHARDS", count)
    with pytest.raises(
        ParamsError, match=rf"WSOUP_SHARD_INDEX={index}, .*: must be whole numbers with 0 <= index < count"
    ):
        part_of_work()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_a_number_of_processes_that_is_none_is_said(monkeypatch, text):
    monkeypatch.setenv("WSOUP_PROCESSES", text)
    with pytest.raises(ParamsError, match=rf"WSOUP_PROCESSES={text}: must be a whole number, 1 or more"):
        processes_wanted()
