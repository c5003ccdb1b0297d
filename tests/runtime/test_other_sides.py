"""What a program does whose fork server is none, or another's: it runs by itself, and what is there stays."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from processes import ROOT

from wsoup.runtime import forked
from wsoup.runtime.forked import LARGEST, VARIABLE, circumstances, run_there

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stages are forked on Linux alone")
Answer = Callable[[socket.socket], object]


class OtherSide:
    """Whatever listens on a socket beside a file of the user's, in a folder as private as a server's."""

    def __init__(self, folder: Path, *, kind: socket.SocketKind = socket.SOCK_SEQPACKET) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        (folder / "notes.txt").write_text("mine")
        self.address = str(folder / "socket")
        self.heard: list[bytes] = []
        self.listener = socket.socket(socket.AF_UNIX, kind)
        self.listener.bind(self.address)
        self.listener.listen()

    def answer(self, answer: Answer) -> threading.Thread:
        """Answer one process, in a thread, and note what it says then."""

        def work() -> None:
            with suppress(OSError), self.listener.accept()[0] as connection:
                connection.settimeout(5)
                answer(connection)
                self.heard.append(connection.recv(LARGEST))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherSide]:
    side = OtherSide(tmp_path / "folder")
    monkeypatch.setattr(sys, "argv", ["stages", "fewshot"])
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "stages", "fewshot"])
    monkeypatch.setenv(VARIABLE, side.address)
    monkeypatch.setattr(forked, "PATIENCE", 0.5)
    yield side
    side.listener.close()
    assert (tmp_path / "folder/notes.txt").read_text() == "mine"


def greeted(after: Callable[[bytes], bytes]) -> Answer:
    """A side that begins as a server does, and answers a request with `after` of it."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(circumstances())
        request, *_ = socket.recv_fds(connection, LARGEST, 3)
        connection.sendall(after(request))

    return answer


GARBAGE: dict[str, Answer] = {
    "closes early": lambda connection: connection.close(),
    "eight bytes": lambda connection: connection.sendall(bytes(8)),
    "a great deal": lambda connection: connection.sendall(b"x" * 100_000),
    "another's circumstances": lambda connection: connection.sendall(hashlib.sha256(b"other").digest()),
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_told_nothing(other, garbage):
    answered = other.answer(GARBAGE[garbage])
    assert run_there() is None
    answered.join()
    assert b"".join(other.heard) == b""


AFTER_A_REQUEST: dict[str, Callable[[bytes], bytes]] = {
    "eight bytes": lambda request: bytes(8),
    "an exit code": lambda request: bytes(1),
    "what was asked": lambda request: request,
    "half an answer": lambda request: hashlib.sha256(request).hexdigest().encode()[:32],
    "no process": lambda request: hashlib.sha256(request).hexdigest().encode(),
    "a process that is none": lambda request: f"{hashlib.sha256(request).hexdigest()} -1".encode(),
    "of another request": lambda request: f"{hashlib.sha256(b'other').hexdigest()} {os.getpid()}".encode(),
}


@pytest.mark.parametrize("after", AFTER_A_REQUEST)
def test_an_answer_to_another_request_is_not_believed(other, after):
    other.answer(greeted(AFTER_A_REQUEST[after]))
    assert run_there() is None


def test_silence_is_waited_for_no_longer_than_said(other):
    released = threading.Event()
    other.answer(lambda connection: released.wait(20))
    assert run_there() is None
    released.set()


@pytest.mark.parametrize("resets", [True, False])
def test_a_side_that_goes_after_the_start_is_one_line(other, capsys, monkeypatch, resets):
    """A reset is what the system reports where something was left unread."""
    monkeypatch.setattr(forked.signal, "signal", lambda *_: None)

    def answer(connection: socket.socket) -> None:
        greeted(lambda request: f"{hashlib.sha256(request).hexdigest()} 1".encode())(connection)
        if not resets:
            connection.recv(LARGEST)
        connection.close()

    other.answer(answer)
    assert run_there() == 1
    assert capsys.readouterr().err == "error: the process of `wsoup repro` that runs stages was killed; run it again\n"
    assert not Path(other.address).exists()


def test_a_folder_that_others_can_use_is_not_connected_to(other):
    other.answer(greeted(lambda request: request))
    for mode in (0o755, 0o710, 0o701):
        other.folder.chmod(mode)
        assert run_there() is None
    other.folder.chmod(0o700)
    assert other.heard == []


def test_no_link_plain_file_dead_socket_stream_or_relative_name_is_an_error(other, tmp_path, monkeypatch):
    streams = OtherSide(tmp_path / "streams", kind=socket.SOCK_STREAM)
    (tmp_path / "link").symlink_to(other.folder)
    (tmp_path / "link-to-nothing").symlink_to(tmp_path / "nowhere")
    names = ["link/socket", "link-to-nothing/socket", "folder/notes.txt", "folder/none", "folder", "none/none"]
    addresses = [
        *(str(tmp_path / name) for name in names),
        "socket",
        "/",
        ":",
        " ",
        "x" * 500,
        "\udcff",
        streams.address,
    ]
    for address in addresses:
        monkeypatch.setenv(VARIABLE, address)
        assert run_there() is None, address
    other.listener.close()
    monkeypatch.setenv(VARIABLE, other.address)
    assert run_there() is None
    assert Path(other.address).exists()
    streams.listener.close()


def test_a_socket_of_another_user_is_told_nothing(other, monkeypatch):
    """Its folder is this user's: another one's is refused before."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    own = os.stat_result((0o40700, 0, 0, 0, os.geteuid(), *range(5)))
    monkeypatch.setattr(forked.os, "lstat", lambda path: own)
    answered = other.answer(lambda connection: connection.sendall(circumstances()))
    assert run_there() is None
    answered.join()
    assert b"".join(other.heard) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may be another user")
def test_a_server_of_another_user_is_told_nothing(other):
    os.chown(other.folder, 65534, 65534)
    other.answer(greeted(lambda request: request))
    assert run_there() is None
    assert other.heard == []
    os.chown(other.folder, 0, 0)


def test_a_program_whose_server_is_a_leftover_variable_runs(tmp_path):
    (tmp_path / "stages").mkdir()
    program = "from wsoup.runtime.forked import run_there; print(run_there())"
    (tmp_path / "stages/__main__.py").write_text(program)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(tmp_path / "gone/socket")}
    done = subprocess.run(
        [sys.executable, "stages"], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("None\n", "")
