"""Exit codes of an interrupted process."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys

import pytest
from project import ROOT

PROGRAM = """
import atexit, os, sys
from wsoup.runtime.ending import INTERRUPTED, interruptible, leave_at_once

leave_at_once()
atexit.register(lambda: print("cleaned"))
try:
    with interruptible():
        {work}
except KeyboardInterrupt:
    print("interrupted")
    raise SystemExit(INTERRUPTED)
"""


def run(*command: str, paths: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "work",
    [
        "os.kill(os.getpid(), {number})",
        # as during imports, which create dataclasses and named tuples
        "exec('os.kill(os.getpid(), {number})\\nfor _ in range(10**6): pass')",
    ],
    ids=["plainly", "in-exec-of-a-string"],
)
def test_an_interrupt_at_any_moment_ends_with_130_after_cleanup(number, work, tmp_path):
    (tmp_path / "interrupted.py").write_text(PROGRAM.format(work=work.format(number=int(number))))
    command = [sys.executable, "-m", "interrupted"]  # as DVC starts a stage; `-c` and plain files end another way
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    ended = run(*command, paths=paths)
    assert (ended.returncode, ended.stdout) == (130, "interrupted\ncleaned\n"), ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_imports_prints_one_line(number, tmp_path):
    (tmp_path / "typer.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\nfor _ in range(10**6): pass")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    ended = run(sys.executable, "-m", "wsoup", paths=paths)
    assert (ended.returncode, ended.stderr) == (130, "interrupted before any work was done\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_caught_interrupt_restores_the_programs_handlers(number, tmp_path):
    """As in a notebook or a test: its signal handlers and its exit code are its own again."""
    (tmp_path / "program.py").write_text(f"""
import os, signal
from wsoup.runtime.ending import interruptible

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
try:
    with interruptible():
        os.kill(os.getpid(), {int(number)})
except KeyboardInterrupt:
    print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before)
""")
    ended = run(sys.executable, str(tmp_path / "program.py"), paths=str(ROOT))
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


def test_importing_a_stage_or_the_command_changes_no_handlers():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for name in ("stages", "stages.__main__", "wsoup.__main__"):
        sys.modules.pop(name, None)
        importlib.import_module(name)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


ENDS = """
import ctypes, sys
from wsoup.runtime.ending import finished, leave_at_once
leave_at_once()
libc = ctypes.CDLL(None)
libc.__cxa_atexit(libc.abort, None, None)  # like a library's thread that is not joined
print("written")
if sys.argv[1] == "finished":
    finished()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses glibc's list of exit functions")
def test_a_library_that_aborts_at_exit_does_not_fail_a_finished_process():
    ended = [run(sys.executable, "-c", ENDS, how, paths=str(ROOT)) for how in ("finished", "not")]
    assert (ended[0].returncode, ended[0].stdout) == (0, "written\n")
    assert ended[1].returncode == -signal.SIGABRT


def test_a_closed_terminal_leaves_no_temporary_file_and_nohup_is_respected(tmp_path):
    (tmp_path / "program.py").write_text("""
import os, signal, sys
from wsoup.disk.store import replacing
from wsoup.runtime.ending import interruptible

if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with interruptible(), replacing("soup.json") as temporary:
    temporary.write_text("{}")
    os.kill(os.getpid(), signal.SIGHUP)
""")
    for how, left in (("closed", {"program.py"}), ("nohup", {"program.py", "soup.json"})):
        command = [sys.executable, "program.py", how]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
        assert {path.name for path in tmp_path.iterdir()} == left


def test_after_an_error_no_library_prints_at_exit(tmp_path):
    """Triton lists objects that a traceback still holds: thirty lines below the one that says what to do."""
    program = """
import atexit
atexit.register(lambda: print("noise of a library"))
import sys
from wsoup.base.errors import DataError
from wsoup.runtime.ending import errors_in_one_line, leave_at_once

leave_at_once()

atexit.register(lambda: print("cleaned"))
with errors_in_one_line():
    raise DataError("what is wrong")
"""
    result = run(sys.executable, "-c", program, paths=str(ROOT))
    assert (result.returncode, result.stdout, result.stderr) == (1, "cleaned\n", "error: what is wrong\n")


@pytest.mark.parametrize("program", [("stages", "prepare"), ("-m", "wsoup")])
def test_a_python_without_the_packages_is_one_line(program):
    """As where the environment is not activated: -S hides what is installed."""
    command = [sys.executable, "-S", *program, "photo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {sys.executable} does not have the package ")
    assert done.stderr.count("\n") == 1
