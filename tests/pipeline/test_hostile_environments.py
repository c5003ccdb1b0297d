"""Stages make the same bytes however they are started: locales, permissions, clocks, switches of Python."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import run_stage
from project import ROOT, write_miniature

from wsoup.disk import code
from wsoup.pipeline import packages

CHAIN = "prepare:photo prepare:other candidates fewshot embed_train score:words score:descriptors soup:word"
RUN = """
import os, runpy, sys
for stage in sys.argv.pop(1).split():
    name, _, item = stage.partition(":")
    sys.argv[1:] = [item] if item else []
    os.environ["DVC_STAGE"] = stage.replace(":", "@")
    runpy.run_module(f"stages.{name}", run_name="__main__", alter_sys=True)
"""
VARIABLES: dict[str, dict[str, str | None]] = {
    "locale_C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "locale_of_nowhere": {"LC_ALL": "xx_YY.UTF-8", "LANG": "zz"},
    "ascii_streams": {"PYTHONIOENCODING": "ascii"},
    "hash_seed": {"PYTHONHASHSEED": "12345"},
    "no_home": {"HOME": None, "XDG_CACHE_HOME": None},
    "home_is_nowhere": {"HOME": "/nowhere"},
    "no_path": {"PATH": ""},
    "temporary_folder_is_nowhere": {"TMPDIR": "/nowhere"},
    "time_zone": {"TZ": "Pacific/Kiritimati"},
    "time_zone_of_nowhere": {"TZ": ":x/y"},
    "no_bytecode": {"PYTHONDONTWRITEBYTECODE": "1"},
    "narrow_terminal": {"COLUMNS": "1", "LINES": "1", "TERM": "dumb"},
    "no_terminal": {"TERM": None},
    "one_thread": {"OMP_NUM_THREADS": "1"},
    "three_threads": {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"},
    "no_threads": {"OMP_NUM_THREADS": "0"},
    "device_named": {"WSOUP_DEVICE": "cpu"},
    "no_workers": {"WSOUP_WORKERS": "0"},
    "many_workers": {"WSOUP_WORKERS": "5"},
    "own_malloc": {"MALLOC_ARENA_MAX": "1"},
    "own_cache": {"WSOUP_CACHE": "elsewhere/cache"},
    "proxy": {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
    "offline": {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"},
}
SWITCHES = ["-O", "-OO", "-B", "-u", "-X utf8=0", "-X dev", "-W default", "-I"]
SEVERAL = "several_at_once"
"""An old locale, another hash seed, another time zone, `-O` and a strict umask together."""
VARIABLES[SEVERAL] = {**VARIABLES["locale_C"], **VARIABLES["hash_seed"], **VARIABLES["time_zone"]}
LONG = {SEVERAL, "clock_goes_back"}
"""Marked long; the others, which change one thing at a time, take minutes in all, and are slow."""


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in (folder / "artifacts").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def run(folder: Path, *switches: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """Run the stages in one process, started as from a user's shell."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WSOUP_CACHE")}
    environment = {key: value for key, value in {**environment, **variables}.items() if value is not None}
    command = [sys.executable, *switches, "-c", f"import sys; sys.path.insert(0, '.')\n{RUN}", CHAIN]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run_plainly(folder: Path, chain: list[str]) -> None:
    """Run the same stages, each in its own process."""
    for stage in chain:
        run_stage(folder, *stage.split(":"), root=folder, DVC_STAGE=stage.replace(":", "@"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files: dict[str, str]) -> Path:
    """A miniature before its first run."""
    folder = tmp_path_factory.mktemp("environments") / "start"
    for name in ("stages", "wsoup", "data"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "world", "encoder"))
    shutil.copy(ROOT / "dvc.yaml", folder)
    (folder / packages.VERSIONS).write_text(packages.versions_yaml(code.installed()))
    write_miniature(folder, encoder=tiny_encoder_files)
    run_stage(folder, "code", root=folder)
    return folder


@pytest.fixture(scope="module")
def expected(start: Path) -> dict[str, str]:
    """Digests after a plain run."""
    folder = Path(shutil.copytree(start, start.with_name("plain")))
    run_plainly(folder, CHAIN.split())
    assert len(digests(folder)) > 10
    return digests(folder)


def umask_077(folder: Path) -> Callable[[], object]:
    before = os.umask(0o077)
    return lambda: os.umask(before)


def read_only_home(folder: Path) -> Callable[[], object]:
    home = folder.with_name(f"{folder.name}-home")
    home.mkdir(mode=0o555)
    os.environ["HOME"], before = str(home), os.environ.get("HOME", "")
    return lambda: os.environ.update(HOME=before)


def times(seconds: float) -> Callable[[Path], Callable[[], object]]:
    """Set the modification time of every file."""

    def change(folder: Path) -> Callable[[], object]:
        for path in folder.rglob("*"):
            os.utime(path, (seconds, seconds))
        return lambda: None

    return change


def clock_goes_back(folder: Path) -> Callable[[], object]:
    """Half of the stages ran tomorrow, by a clock that was corrected since."""
    run_plainly(folder, CHAIN.split()[:5])
    return times(time.time() + 86_400)(folder)


def permissions(mode: int, *names: str) -> Callable[[Path], Callable[[], object]]:
    """Set the permissions of folders; their files are read-only."""

    def change(folder: Path) -> Callable[[], object]:
        for name in names:
            for path in [*(folder / name).rglob("*"), folder / name]:
                path.chmod(mode if path.is_dir() else 0o444)
        return lambda: [path.chmod(0o755) for path in [folder / name for name in names]]

    return change


def strange_files(folder: Path) -> Callable[[], object]:
    """Leftovers of editors, desktops and killed processes."""
    (folder / ".cache/wsoup").mkdir(parents=True)
    (folder / "artifacts").mkdir()
    for name in ("photo/.DS_Store", "photo/train/Thumbs.db", "artifacts/.x.0123456789ab.tmp", ".cache/wsoup/x", "core"):
        (folder / name).write_bytes(b"\0")
    return lambda: None


PREPARED: dict[str, Callable[[Path], Callable[[], object]]] = {
    SEVERAL: umask_077,
    "umask_077": umask_077,
    "read_only_home": read_only_home,
    "clock_goes_back": clock_goes_back,
    "files_of_1970": times(0),
    "files_before_1970": times(-86_400),
    "files_of_2100": times(4_102_444_800),
    "read_only_images": permissions(0o555, "photo", "other", "dim"),
    "read_only_code": permissions(0o555, "wsoup", "stages"),
    "strange_files": strange_files,
}
NAMES = ["a b", "Größe", "$(touch x)", "a'b\"c", "-rf", "\u202e", "a\nb", "%s{}", "日本", "x" * 200]
CASES = [
    *((name, name in LONG) for name in dict.fromkeys([*VARIABLES, *SWITCHES, *PREPARED])),
    *((f"folder {name!a}", False) for name in NAMES),
]


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.long if long else pytest.mark.slow, id=name) for name, long in CASES]
)
def test_the_outs_are_the_same(start: Path, expected: dict[str, str], tmp_path: Path, case: str) -> None:
    names = {f"folder {name!a}": name for name in NAMES}
    folder = Path(shutil.copytree(start, tmp_path / names.get(case, "run")))
    switches = {SEVERAL: ["-O"], **{switch: switch.split() for switch in SWITCHES}}
    undo = PREPARED.get(case, times(time.time()))(folder)
    try:
        ran = run(folder, *switches.get(case, []), **VARIABLES.get(case, {}))
    finally:
        undo()
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert digests(folder) == expected
