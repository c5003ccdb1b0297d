"""A program that runs in a fork of `wsoup.runtime.fork_server`: the two ends of its request. Decides no result.

Neither end believes the other before it has seen that it is the same user's, and that it was started as itself was. A
program that is in doubt, or has waited too long, runs by itself. Every stage imports this, so it imports little itself.
"""

import hashlib
import io
import json
import os
import re
import signal
import socket
import stat
import struct
import sys
from contextlib import suppress
from functools import partial
from types import FrameType

from wsoup.runtime.ending import end_with, heard

VARIABLE = "WSOUP_FORK_SERVER"
"""Names the socket of a running server."""
READ_LATE = re.compile(r"DVC_\w+|WSOUP_(?!KEEP_MEMORY$)\w+|PWD|OLDPWD|SHLVL|PS[0-4]|_")
"""The variables that act when a stage reads them, and those that a shell sets and unsets by itself: an activated
environment exports PS1, and the shell that starts a stage takes it away. Any other may act when Python starts or a
package is imported."""
STATUS = ("Umask", "Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed:", "Mems_allowed:")
"""Lines of /proc/self/status that a process has from what started it."""
FILES = ("limits", "cgroup", "oom_score_adj", "personality")
PATIENCE = 10.0
"""Seconds that a program waits for the server, which may still import its packages."""
LARGEST = 1 << 20
GO = b"go"


def circumstances() -> bytes:
    """A digest of what a process was started with and keeps: a fork has all of it from the server.

    Raises:
        OSError: the system does not say.
    """
    late = _read_late()
    about: list[object] = [sys.version, sys.prefix, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)]
    about += sorted((name, value) for name, value in os.environ.items() if name not in late)
    with open("/proc/self/status", encoding="utf-8") as lines:
        about += [line for line in lines if line.startswith(STATUS)]
    for name in FILES:
        with open(f"/proc/self/{name}", encoding="utf-8") as file:
            about.append(file.read())
    about += [os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))]
    return hashlib.sha256(repr(about).encode()).digest()


def _read_late() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if READ_LATE.fullmatch(name)}


# -------------------------------------------------------------------------------------- in the process that was started


def run_there() -> int | None:
    """Run this process's program in a fork of the server, and wait for it.

    Returns:
        Its exit code; None if it was not begun: there is no server of this user that was started as this process was.
    """
    address = os.environ.get(VARIABLE, "")
    # The server was started without options of Python, such as -O.
    if not address or sys.orig_argv[1:] != sys.argv:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            process = _prepared(connection, address)
        except OSError:
            return None
        if process is None:
            return None
        for number in heard():
            signal.signal(number, partial(_hand_on, process=process))
        signal.signal(signal.SIGTSTP, partial(_stop, process=process))
        status = b""
        with suppress(OSError):
            connection.settimeout(None)
            connection.sendall(GO)
            status = connection.recv(1)
    if not status:
        remove(address)
        print("error: the process of `wsoup repro` that runs stages was killed; run it again", file=sys.stderr)
        return 1
    return status[0]


def _prepared(connection: socket.socket, address: str) -> int | None:
    """The fork that has become this process, and waits for `GO`; None if there is none, or what answers is no server.

    Raises:
        OSError: nobody answers in time.
    """
    folder = os.lstat(os.path.dirname(address))
    is_private = stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.geteuid() and not folder.st_mode & 0o077
    if not is_private:
        return None
    connection.settimeout(PATIENCE)
    connection.connect(address)
    if not _is_of_same_user(connection) or connection.recv(LARGEST) != circumstances():
        return None
    request = json.dumps([sys.argv, os.getcwd(), _read_late()]).encode()
    socket.send_fds(connection, [request], [0, 1, 2])
    answer = connection.recv(LARGEST)
    expected = hashlib.sha256(request).hexdigest()
    digest, _, process = answer.decode(errors="replace").partition(" ")
    return int(process) if digest == expected and process.isdecimal() else None


def _is_of_same_user(connection: socket.socket) -> bool:
    """Whether the other end belongs to this process's user."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", peer)
    return bool(user == os.geteuid())


def remove(address: str) -> None:
    """Remove a server's socket, and its folder if that is then empty."""
    for delete, path in ((os.unlink, address), (os.rmdir, os.path.dirname(address))):
        with suppress(OSError):
            delete(path)


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


def become(connection: socket.socket, *, own: bytes) -> None:
    """Take over streams, folder, variables and command line of what asks for this process; end when it ends.

    Args:
        own: `circumstances` of the server.

    Raises:
        OSError, ValueError: nothing whole is asked for in time.
    """
    connection.settimeout(PATIENCE / 4)  # other programs may be waiting
    connection.sendall(own)
    request, streams, _, _ = socket.recv_fds(connection, LARGEST, 3)
    argv, folder, variables = json.loads(request)
    stdin, stdout, stderr = streams
    # In a group of its own no signal reaches it twice.
    os.setpgid(0, 0)
    connection.sendall(f"{hashlib.sha256(request).hexdigest()} {os.getpid()}".encode())
    if connection.recv(LARGEST) != GO:  # who asked has ended, or runs by itself
        raise ConnectionAbortedError
    connection.settimeout(None)
    end_with(partial(connection.recv, 1))
    for number, stream in enumerate((stdin, stdout, stderr)):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (_opened(number) for number in range(3))
    os.chdir(folder)
    for name in _read_late():
        del os.environ[name]
    os.environ.update(variables)
    sys.argv[:] = argv
    # Those of a pipeline folder may be others, or have changed since the server has started.
    for name in [*sys.modules]:
        if name.partition(".")[0] == "wsoup":
            del sys.modules[name]


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
