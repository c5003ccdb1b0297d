"""Odd photos, lists, class names and outputs of `wsoup classify`: answered, listed as unreadable, or an error line."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from project import ROOT
from run_cli import run
from small_world import COLOURS, write_image_folder

from wsoup.api.soups import Soup
from wsoup.base.errors import ModelError
from wsoup.core.member import Member
from wsoup.towers.encoder import Encoder, choose_device

ODD = [
    *("=1+2.png", "two\nlines.png", "[red].png", 'a"b.png', "a,b.png", "q'q.png", "-x.png", "@x.png", "$(touch x).png"),
    *("é.png", "\x1b[31m.png", "\u202egnp.png", "<img src=x onerror=alert(1)>.png", " .png"),
    os.fsdecode(b"\xff\xfe.png"),
]


@pytest.fixture
def folder(in_tmp: Path, tiny_encoder: Encoder, tiny_encoder_files: dict[str, str]) -> Path:
    """A soup, a params.yaml with the path of its weights, and a good photo."""
    members = tuple(Member(text, n_correct=5, n_images=9) for text in ("sharp", "=flat"))
    Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, members).save("soup.json")
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    write_image_folder(in_tmp / "new", splits={"a": 1}, classes={"red": COLOURS["red"]})
    shutil.move(in_tmp / "new/a/red/00.png", "good.png")
    return in_tmp


def classify(*arguments: str, classes: str = "cat,dog") -> tuple[int, str, list[str]]:
    """Exit code, stdout and lines of stderr; an error is one line beside the progress bar."""
    code, printed, errors = run("classify", *arguments, "--soup", "soup.json", "--classes", classes)
    lines = [line for line in errors.splitlines() if not line.startswith(("\rclassify", "classify"))]
    assert code in (0, 1)
    assert all(line.isprintable() and len(line) <= 600 for line in lines)
    if code:
        assert [line[:7] for line in lines if line.startswith("error: ")] == ["error: "]
    return code, printed, lines


# -------------------------------------------------------------------------------------------------------- photos


def test_odd_file_names_are_written_in_every_form(folder: Path) -> None:
    for name in ODD:
        shutil.copy("good.png", folder / name)
    names = {name.encode(errors="backslashreplace").decode() for name in ODD}
    defused = {f"./{name}" if name[0] in "=@-" else name for name in names}
    code, printed, _ = classify(*(f"./{name}" if name[0] == "-" else name for name in ODD))
    assert code == 0
    assert {row["path"].removeprefix("./") for row in csv.DictReader(io.StringIO(printed))} >= names - defused
    assert not any(row["path"].startswith(("=", "+", "-", "@")) for row in csv.DictReader(io.StringIO(printed)))
    assert classify(".", "--out", "found.csv")[0] == 0
    with open("found.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(ODD) + 1
    assert classify(".", "--html", "sheet.html")[0] == 0
    assert "<img src=x" not in Path("sheet.html").read_text(encoding="utf-8")


def test_files_that_are_not_photos_are_listed(folder: Path) -> None:
    (folder / "odd").mkdir()
    shutil.copy("good.png", "odd/good.png")
    (folder / "odd/folder.png").mkdir()
    os.mkfifo("odd/fifo.png")
    os.symlink("/dev/zero", "odd/zero.png")
    os.symlink("loop.png", "odd/loop.png")
    os.symlink("..", "odd/up")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("odd/sock.png")
    Path("odd/empty.png").touch()
    Path("odd/html.png").write_text("<html>")
    Path("odd/eps.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")
    Image.new("L", (60_000, 1)).save("odd/line.png")
    code, printed, lines = classify("odd")
    assert code == 0
    rows = [*csv.DictReader(io.StringIO(printed))]
    assert {row["path"] for row in rows if row["status"] == "ok"} == {"odd/good.png", "odd/up/good.png"}
    assert [row["class"] for row in rows if row["status"] == "not read"] == 8 * [""]
    assert lines[-1] == "8 of 10 photos could not be read"
    for name in ("fifo", "zero", "loop", "sock", "empty", "html", "eps", "line"):
        assert sum(line.startswith(f"not read: odd/{name}.") for line in lines) == 1


# --------------------------------------------------------------------------------------------------------- lists

LISTS: dict[str, bytes] = {
    "empty": b"",
    "header": b"path\n",
    "other_columns": b"a;b\n1;2\n",
    "huge_field": b"path\n" + b"x" * 200_000 + b"\n",
    "latin": b"path\n\xff.png\n",
    "utf16": "path\ngood.png\n".encode("utf-16"),
    "surrogate": b"path\n\xed\xa0\x80.png\n",
    "columns_of_one_name": b"path,x,x\ngood.png,1,2\n",
    "long_row": b"path,x\ngood.png,1,2\n",
}
UNREAD: dict[str, bytes] = {
    "no_value": b"x,path\n1\n2,\n",
    "nul": b"path\na\0b.png\n",
    "long": b"path\n" + b"x" * 5_000 + b".png\n",
    "deep": b"path\n" + b"../" * 2_000 + b"x.png\n",
    "devices": b"path\n/dev/zero\n/proc/self/mem\n",
    "folders": b"path\n.\n..\n",
    "password": b"path\n/etc/passwd\n",
    "tar": b"path\nx.tar/a.png\n",
    "url": b"path\nhttp://127.0.0.1:1/x.png\ns3://bucket/x.png\nfile:///etc/passwd\nmemory://x\n",
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_broken_list_is_refused(folder: Path, kind: str) -> None:
    Path("list.csv").write_bytes(LISTS[kind])
    code, printed, lines = classify("list.csv")
    assert (code, printed) == (1, "")
    assert "list.csv" in lines[-1]


@pytest.mark.parametrize("kind", UNREAD)
def test_entries_of_a_list_that_are_not_photos_are_listed(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("something was fetched"))
    Path("list.csv").write_bytes(UNREAD[kind])
    code, _, lines = classify("list.csv")
    assert code == 0
    n_entries = UNREAD[kind].count(b"\n") - 1
    assert lines[-1] == f"{n_entries} of {n_entries} photos could not be read"


# --------------------------------------------------------------------------------------------------- class names


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (",", "class_names is []; "),
        ("a", "alone; expected a text file, or two names"),
        ("a,a", "holds 'a' 2 times"),
        ("a,b\nc", "holds NUL or another control character"),
        ("a,b\0c", "holds NUL or another control character"),
        ("a,b\udcff", "it holds a lone surrogate"),
        ("Blue,blue", "'a photo of a Blue' and 'a photo of a blue' are the same tokens to this model"),
        ("a," + "w " * 100, "does not fit the model's context of 77 tokens"),
        ("/dev/zero", "alone; expected a text file"),
        ("none.txt", "--classes: none.txt does not exist; expected"),
        ("bytes.bin", "is not UTF-8 text"),
    ],
)
def test_unusable_class_names_are_refused(folder: Path, classes: str, message: str) -> None:
    Path("bytes.bin").write_bytes(bytes(range(256)))
    code, printed, lines = classify("good.png", classes=classes)
    assert (code, printed) == (1, "")
    assert message in lines[-1]


# ------------------------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--html", "good.png"), "must end in .html: a file of that name is overwritten"),
        (("--html", "mine"), "must end in .html"),
        (("--html", "mine.html"), "--html mine.html exists already"),
        (("--html", "mine.html", "--force"), "--html mine.html exists already"),
        (("--out", "mine.csv"), "--out mine.csv exists already; give another name, or --force to replace a file"),
        (("--out", "list.csv", "--force"), "--out list.csv is also an input; give another name"),
        (("--out", "sub/../list.csv"), "is also an input"),
        (("--out", "good.png/x.csv"), "good.png"),
        (("--top", "0"), None),
    ],
)
def test_outputs_do_not_replace_inputs(folder: Path, options: tuple[str, ...], message: str | None) -> None:
    Path("list.csv").write_text("path\ngood.png\n")
    Path("mine.html").mkdir()
    Path("mine.csv").write_text("mine")
    Path("mine.html/x").write_text("mine")
    before = Path("good.png").read_bytes()
    if message is None:
        assert run("classify", "list.csv", "--soup", "soup.json", "--classes", "cat,dog", *options)[0] == 2
    else:
        code, _, lines = classify("list.csv", *options)
        assert code == 1
        assert message in lines[-1]
    assert Path("good.png").read_bytes() == before
    assert Path("list.csv").read_text() == "path\ngood.png\n"
    assert Path("mine.html/x").read_text() == Path("mine.csv").read_text() == "mine"


@pytest.mark.parametrize("device", ["meta", "x", "cuda:99", "a\nb", "cpu:-2"])
def test_unknown_devices_are_refused(device: str) -> None:
    with pytest.raises(ModelError) as error:
        choose_device(device)
    assert f"device {device!r} cannot be used" in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_leaves_no_half_written_file(
    folder: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wsoup.images.features.encode_pixels", lambda *_: os.kill(os.getpid(), number))
    code, _, errors = run("classify", "good.png", "--soup", "soup.json", "--classes", "cat,dog", "--out", "found.csv")
    assert code == 130
    assert errors.splitlines()[-1] == "interrupted; nothing half-written is left"
    assert "Traceback" not in errors
    assert not [path for path in folder.iterdir() if path.name.startswith("found") or path.name.endswith(".tmp")]


# ------------------------------------------------------------------------------------------------- streams and memory


def in_a_shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `{}` stands for `wsoup classify` of forty photos."""
    for i in range(40):
        os.link("good.png", f"new/{i}.png")
    command = f"{sys.executable} -m wsoup classify new --soup soup.json --classes cat,dog"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["sh", "-c", line.format(command)], capture_output=True, text=True, check=False, timeout=300, env=environment
    )


def test_no_file_gets_the_descriptor_of_a_closed_stream(folder: Path) -> None:
    """Otherwise messages about unreadable photos would go into the table, opened as descriptor 2."""
    Path("new/bad.png").write_bytes(b"broken")
    done = in_a_shell("{} --out found.csv 0<&- 2>&-")
    assert done.returncode == 0
    assert len(Path("found.csv").read_text().splitlines()) == 42


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{} >&-", "error: stdout is closed, and results go there; direct it to a file, or to /dev/null"),
        ("{} > /dev/full", r"error: /.*: No space left on device; free some space"),
        ("ulimit -v 1000000; {}", r"error: memory ran out \(lib.*: failed to map segment from shared object\)"),
    ],
)
def test_an_incomplete_write_ends_in_one_line(folder: Path, line: str, message: str) -> None:
    done = in_a_shell(line)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.search(message, done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
