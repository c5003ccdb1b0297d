"""Full and read-only disks, and links instead of folders: one line with the path, and old files stay.

These tests mount a small tmpfs, and are skipped where that is not allowed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hostile_stages import FIRST, LONG, REST, Stage, refused, run
from project import Project

from wsoup.base.errors import StorageError
from wsoup.disk import store
from wsoup.disk.checked import write_checked
from wsoup.finetune.tuned import save_tuned
from wsoup.search.pools.lists import write_pool
from wsoup.towers.features import ImageFeatures, write_features

BIG = 400_000
"""More bytes than the small disk has, and fewer than each writer below writes."""


class Disk:
    """A tmpfs on a folder."""

    def __init__(self, folder: Path, *, kib: int = 256) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting a tmpfs is not allowed here")

    def fill(self, *, left: int = 0) -> None:
        """Leave `left` KiB free."""
        filler = os.open(self.folder / "filler", os.O_WRONLY | os.O_CREAT)
        size = 0
        with contextlib.suppress(OSError):
            while written := os.write(filler, bytes(4096)):
                size += written
        os.truncate(filler, size - 1024 * left)
        os.close(filler)

    def read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)

    def spoil(self, fault: str) -> None:
        if fault == "read_only":
            self.read_only()
        else:
            self.fill(left=40 if fault == "nearly_full" else 0)

    def umount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    mounted = Disk(tmp_path / "disk")
    yield mounted
    mounted.umount()


def fill_features(path: Path) -> None:
    n = BIG // 16
    features = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    write_features(path, ImageFeatures(features, np.zeros(n, np.int64), np.arange(n), {"class_names": ["a"]}))


def write_tuned(path: Path) -> None:
    about = np.frombuffer(b'{"tunes_images": false, "log": []}', dtype=np.uint8)
    save_tuned(path, packed={"weights/x": np.zeros(BIG, np.float32), "about": about}, config={})


def write_table(path: Path) -> None:
    store.write_table(path, pa.table({"x": np.random.default_rng(0).random(BIG)}), attributes={})


WRITERS: dict[str, Callable[[Path], None]] = {
    "features.zarr": fill_features,
    "tuned": write_tuned,
    "table.parquet": write_table,
    "value.json": lambda path: store.write_json(path, {"x": "y" * BIG}),
    "part.checked": lambda path: write_checked(path, bytes(BIG)),
    "pool.txt": lambda path: write_pool(path, ["x" * BIG]),
}
FOLDERS, FILES = ("features.zarr", "tuned"), ("table.parquet", "value.json", "part.checked", "pool.txt")


@pytest.mark.parametrize("before", [False, True], ids=["new", "old"])
@pytest.mark.parametrize("fault", ["full", "nearly_full", "read_only"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_failed_write_is_one_line_and_keeps_the_old_file(disk: Disk, name: str, fault: str, before: bool) -> None:
    path = disk.folder / "run" / name
    if before:
        path.parent.mkdir()
        if name in FOLDERS:
            path.mkdir()
            (path / "old").write_text("old")
        else:
            path.write_text("old")
    disk.spoil(fault)
    with pytest.raises(StorageError) as error:
        WRITERS[name](path)
    text = str(error.value)
    assert str(path.parent) in text
    assert text.isprintable()
    assert ("Read-only file system" if fault == "read_only" else "No space left on device") in text
    assert "then run it again: what was finished before is kept" in text
    if before:
        assert (path / "old" if path.is_dir() else path).read_text() == "old"
    if path.parent.is_dir():
        assert sorted(file.name for file in path.parent.iterdir()) == ([name] if before or path.is_dir() else [])


# ------------------------------------------------------------------------------------------ things in the way


@pytest.mark.parametrize("name", FILES)
def test_a_folder_is_never_removed_for_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").write_text("mine")
    with pytest.raises(StorageError, match="is a folder, expected a file; give the name of a file"):
        WRITERS[name](tmp_path / name)
    assert (tmp_path / name / "mine").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_instead_of_a_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(StorageError, match=r"run.*; (move the file away|check that path)"):
        WRITERS[name](tmp_path / "run" / name)
    assert (tmp_path / "run").read_text() == "mine"


# --------------------------------------------------------------------------------------------------------- stages


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files: dict[str, str]) -> Path:
    """A miniature run with only the source's manifest."""
    project = Project(tmp_path_factory.mktemp("started"), encoder=tiny_encoder_files)
    for stage in (("code",), ("prepare", "photo")):
        assert run(project.folder, stage)[0] == 0
    return project.folder


@pytest.fixture
def copy(started: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(started, tmp_path / "run", ignore=shutil.ignore_patterns(".git"), symlinks=True))


def error_on_a_bad_disk(folder: Path, place: str, stage: Stage, fault: str) -> str:
    """The error of a stage when one folder of the run is on a disk that takes nothing more."""
    aside = folder / "aside"
    shutil.move(folder / place, aside) if (folder / place).exists() else aside.mkdir()
    disk = Disk(folder / place, kib=64_000)
    try:
        shutil.copytree(aside, folder / place, dirs_exist_ok=True)
        disk.spoil(fault)
        error = refused(folder, stage)
    finally:
        disk.umount()
    assert ("Read-only file system" if fault == "read_only" else "No space left on device") in error
    assert place in error
    return error


@pytest.mark.parametrize(
    ("place", "stage", "fault"),
    [
        ("artifacts", ("fewshot",), "full"),
        ("artifacts", ("fewshot",), "read_only"),
        (".cache", ("candidates",), "read_only"),
    ],
)
def test_a_stage_on_a_bad_disk(copy: Path, place: str, stage: Stage, fault: str) -> None:
    error_on_a_bad_disk(copy, place, stage, fault)


@pytest.mark.parametrize("link", ["artifacts", "reports", "artifacts/manifests", "artifacts/pools"])
def test_a_linked_folder_is_refused_before_the_work(copy: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(copy / link, ignore_errors=True)
    (copy / link).parent.mkdir(exist_ok=True)
    (copy / link).symlink_to(tmp_path / "elsewhere")
    assert f"{link} is a symbolic link to a folder" in refused(copy, ("candidates",))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_files_that_grow_too_large(copy: Path) -> None:
    command = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)); sys.argv[:] = sys.argv[1:]; "
        "sys.path.insert(0, ''); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(copy / "stages/candidates.py")],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "File too large; raise the limit on the size of files" in done.stderr


@pytest.fixture
def finished(project: Project, tmp_path: Path) -> Path:
    """A finished run without its resume state."""
    ignored = shutil.ignore_patterns(".git", ".cache")
    return Path(shutil.copytree(project.folder, tmp_path / "run", ignore=ignored))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["full", "read_only"])
@pytest.mark.parametrize("stage", [*FIRST, *LONG, *REST], ids="@".join)
def test_every_stage_with_its_outs_on_a_bad_disk(finished: Path, stage: Stage, fault: str) -> None:
    error_on_a_bad_disk(finished, "reports" if stage[0] == "report" else "artifacts", stage, fault)


@pytest.mark.slow
def test_the_page_never_replaces_a_folder(project: Project, tmp_path: Path) -> None:
    for name, answer in (("photos", "must end in .html"), ("photos.html", "exists already")):
        mine = tmp_path / name
        mine.mkdir()
        (mine / "mine.jpg").write_text("mine")
        printed = project.run("wsoup", "report", "--out", str(mine), good=False)
        assert answer in printed
        assert [path.name for path in mine.iterdir()] == ["mine.jpg"]
