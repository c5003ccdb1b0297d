"""One process that imports what stages import, and forks each stage of a `wsoup repro`. Decides no result.

Importing torch takes three seconds of processor time, and a first run of the toy world has 23 stages with a model. The
fork server of `multiprocessing` serves the process that has started it alone, but stages are started by DVC: so this
one listens on a socket in a folder of its own. It imports packages and nothing of a pipeline folder, so that a stage
runs the code that is there when it starts. The process that DVC has started waits for its stage: their streams,
environment and exit code are the same, signals are handed on, and a stage does not outlive it. One that was started
otherwise than the server (limits, priority, variables, options of Python) runs by itself.
"""

import gc
import importlib
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from select import select

from wsoup.runtime.ending import heard
from wsoup.runtime.forked import VARIABLE, become, circumstances, remove
from wsoup.runtime.memory import keep_memory

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


def start() -> dict[str, str]:
    """Start a server that ends with this process, or with the program that takes its place.

    Returns:
        The environment variable by which stages find it; none where a process cannot be forked safely, or the folder
        for temporary files has no room for a socket, or too long a path.
    """
    # macOS has `fork`, but its system libraries may not be used afterwards.
    if sys.platform != "linux":
        return {}
    try:
        address = _start()
    except OSError:
        return {}
    return {VARIABLE: address}


def _start() -> str:
    """The path of a running server's socket."""
    address = os.path.join(tempfile.mkdtemp(prefix="wsoup-"), "socket")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address)
            # From here on stages can connect; they wait until everything is imported.
            listener.listen()
            ending, alive = os.pipe()
            # Kept by the program that takes this one's place, and by none that it starts: DVC closes all but three
            # files.
            os.set_inheritable(alive, True)
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, address, str(listener.fileno()), str(ending)],
                pass_fds=[listener.fileno(), ending],
                # No signal of the terminal reaches it, nor stages, which are told by those that wait for them.
                start_new_session=True,
                # What it fails at shows in stages, which run by themselves then. A pipe behind this process
                # ends with it.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            process.returncode = 0  # or Python warns that it has not ended
            os.close(ending)
    except BaseException:
        remove(address)
        raise
    return address


# -------------------------------------------------------------------------------------------------------- in the server


def serve(listener: socket.socket, ending: int, *, address: str) -> None:
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
        own = circumstances()  # before packages change variables
        for package in PACKAGES:
            importlib.import_module(package)
        gc.freeze()
        connection = _in_a_fork(listener, ending, address=address)
    except BaseException:
        remove(address)
        raise
    listener.close()
    os.close(ending)
    for number in signals:
        signal.signal(number, signal.SIG_DFL)
    become(connection, own=own)


def _in_a_fork(listener: socket.socket, ending: int, *, address: str) -> socket.socket:
    """The connection of a request, in the process that is forked for it; the server itself ends here."""
    while True:
        ready, _, _ = select([listener.fileno(), ending], [], [])
        if ending in ready:
            remove(address)
            os._exit(0)
        connection, _ = listener.accept()
        child = _fork()
        if child == 0:
            return connection
        _wait(child, connection)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of the threads that NumPy's OpenBLAS starts when it is imported; OpenBLAS ends them at a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _wait(child: int, connection: socket.socket) -> None:
    """Tell who asked for a process how it ended: 128 + n if killed by signal n, as in shells."""
    with connection:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        with suppress(OSError):  # who asked may be gone
            connection.sendall(bytes([code if code >= 0 else 128 - code]))


def _main() -> None:
    address, listener, ending = sys.argv[1:]
    serve(socket.socket(fileno=int(listener)), int(ending), address=address)
    # What Python does with a folder on its command line, in place of the folder of this process.
    if not sys.flags.safe_path:
        del sys.path[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _main()
