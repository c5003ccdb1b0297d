"""Programs that the fork server runs: theirs are the streams, signals and exit code of what was started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import ROOT, children

from wsoup.runtime.fork_server import PACKAGES
from wsoup.runtime.forked import PATIENCE, VARIABLE

OWNER = f"""
import os
from wsoup.runtime import fork_server
print(fork_server.start()["{VARIABLE}"], flush=True)
os.execvp("sleep", ["sleep", "1000"])
"""
"""A program that starts a server, after which another one takes its place, as DVC does."""
MAIN = """
import sys
from wsoup.runtime.forked import run_there
status = run_there()
if status is not None:
    raise SystemExit(status)
exec(sys.argv[1])
"""
"""In place of stages/__main__.py: does what the command line says, in the server if there is one."""
ABOUT = """
import json, os, sys
modules = [name for name in sys.modules if name.startswith("wsoup.")]
print(json.dumps([sys.argv, os.getcwd(), os.environ.get("DVC_STAGE"), "torch" in sys.modules, modules]))
print("to stderr", file=sys.stderr)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stages are forked on Linux alone")


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Server:
    """A running server, and a folder of programs that it can run."""

    def __init__(self, folder: Path, **variables: str) -> None:
        (folder / "stages").mkdir()
        (folder / "stages/__main__.py").write_text(MAIN)
        self.folder = folder
        self.variables = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        self.owner = subprocess.Popen(
            [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=self.variables
        )
        assert self.owner.stdout is not None
        self.address = self.owner.stdout.readline().strip()
        self.socket = Path(self.address.rpartition(":")[2])
        (self.pid,) = children(self.owner.pid)

    def end(self) -> None:
        """Kill the owner."""
        self.owner.kill()
        self.owner.communicate()

    def start(self, code: str, **variables: str) -> subprocess.Popen[str]:
        """Start a program; its output is piped."""
        return subprocess.Popen(
            [sys.executable, "stages", code],
            cwd=self.folder,
            env={**self.variables, VARIABLE: self.address, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, **variables: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a program."""
        running = self.start(code, **variables)
        out, err = running.communicate(timeout=60)
        return running.returncode, out, err


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.end()


def test_a_program_has_its_own_command_line_folder_and_environment_and_packages_are_there(server):
    code, out, err = server.run(ABOUT, DVC_STAGE="blue")
    argv, folder, colour, has_torch, modules = json.loads(out)
    assert (code, err) == (0, "to stderr\n")
    assert (argv, folder, colour, has_torch) == (["stages", ABOUT], str(server.folder), "blue", True)
    assert "wsoup.towers.library" not in modules, "the server's own wsoup is not the program's"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("1 / 0", 1),
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_the_exit_code_is_the_programs(server, program, code):
    actual, _, err = server.run(program)
    assert actual == code
    assert ("ZeroDivisionError" in err) == (program == "1 / 0")


WAITING = """
import os, signal, sys, time
def end(number, frame):
    print("ended by", number, flush=True)
    sys.exit(130)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_program_once(server, number):
    running = server.start(WAITING)
    assert running.stdout is not None
    assert int(running.stdout.readline()) != running.pid
    running.send_signal(number)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, f"ended by {int(number)}\n")


def is_stopped(pid: int) -> bool:
    _, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    return rest.startswith("T")


def test_a_program_stops_and_goes_on_with_the_process_that_waits_for_it(server):
    """Control-Z and `fg`."""
    running = server.start(WAITING)
    assert running.stdout is not None
    pid = int(running.stdout.readline())
    running.send_signal(signal.SIGTSTP)
    wait_until(lambda: is_stopped(running.pid) and is_stopped(pid))
    running.send_signal(signal.SIGCONT)
    wait_until(lambda: not is_stopped(pid))
    running.terminate()
    assert running.communicate(timeout=60)[0] == f"ended by {int(signal.SIGTERM)}\n"


IN_TERMINAL = f"""
import os, subprocess, sys
from wsoup.runtime import fork_server
os.environ |= fork_server.start()
subprocess.run(["stty", "tostop"], check=True)
subprocess.run([sys.executable, "stages", {ABOUT!r}], check=True)
"""


def test_a_terminal_that_stops_what_writes_from_the_background_does_not_stop_programs(server):
    spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    command = [sys.executable, "-c", spawn, sys.executable, "-c", IN_TERMINAL]
    pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(command, cwd=server.folder, env=server.variables, timeout=60, check=True, **pipes)
    about, err = done.stdout.splitlines()
    assert json.loads(about)[3] is True
    assert err == "to stderr"


def test_an_interrupt_right_after_the_start_leaves_no_folder(tmp_path):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=variables, start_new_session=True)
    assert owner.stdout is not None
    owner.stdout.readline()
    assert [*tmp_path.iterdir()]
    os.killpg(owner.pid, signal.SIGINT)
    owner.communicate()
    wait_until(lambda: not [*tmp_path.iterdir()])


def test_a_program_does_not_outlive_the_process_that_waits_for_it(server):
    running = server.start(WAITING)
    assert running.stdout is not None
    pid = int(running.stdout.readline())
    running.kill()
    running.communicate()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert server.run("print('next')")[1] == "next\n", "the server goes on"


def test_closed_streams_are_no_error(server):
    closed = f"exec 0<&- 1>&-; \"{sys.executable}\" stages \"open('done', 'w').close()\""
    variables = {**server.variables, VARIABLE: server.address}
    subprocess.run(["sh", "-c", closed], cwd=server.folder, env=variables, check=True)
    assert (server.folder / "done").exists()


@pytest.mark.parametrize(
    "command",
    [
        "ulimit -v 8000000; python",
        "ulimit -t 50; python",
        "ulimit -Sn 200; python",
        "umask 077; python",
        "nice python",
        "chrt --batch 0 python",
        "taskset --cpu-list 0 python",
        "OMP_NUM_THREADS=7 python",
        "MKL_DYNAMIC=FALSE python",
        "TZ=Asia/Tokyo python",
        "LC_ALL=C python",
        "PYTHONHASHSEED=1 python",
        "MALLOC_ARENA_MAX=1 python",
        "WSOUP_KEEP_MEMORY=0 python",
        "HF_HOME=/elsewhere python",
        "env --unset=HOME python",
        "python -O",
        "python -u",
        "python -X utf8",
        "python -W error::SyntaxWarning",
    ],
)
def test_a_program_that_was_started_otherwise_than_the_server_runs_by_itself(server, command):
    program = "import sys; print('torch' in sys.modules)"
    taking = command.replace("python", f"exec '{sys.executable}'") if "; " in command else command
    path = f"{Path(sys.executable).parent}{os.pathsep}{server.variables['PATH']}"
    about = {"cwd": server.folder, "env": {**server.variables, VARIABLE: server.address, "PATH": path}}
    done = subprocess.run(["sh", "-c", f'{taking} stages "{program}"'], capture_output=True, text=True, **about)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


REQUEST = json.dumps([["stages", "open('begun', 'w')"], str(ROOT), {}]).encode()
SILENT = {
    "nothing": lambda connection: None,
    "no JSON": lambda connection: connection.sendall(bytes(9)),
    "JSON of another kind": lambda connection: socket.send_fds(connection, [b"{}"], [0, 1, 2]),
    "no streams": lambda connection: connection.sendall(REQUEST),
    "two streams": lambda connection: socket.send_fds(connection, [REQUEST], [0, 1]),
    "a request without an end": lambda connection: socket.send_fds(connection, [REQUEST], [0, 1, 2]),
}


@pytest.mark.parametrize("said", SILENT)
def test_who_connects_and_asks_for_nothing_whole_stops_no_program(server, said):
    begun = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(server.address)
        SILENT[said](connection)
        assert server.run("print(1)") == (0, "1\n", "")
    assert time.monotonic() - begun < PATIENCE
    assert not (ROOT / "begun").exists()


def test_the_server_ends_with_its_owner_and_programs_then_run_by_themselves(tmp_path):
    server = Server(tmp_path)
    assert server.run("print(1)") == (0, "1\n", "")
    running = server.start(WAITING)
    assert running.stdout is not None
    running.stdout.readline()
    server.end()
    running.terminate()
    assert running.communicate(timeout=60)[0] == f"ended by {int(signal.SIGTERM)}\n", "what runs is not disturbed"
    wait_until(lambda: not server.socket.parent.exists())
    wait_until(lambda: not Path(f"/proc/{server.pid}").exists())
    _, out, _ = server.run(ABOUT)
    *_, has_torch, _ = json.loads(out)
    assert not has_torch


def test_streams_are_opened_as_python_opens_them(server):
    about = """
import sys
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.encoding, stream.errors, stream.line_buffering, stream.write_through)
sys.stdout.reconfigure(errors="backslashreplace")
"""
    by_itself = server.run(about, **{VARIABLE: ""})
    assert by_itself[0] == 0
    assert server.run(about) == by_itself


def test_modules_are_searched_where_python_searches_them(server):
    """The server's own folder is not among the places: that of `wsoup shots` is another one than its stages have."""
    about = "import sys; print(*map(os.path.abspath, sys.path))"
    code, by_itself, _ = server.run(f"import os; {about}", **{VARIABLE: ""})
    assert code == 0
    assert server.run(f"import os; {about}") == (0, by_itself, "")


def test_no_warning_is_shown_where_python_shows_all():
    command = [sys.executable, "-X", "dev", "-c", "from wsoup.runtime import fork_server; fork_server.start()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_unbuffered_output_is_written_at_once(tmp_path):
    server = Server(tmp_path, PYTHONUNBUFFERED="1")
    assert server.run("import os; print('written'); os._exit(0)") == (0, "written\n", "")
    server.end()


def test_a_killed_server_is_one_line(tmp_path):
    server = Server(tmp_path)
    running = server.start(WAITING)
    assert running.stdout is not None
    pid = int(running.stdout.readline())
    os.kill(server.pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert err == "error: the process of `wsoup repro` that runs stages was killed; run it again\n"
    assert not server.socket.parent.exists()
    server.end()


def test_where_there_can_be_no_server_programs_run_by_themselves(server, tmp_path):
    """One that cannot import its packages, a path that is too long for a socket, and a disk that has none."""
    broken = tmp_path / "zarr.py"
    broken.write_text("raise ImportError('no zarr')")
    failing = Server(tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    code, out, _ = failing.run(ABOUT)
    assert code == 0
    assert json.loads(out)[3] is False
    assert not failing.socket.parent.exists()
    failing.end()
    long, short = tmp_path / ("x" * 100), tmp_path / "short"
    start = "from wsoup.runtime import fork_server; print(fork_server.start())"
    without = "import os, socket; socket.socket.bind = lambda *_: os.open('/', os.O_RDWR)"  # an OSError
    for folder, code in ((long, start), (short, f"{without}; {start}")):
        folder.mkdir()
        variables = {**server.variables, "TMPDIR": str(folder)}
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
        assert done.stdout == "{}\n"
        assert not [*folder.iterdir()]


def test_the_server_imports_what_stages_do(tmp_path):
    """A package of others that a stage imports by itself costs each of its runs."""
    program = f"""
import importlib, pathlib, sys
for package in {PACKAGES}:
    importlib.import_module(package)
before = {{*sys.modules}}
for script in sorted(pathlib.Path("stages").glob("[a-z]*.py")):
    importlib.import_module(f"stages.{{script.stem}}")
own = ("wsoup", "stages", "__mp_main__")
new = {{name.partition(".")[0] for name in {{*sys.modules}} - before}} - {{*sys.stdlib_module_names, *own}}
had = {{name.partition(".")[0] for name in before}}
print(*sorted(new - had))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    small = {"annotated_types"}  # pydantic's, for some fields
    assert {name for name in done.stdout.split() if not name.startswith("_cython")} <= small
