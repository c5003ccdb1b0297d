"""Stages of a project without the seconds that Python takes to start: forked off a process that has imported it all.

DVC runs what dvc.yaml says, ``python -m stages.NAME``; a `python` in front of the others on PATH hands that to the
process which waits here, with environment, folder and file descriptors. For tests that run hundreds of stages.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLIENT = """\
#!{python} -SE
import json, os, socket, sys
if sys.argv[1:2] != ["-m"] or not sys.argv[2].startswith("stages."):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    asked = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(asked)
    sys.exit(int(server.recv(8) or b"1"))
"""


@contextmanager
def quick_stages(project: Path, *, folder: Path) -> Iterator[dict[str, str]]:
    """Environment variables under which DVC's stages of `project` are forked; `folder` is for the socket."""
    path, bin_folder = folder / "stages.socket", folder / "bin"
    bin_folder.mkdir()
    client = bin_folder / "python"
    client.write_text(CLIENT.format(python=sys.executable, path=str(path)))
    client.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), str(path)]
    with subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        try:
            yield {"PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        finally:
            server.terminate()


def serve(path: str) -> None:
    """Import what the stages of this folder import, and then fork one after the other."""
    sys.path[0] = os.getcwd()
    for script in sorted(Path("stages").glob("*.py")):
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                importlib.import_module(node.module)
    importlib.import_module("open_clip")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while True:
            asking, _ = listening.accept()
            with asking:
                size, descriptors, _, _ = socket.recv_fds(asking, 4, 3)
                asked = b""
                while len(asked) < int.from_bytes(size, "big"):
                    asked += asking.recv(1 << 16)
                child = os.fork()
                if child == 0:
                    _run(descriptors, *json.loads(asked))
                for descriptor in descriptors:
                    os.close(descriptor)
                asking.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _run(descriptors: list[int], argv: list[str], folder: str, environment: dict[str, str]) -> None:
    """A stage, as ``python -m`` runs it; never returns."""
    code = 0
    try:
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = argv
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
