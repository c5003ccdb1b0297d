"""What a process does that the fork server has made: it becomes what asked for it. Decides no result."""

import io
import json
import os
import socket
import sys
from contextlib import suppress
from threading import Thread

SIZE = 8
"""Bytes of a number: how long a request is, or a process's."""


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
    Thread(target=_exit_with, args=(connection,), daemon=True).start()
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


def _exit_with(connection: socket.socket) -> None:
    """Exit once the process that waits for this one is gone."""
    connection.recv(1)
    os._exit(1)
