"""Tasks on worker processes: results of all, whatever is killed, or an error of one line."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wsoup.base.errors import ParamsError, WsoupError
from wsoup.runtime import on_processes


def begin(name: str) -> None:
    os.environ["WSOUP_TEST"] = name


TWO: list[Callable[[], None]] = [partial(begin, "first"), partial(begin, "second")]


def taken(tasks: list[Callable[[], Any]]) -> Callable[[], Callable[[], Any] | None]:
    """Gives these tasks one after the other."""
    left = list(tasks)
    return lambda: left.pop(0) if left else None


def square(number: int) -> int:
    return number**2


def results(tasks: list[Callable[[], Any]]) -> dict[int, Any]:
    return dict(on_processes.run(taken(tasks), workers=TWO, label="test"))


def test_every_task_is_computed_once_with_its_number():
    assert results([partial(square, i) for i in range(7)]) == {i: i**2 for i in range(7)}


def variable(name: str) -> tuple[str | None, int]:
    time.sleep(0.3)  # so that both are busy
    return os.environ.get(name), os.getpid()


def test_each_worker_begins_in_its_own_way_and_this_process_in_none():
    given = results([partial(variable, "WSOUP_TEST") for _ in range(4)])
    assert {name for name, _ in given.values()} == {"first", "second"}
    assert len({pid for _, pid in given.values()} - {os.getpid()}) == 2
    assert "WSOUP_TEST" not in os.environ


def killed_once(number: int, marker: Path) -> int:
    if number == 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_a_killed_worker_is_replaced_and_its_task_is_given_to_another(tmp_path, capsys):
    tasks = [partial(killed_once, i, tmp_path / "killed") for i in range(5)]
    assert results(tasks) == {i: i**2 for i in range(5)}
    assert "test: a worker is gone (exit code -9); its shard is given to another" in capsys.readouterr().err


def test_a_task_that_kills_every_worker_is_an_error_of_one_line():
    with pytest.raises(
        WsoupError, match=r"^test: a shard crashed its worker 3 times, last with exit code -9\."
    ) as error:
        results([partial(square, 2), _deadly])
    assert "\n" not in str(error.value)


def _deadly() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refused() -> None:
    raise ParamsError("k0 is wrong")


def broken() -> None:
    raise ZeroDivisionError("by nothing")


def test_an_error_keeps_its_type_and_an_unexpected_one_is_one_line():
    with pytest.raises(ParamsError, match=r"^k0 is wrong$"):
        results([refused])
    with pytest.raises(WsoupError, match=r"^ZeroDivisionError: by nothing$"):
        results([broken])


def test_a_task_may_follow_from_the_result_of_another():
    waiting: list[Callable[[], Any]] = [partial(square, 3)]
    seen = {}
    for number, result in on_processes.run(lambda: waiting.pop() if waiting else None, workers=TWO, label="test"):
        seen[number] = result
        if result == 9:
            waiting.append(partial(square, result))
    assert seen == {0: 9, 1: 81}


def test_a_worker_that_dies_while_it_waits_costs_nothing(capsys):
    """Its first task finds out."""
    tasks = iter([partial(os.getpid), *(partial(square, i) for i in range(3))])
    done = []
    for _, result in on_processes.run(lambda: next(tasks, None), workers=TWO[:1], label="test"):
        done.append(result)
        if len(done) == 1:
            os.kill(result, signal.SIGKILL)
    assert done[1:] == [0, 1, 4]
