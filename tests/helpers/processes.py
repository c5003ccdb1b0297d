"""Run stages, DVC and wsoup in processes that start at once: forked from a server that has imported the packages.

To the kernel, locks and file system they are like any other process; only the imports are shared. So are those of DVC's
stages: in the environment of `warm_python`, `python stages X` is such a process.
"""

from __future__ import annotations

import functools
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import runpy
import signal
import socket
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ["wsoup.towers.library"]  # first: who imports torchvision decides whether torch's compiler comes along
HEAVY += ["pytest", "torch", "torch.utils.flop_counter", "open_clip", "torchvision", "pyarrow.dataset", "zarr"]
HEAVY += ["pyarrow.parquet", "numpy.ma", "pydantic.dataclasses", "pydantic.type_adapter", "typer", "rich.console"]
HEAVY += ["safetensors.numpy", "safetensors.torch", "networkx", "configobj", "platformdirs.unix", "psutil", "pyparsing"]
HEAVY += ["ruamel.yaml", "dulwich.ignore", "dulwich.worktree", "scmrepo.git", "dvc_render.vega", "dvc.cli.parser"]
HEAVY += ["dvc._debug", "dvc.data_cloud", "dvc.lock", "dvc.rwlock", "dvc.utils.strictyaml", "dvc.repo.open_repo"]
HEAVY += [f"dvc.repo.{part}" for part in ("artifacts", "datasets", "graph", "index", "metrics.diff", "params.show")]
HEAVY += [f"dvc.repo.{part}" for part in ("plots", "reproduce", "stage", "trie")]
HEAVY += [f"wsoup.{part}" for part in ("evaluate.evaluation", "finetune.selection", "pipeline.stage", "report.page")]
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(HEAVY)
PATIENCE = 120.0
"""Seconds after which a process counts as hung."""


class Running:
    """A running ``python stages <stage> <arguments>`` in `folder`, with the code of `root`."""

    def __init__(self, folder: Path, stage: str, *arguments: str, root: Path = ROOT, **variables: str) -> None:
        self.printed = folder / f".{stage}-{'-'.join(arguments)}-{time.monotonic_ns()}.txt"
        about = (str(folder), str(root), "stages", [stage, *arguments], variables, str(self.printed))
        self.process = FORKING.Process(target=_run, args=about)
        self.process.start()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.process.pid is not None and self.alive:
            os.kill(self.process.pid, number)

    def wait(self) -> tuple[int | None, str]:
        """Wait for its end: exit code (minus the number of a signal that killed it) and everything it printed."""
        self.process.join(PATIENCE)
        assert not self.alive, f"still running: {self.printed.read_text()}"
        code = self.process.exitcode
        self.process.close()
        return code, self.printed.read_text(encoding="utf-8") if self.printed.exists() else ""

    def until(self, condition: Callable[[], object]) -> bool:
        """Wait until a condition holds; False if the process ends before."""
        while self.alive:
            if condition():
                return True
            time.sleep(0.001)
        return False


def run_stage(folder: Path, stage: str, *arguments: str, code: int = 0, root: Path = ROOT, **variables: str) -> str:
    """Run a stage and check its exit code; everything it printed."""
    actual, printed = Running(folder, stage, *arguments, root=root, **variables).wait()
    assert actual == code, printed
    return printed


def run_module(
    module: str,
    *arguments: str,
    folder: Path,
    root: Path = ROOT,
    variables: dict[str, str] | None = None,
    out: str | None = None,
) -> tuple[int | None, str]:
    """Exit code and output of ``python -m <module> <arguments>``; its stdout goes to `out` if given."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as printed:
        about = (str(folder), str(root), module, list(arguments), variables or {}, out or printed.name, printed.name)
        process = FORKING.Process(target=_run, args=about)
        process.start()
        process.join()
        return process.exitcode, printed.read()


def run_code(code: str, *arguments: str, folder: Path, out: str | None = None) -> tuple[int | None, str]:
    """Exit code and output of ``python -c <code> <arguments>``, as of `run_module`; `code` may be indented."""
    return run_module("inline", textwrap.dedent(code), *arguments, folder=folder, out=out)


def children(pid: int, *, doing: str = "") -> list[int]:
    """The processes that a process has started, those with `doing` in their command line; none if it is gone."""
    found = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if doing in Path(f"/proc/{child}/cmdline").read_text(errors="replace"):
                found.append(int(child))
    return found


@functools.cache
def warm_python() -> dict[str, str]:
    """Environment variables with which `python stages X` is forked from here, by way of warm/python and a thread."""
    address = str(Path(tempfile.mkdtemp(prefix="warm-")) / "socket")
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()

    def serve() -> None:
        while True:
            threading.Thread(target=_answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    path = os.pathsep.join([str(ROOT / "tests/helpers/warm"), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "WSOUP_WARM_PYTHON": address, "WSOUP_REAL_PYTHON": sys.executable}


def _answer(client: socket.socket) -> None:
    """Run one stage for tests/helpers/warm/python, and send it the process id, then the exit code."""
    with client, client.makefile("rw") as lines:
        about = json.loads(lines.readline())
        streams = [f"/proc/{about['pid']}/fd/{stream}" for stream in (1, 2)]
        about = (about["folder"], about["folder"], "stages", about["arguments"], about["environment"])
        process = FORKING.Process(target=_run, args=(*about, *streams))
        process.start()
        print(process.pid, file=lines, flush=True)
        if client in multiprocessing.connection.wait([process.sentinel, client]):  # the client was killed
            process.kill()
        process.join()
        print(process.exitcode, file=lines, flush=True)


def _run(
    folder: str,
    root: str,
    module: str,
    arguments: list[str],
    variables: dict[str, str],
    out: str,
    err: str | None = None,
) -> None:
    """In the new process: run a module as Python's ``-m`` does, or the folder `stages` as ``python stages`` does."""
    gc.freeze()  # the collector would touch all imported objects, and so copy their pages
    os.chdir(folder)
    os.environ.pop("WSOUP_CACHE", None)
    os.environ.update(variables)
    for stream, path in ((0, os.devnull), (1, out), (2, err or out)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOCTTY), stream)
        os.set_inheritable(stream, True)
    sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False) for stream in (1, 2))  # noqa: SIM115
    if Path(root) != ROOT:  # its code may be another
        for name in [name for name in sys.modules if name.partition(".")[0] == "wsoup"]:
            del sys.modules[name]
    sys.path.insert(0, root)
    sys.argv = ["-m", *arguments]
    if module == "stages":
        runpy.run_path(str(Path(root, "stages")), run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
