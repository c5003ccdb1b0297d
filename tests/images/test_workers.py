"""Decoding workers need few resources, and no process waits for one that is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image
from project import ROOT

from wsoup.base.errors import WsoupError
from wsoup.images.batches import batches

DECODE = """
import os, signal, sys
import torch
from wsoup.images.batches import batches
total = 0
for batch in batches([sys.argv[1]] * 1300, transform=lambda image: torch.ones(3, 224, 224), batch_size=64, workers=8):
    total += int(batch.pixels[:, 0, 0, 0].sum())
    if len(sys.argv) > 2:
        os.kill(os.getpid(), signal.SIGKILL)
print(total)
"""


@pytest.fixture
def image(tmp_path: Path) -> str:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    return str(tmp_path / "a.png")


def decode(image: str, *, before: str, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Decode 1,300 images with eight workers, in a shell that ran `before`."""
    command = ["sh", "-c", f'{before} exec "$0" -c "$1" "$2"', sys.executable, DECODE, image]
    if "mount" in before:
        command = ["unshare", "-m", *command]
    environment = {**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.long
def test_pixels_need_no_shared_memory(image: str, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root mounts another /dev/shm")
    done = decode(image, before="mount -t tmpfs -o size=64m tmpfs /dev/shm || exit 77;", temporary=tmp_path)
    if done.returncode == 77:
        pytest.skip("no /dev/shm can be mounted here")
    assert (done.stdout, done.stderr) == ("1300\n", "")


@pytest.mark.long
def test_the_path_of_the_temporary_folder_may_be_long(image: str, tmp_path: Path) -> None:
    temporary = tmp_path / ("t" * 120)
    temporary.mkdir()
    done = decode(image, before="", temporary=temporary)
    assert (done.stdout, done.stderr) == ("1300\n", "")
    assert not list(temporary.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("descriptors", [40, 22, 15])
def test_without_descriptors_for_processes_this_one_decodes_and_says_so(
    image: str, tmp_path: Path, descriptors: int
) -> None:
    done = decode(image, before=f"ulimit -n {descriptors};", temporary=tmp_path)
    assert done.stdout == "1300\n"
    line = "decoding in this process, which takes longer: no others can be started (Too many open files)\n"
    assert done.stderr == ("" if descriptors == 40 else line)


def test_workers_end_with_a_killed_main_process(image: str) -> None:
    marked = {**os.environ, "DECODES": str(os.getpid())}
    killed = subprocess.run([sys.executable, "-c", DECODE, image, "kill"], env=marked, check=False)
    assert killed.returncode == -signal.SIGKILL
    mark = f"DECODES={os.getpid()}".encode()

    def left() -> list[Path]:
        return [path for path in Path("/proc").glob("[0-9]*/environ") if mark in _contents(path)]

    end = time.monotonic() + 10
    while left() and time.monotonic() < end:
        time.sleep(0.1)
    assert not left()


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


ELSEWHERE = """
import multiprocessing, sys
from torchvision.transforms import ToTensor
from wsoup.images.batches import batches

def count(transform):
    decoded = batches([sys.argv[1]] * 1300, transform=transform, batch_size=64, workers=2)
    return sum(len(batch.positions) for batch in decoded)

if __name__ == "__main__":
    with multiprocessing.Pool(1) as pool:
        print(pool.apply(count, [ToTensor()]))
    multiprocessing.set_start_method("spawn", force=True)
    print(count(ToTensor()))
    print(count(lambda image: ToTensor()(image)))
"""


@pytest.mark.slow
def test_daemonic_and_spawned_callers_work(image: str, tmp_path: Path) -> None:
    """A daemonic process may have no children; to a spawned one a lambda cannot be sent."""
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    command = [sys.executable, str(tmp_path / "elsewhere.py"), image]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.stdout.split() == ["1300"] * 3, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("decoding in this process, which takes longer: no others can be started (Can't pickle")


def kills_its_worker(image: Image.Image) -> torch.Tensor:
    os.kill(os.getpid(), signal.SIGKILL)
    return torch.ones(3, 1, 1)


def fails(image: Image.Image) -> torch.Tensor:
    raise KeyError("a preprocessing that fails")


def test_a_killed_worker_is_an_error_of_one_line(image: str) -> None:
    with pytest.raises(WsoupError, match="a decoding process was killed; run it again, with fewer of them"):
        list(batches([image] * 1300, transform=kills_its_worker, batch_size=64, workers=2))


def test_errors_of_a_preprocessing_come_back_with_their_traceback(image: str) -> None:
    with pytest.raises(KeyError, match="a preprocessing that fails") as raised:
        list(batches([image] * 1300, transform=fails, batch_size=64, workers=2))
    assert "in fails" in str(raised.value.__cause__)
