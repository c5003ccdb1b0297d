"""A program that runs in a fork of `wsoup.runtime.fork_server`: the two ends of its request. Decides no result.

Every stage imports this, so it imports little itself.
"""

import io
import json
import os
import shutil
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from types import FrameType

from wsoup.runtime.ending import end_with, heard

VARIABLE = "WSOUP_FORK_SERVER"
"""Names the Python environment and the socket of a running server, with a colon between them."""
SIZE = 8
"""Bytes of a number: how long a request is, or a process's."""


# -------------------------------------------------------------------------------------- in the process that was started


def run_there() -> int | None:
    """Run this process's program in a fork of the server, and wait for it.

    Returns:
        Its exit code; None if it was not begun: there is no server, or it is of another Python environment.
    """
    prefix, _, address = os.environ.get(VARIABLE, "").rpartition(":")
    if prefix != sys.prefix:
        return None
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    request = json.dumps({"argv": sys.argv, "folder": os.getcwd(), "variables": variables}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            socket.send_fds(connection, [len(request).to_bytes(SIZE, "big")], [0, 1, 2])
            connection.sendall(request)
            answer = connection.recv(SIZE)
        except OSError:
            return None
        if len(answer) < SIZE:  # a server that could not import its packages, or a fork that ended before it had begun
            return None
        process = int.from_bytes(answer, "big")
        for number in heard():
            signal.signal(number, partial(_hand_on, process=process))
        signal.signal(signal.SIGTSTP, partial(_stop, process=process))
        status = connection.recv(1)
    if not status:
        shutil.rmtree(os.path.dirname(address), ignore_errors=True)
        print("error: the process of `wsoup repro` that runs stages was killed; run it again", file=sys.stderr)
        return 1
    return status[0]


def _hand_on(number: int, frame: FrameType | None, *, process: int) -> None:
    """Send a signal that this process has received to the one that it waits for."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _stop(number: int, frame: FrameType | None, *, process: int) -> None:
    """Stop with the process that this one waits for and with its own workers, and go on with them."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.killpg(process, signal.SIGCONT)


# -------------------------------------------------------------------------------------------------- in a forked process


def become(connection: socket.socket) -> None:
    """Take over streams, folder, environment and command line of what asked for this process; end when it ends.

    From then on signals can be sent to this process, so it says last which one it is.
    """
    head, streams, _, _ = socket.recv_fds(connection, SIZE, 3)
    with connection.makefile("rb") as file:
        request = json.loads(file.read(int.from_bytes(head, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (_opened(number) for number in range(3))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.argv[:] = request["argv"]
    # In a group of its own no signal reaches it twice.
    os.setpgid(0, 0)
    end_with(partial(connection.recv, 1))
    # Those of a pipeline folder may be others, or have changed since the server has started.
    for name in [*sys.modules]:
        if name.partition(".")[0] == "wsoup":
            del sys.modules[name]
    with suppress(OSError):  # who asked may be gone
        connection.sendall(os.getpid().to_bytes(SIZE, "big"))


def _opened(number: int) -> io.TextIOWrapper:
    """A standard stream, as Python opens it: by the environment, which is the server's, and by what it leads to."""
    before = (sys.stdin, sys.stdout, sys.stderr)[number]
    assert isinstance(before, io.TextIOWrapper)
    unbuffered = number > 0 and before.write_through
    return io.TextIOWrapper(
        open(number, "wb" if number else "rb", buffering=0 if unbuffered else -1, closefd=False),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=not before.write_through and (number == 2 or os.isatty(number)),
        write_through=before.write_through,
    )
