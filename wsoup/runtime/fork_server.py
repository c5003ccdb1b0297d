"""One process that imports what stages import, and forks each stage of a `wsoup repro`. Decides no result.

Importing torch takes three seconds of processor time, and a first run of the toy world has 23 stages with a model. The
fork server of `multiprocessing` serves the process that has started it alone, but stages are started by DVC: so this
one listens on a socket in a folder of its own. It imports packages and nothing of a pipeline folder, so that a stage
runs the code that is there when it starts. The process that DVC has started waits for its stage: their streams,
environment and exit code are the same, signals are handed on, and a stage does not outlive it.
"""

import gc
import importlib
import io
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from select import select
from threading import Thread
from types import FrameType

from wsoup.runtime.ending import heard
from wsoup.runtime.memory import keep_memory

VARIABLE = "WSOUP_FORK_SERVER"
"""Names the Python environment and the socket of a running server, with a colon between them."""
PACKAGES = (
    "filelock",
    "numpy.ma",
    "numpy.random",
    "PIL.ImageFile",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pydantic.dataclasses",
    "pydantic.type_adapter",
    "pydantic.validate_call_decorator",
    "ruamel.yaml",
    "safetensors.numpy",
    "torch",
    "tqdm.auto",
    "wsoup.towers.library",  # open_clip and torchvision, without what they rarely need
    "zarr",
)
"""What stages import of other projects; some packages import parts of themselves only when they are used."""
LONGEST = 107
"""Bytes of a socket's path."""
SIZE = 8
"""Bytes of a number: how long a request is, or a process's."""


def start() -> dict[str, str]:
    """Start a server that ends with this process, or with the program that takes its place.

    Returns:
        The environment variable by which stages find it; none where a process cannot be forked safely, or the path of
        the folder for temporary files is too long for a socket.
    """
    # macOS has `fork`, but its system libraries may not be used afterwards.
    if sys.platform != "linux":
        return {}
    folder = tempfile.mkdtemp(prefix="wsoup-")
    address = os.path.join(folder, "socket")
    if len(os.fsencode(address)) > LONGEST:
        os.rmdir(folder)
        return {}
    ending, alive = os.pipe()
    # Kept by the program that takes this one's place, and by none that it starts: DVC closes all but three files.
    os.set_inheritable(alive, True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        # From here on stages can connect; they wait until everything is imported.
        listener.listen()
        subprocess.Popen(
            [sys.executable, "-m", __name__, address, str(listener.fileno()), str(ending)],
            pass_fds=[listener.fileno(), ending],
            # What it fails at shows in stages, which then run by themselves; a pipe behind this process ends with it.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    os.close(ending)
    return {VARIABLE: f"{sys.prefix}:{address}"}


# ---------------------------------------------------------------------------------- in the process that DVC has started


def run_there() -> int | None:
    """Run this process's program in a fork of the server, and wait for it.

    Returns:
        Its exit code; None if it was not begun: there is no server, or it is of another Python environment.
    """
    prefix, _, address = os.environ.get(VARIABLE, "").rpartition(":")
    if prefix != sys.prefix:
        return None
    request = json.dumps({"argv": sys.argv, "folder": os.getcwd(), "variables": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            socket.send_fds(connection, [len(request).to_bytes(SIZE, "big")], [0, 1, 2])
            connection.sendall(request)
            answer = connection.recv(SIZE)
        except OSError:
            return None
        if not answer:  # a server that could not import its packages
            return None
        process = int.from_bytes(answer, "big")
        for number in heard():
            signal.signal(number, partial(_hand_on, process=process))
        status = connection.recv(1)
    if not status:
        print("error: the process of `wsoup repro` that runs stages was killed; run it again", file=sys.stderr)
        return 1
    return status[0]


def _hand_on(number: int, frame: FrameType | None, *, process: int) -> None:
    """Send a signal that this process has received to the one that it waits for."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


# -------------------------------------------------------------------------------------------------------- in the server


def serve(listener: socket.socket, ending: int, *, folder: Path) -> None:
    """Fork a process for each request, one after the other, until the pipe `ending` is closed; then remove the folder.

    Returns in the forked processes alone, which then are what asked for them.
    """
    keep_memory()
    # An interrupt is for what waits for a stage, which hands it on.
    signals = heard()
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    gc.disable()
    try:
        for package in PACKAGES:
            importlib.import_module(package)
    except BaseException:
        shutil.rmtree(folder)
        raise
    gc.freeze()
    while True:
        ready, _, _ = select([listener.fileno(), ending], [], [])
        if ending in ready:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        connection, _ = listener.accept()
        child = _fork()
        if child == 0:
            break
        _wait(child, connection)
    listener.close()
    os.close(ending)
    for number in signals:
        signal.signal(number, signal.SIG_DFL)
    _become(connection)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of the threads that NumPy's OpenBLAS starts when it is imported; OpenBLAS ends them at a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _wait(child: int, connection: socket.socket) -> None:
    """Tell who asked for a process which one it is, and how it ended: 128 + n if killed by signal n, as in shells."""
    with connection:
        with suppress(OSError):  # who asked may be gone
            connection.sendall(child.to_bytes(SIZE, "big"))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        with suppress(OSError):
            connection.sendall(bytes([code if code >= 0 else 128 - code]))


# -------------------------------------------------------------------------------------------------- in a forked process


def _become(connection: socket.socket) -> None:
    """Take over streams, folder, environment and command line of what asked for this process; end when it ends."""
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
    del os.environ[VARIABLE]
    sys.argv[:] = request["argv"]
    # In a group of its own no signal reaches it twice.
    os.setpgid(0, 0)
    Thread(target=_exit_with, args=(connection,), daemon=True).start()
    # Those of a pipeline folder may be others, or have changed since the server has started.
    for name in [*sys.modules]:
        if name.partition(".")[0] == "wsoup":
            del sys.modules[name]


def _opened(number: int) -> io.TextIOWrapper:
    """A standard stream, as Python opens it: by the environment, which is the server's, and by what it leads to."""
    before = (sys.stdin, sys.stdout, sys.stderr)[number]
    assert isinstance(before, io.TextIOWrapper)
    return io.TextIOWrapper(
        open(number, "wb" if number else "rb", closefd=False),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=not before.write_through and (number == 2 or os.isatty(number)),
        write_through=before.write_through,
    )


def _exit_with(connection: socket.socket) -> None:
    """Exit once the process that waits for this one is gone."""
    connection.recv(1)
    os._exit(1)


def _main() -> None:
    address, listener, ending = sys.argv[1:]
    serve(socket.socket(fileno=int(listener)), int(ending), folder=Path(address).parent)
    # What Python does with a folder on its command line.
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _main()
