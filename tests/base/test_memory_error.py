"""Running out of memory is one line, from a stage or a command; any other RuntimeError is unchanged."""

from __future__ import annotations

import pytest
import torch

from wsoup.base.errors import WsoupError, memory_error
from wsoup.cli import app

CUDA = "CUDA out of memory. Tried to allocate 784.00 MiB. GPU 0 has 79.18 GiB in all, of which\n1 MiB is free"
CPU = "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: you tried to allocate 9 bytes"


DEVICE, PROCESS = ("the memory of the device ran out, with", "WSOUP_DEVICE=cpu"), ("memory ran out (", "ulimit -v")


@pytest.mark.parametrize(
    ("error", "what", "step"),
    [
        (torch.OutOfMemoryError(CUDA), *DEVICE),
        (RuntimeError(CPU), *DEVICE),
        (MemoryError(), *PROCESS),
        (RuntimeError("can't start new thread"), *PROCESS),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), *PROCESS),
    ],
)
def test_memory_that_ran_out_is_one_line_with_a_next_step(error, what, step):
    text = str(memory_error(error))
    assert text.startswith(what)
    assert step in text
    assert "\n" not in text


def test_another_error_is_not_about_memory():
    other = RuntimeError("expected all tensors on one device")
    with pytest.raises(RuntimeError, match="on one device") as caught:
        memory_error(other)
    assert caught.value is other
    assert not isinstance(caught.value, WsoupError)


def test_a_command_prints_that_line(monkeypatch, capsys):
    def no_memory() -> None:
        raise torch.OutOfMemoryError(CUDA)

    monkeypatch.setattr(app, "app", no_memory)
    with pytest.raises(SystemExit) as stop:
        app.main()
    assert stop.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the memory of the device ran out")
