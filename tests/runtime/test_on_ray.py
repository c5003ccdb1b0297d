"""Shards on a real Ray cluster of two nodes: the same bytes whatever is killed, or an error of one line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from project import ROOT, Project

from wsoup.base.errors import MismatchError, ModelError, ParamsError, WsoupError
from wsoup.disk import code
from wsoup.disk.shards import Owner, Shard
from wsoup.runtime.work import finish_shards

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # about Ray's own files and sockets
THREADS = os.environ.get("OMP_NUM_THREADS", "2")
"""Of a worker and of this process: the order of sums depends on it."""
ONE_WORKER = {"num_cpus": int(THREADS), "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes on this machine with room for one worker each."""
    from ray.cluster_utils import Cluster

    two_nodes = Cluster(initialize_head=True, head_node_args={**ONE_WORKER, "include_dashboard": False})
    two_nodes.add_node(**ONE_WORKER)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    yield two_nodes
    ray.shutdown()
    two_nodes.shutdown()


@pytest.fixture(autouse=True)
def on_ray(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use that cluster, with as many threads per worker as here."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"EXECUTOR": "ray", "RAY_CPUS": THREADS, "CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(f"WSOUP_{name}", value)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


def square(shard: int) -> bytes:
    return str(shard**2).encode()


def killed_once(folder: Path, shard: int) -> bytes:
    """`square`, but the first worker that computes 2 kills itself."""
    marker = folder / "killed"
    if shard == 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(shard)


def finished(task: Any, *, n: int, name: str = "test") -> list[int]:
    return [int(part) for part in finish_shards(shards_of(task, n=n, name=name), label=name, unit="shard")]


def shards_of(task: Any, *, n: int, name: str) -> list[Shard]:
    owner = Owner(name, "1", {})
    return [Shard(owner, i, partial(task, i)) for i in range(n)]


def test_shards_come_back_in_any_order_and_no_usage_statistics_are_sent(monkeypatch):
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    assert finished(square, n=9) == [i**2 for i in range(9)]
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_killed_worker_is_replaced(tmp_path, capsys):
    assert finished(partial(killed_once, tmp_path), n=6) == [i**2 for i in range(6)]
    assert "a worker is gone (" in capsys.readouterr().err


def test_work_continues_without_a_lost_node(cluster, tmp_path):
    node = cluster.add_node(**ONE_WORKER)
    cluster.wait_for_nodes()

    def slow(shard: int) -> bytes:
        (tmp_path / f"begun-{shard}").touch()
        time.sleep(0.3)
        return square(shard)

    from wsoup.runtime import on_ray

    results = {}
    for i, payload in on_ray.run([partial(slow, i) for i in range(12)], label="lost"):
        results[i] = int(payload)
        if len(results) == 4:
            cluster.remove_node(node)
    assert results == {i: i**2 for i in range(12)}


def test_a_shard_that_crashes_every_worker_is_named_and_the_others_are_kept():
    def deadly(shard: int) -> bytes:
        if shard == 3:
            time.sleep(0.5)  # the others are finished by then
            os.kill(os.getpid(), signal.SIGKILL)
        return square(shard)

    with pytest.raises(WsoupError, match=r"deadly: shard 3 crashed its worker 3 times") as raised:
        finished(deadly, n=4, name="deadly")
    assert "\n" not in str(raised.value)
    assert missing(shards_of(deadly, n=4, name="deadly")) == [3]


def missing(shards: list[Shard]) -> list[int]:
    return [i for i, shard in enumerate(shards) if not shard.done()]


DRIVER = """
import time
from functools import partial
from wsoup.disk.shards import Owner, Shard
from wsoup.runtime.work import finish_shards

def task(shard):
    time.sleep(0.2)
    return str(shard**2).encode()

owner = Owner("driven", "1", {})
finish_shards([Shard(owner, i, partial(task, i)) for i in range(40)], label="x", unit="shard")
"""


def test_a_restarted_driver_computes_only_the_missing_shards(tmp_path):
    def noted(shard: int) -> bytes:
        (tmp_path / f"again-{shard}").touch()
        return square(shard)

    shards = shards_of(noted, n=40, name="driven")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        while not (shards[2].path.exists() and shards[3].path.exists()):
            assert driver.poll() is None
            time.sleep(0.01)
    finally:
        driver.kill()
        driver.wait()
    left = missing(shards)
    assert 0 < len(left) <= 37
    finished = finish_shards(shards, label="driven", unit="shard")
    done_again = sorted(int(path.name.partition("-")[2]) for path in tmp_path.glob("again-*"))
    assert done_again == left
    assert [int(part) for part in finished] == [i**2 for i in range(40)]


TERMINATED = """
from wsoup.runtime.ending import INTERRUPTED, interruptible

try:
    with interruptible():
        {driver}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise SystemExit(INTERRUPTED)
"""


def test_a_terminated_driver_ends_in_its_own_words(tmp_path):
    """Ray's own handler of SIGTERM prints its stack and aborts."""
    indented = textwrap.indent(DRIVER.replace("driven", "ended"), " " * 8).strip()
    shards = shards_of(square, n=1, name="ended")
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINATED.format(driver=indented)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not shards[0].path.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "interrupted\n")
    assert "SIGTERM received" not in errors


def test_few_shards_are_under_way_while_the_driver_is_slow(tmp_path):
    """So a million shards do not fill the object store: each of two workers has one at work and one that waits."""
    from wsoup.runtime import on_ray

    def noted(shard: int) -> bytes:
        (tmp_path / f"begun-{shard}").touch()
        return square(shard)

    finished = on_ray.run([partial(noted, i) for i in range(30)], label="many")
    for taken in range(1, 5):
        next(finished)
        time.sleep(0.2)  # a driver that is slow to write
        assert len(list(tmp_path.glob("begun-*"))) <= taken + 2 * on_ray.AHEAD
    assert len(list(finished)) == 26


HUNGRY = """
import os, sys, time
from pathlib import Path
from functools import partial
import numpy as np
from ray._private.utils import get_system_memory, get_used_memory
from wsoup.disk.shards import Owner, Shard
from wsoup.runtime.work import finish_shards

os.environ["RAY_memory_usage_threshold"] = str((get_used_memory() + 2 * 2**30) / get_system_memory())
os.environ["RAY_memory_monitor_refresh_ms"] = "50"
first, always = Path("first"), sys.argv[1] == "always"

def task(shard):
    if shard == 2 and (always or not first.exists()):
        first.touch()
        held = []
        for _ in range(60):  # 3.75 GiB
            held.append(np.ones(2**26 // 8))
            time.sleep(0.05)
    return str(shard**2).encode()

owner = Owner("hungry", "1", {})
shards = [Shard(owner, i, partial(task, i)) for i in range(5)]
print([int(part) for part in finish_shards(shards, label="hungry", unit="shard")])
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["once", "always"])
def test_a_worker_out_of_memory(tmp_path, how):
    """On its own cluster, which kills workers once 2 GiB more are in use than now."""
    variables = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    variables |= {"PYTHONPATH": str(ROOT), "WSOUP_RAY_CPUS": "1"}
    command = [sys.executable, "-c", HUNGRY, how]
    ended = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "hungry: a worker is gone (out of memory); its shards are given to others" in ended.stderr
    if how == "once":
        assert (ended.returncode, ended.stdout) == (0, "[0, 1, 4, 9, 16]\n"), ended.stderr
    else:
        assert "hungry: shard 2 crashed its worker 3 times, last as out of memory. Finished" in ended.stderr
        left = missing(shards_of(square, n=5, name="hungry"))
        assert left[0] == 2  # and perhaps those that waited behind it


@pytest.mark.slow
def test_a_local_cluster_has_no_dashboard_and_follows_the_affinity():
    look = "import ray; print([ray._private.worker._global_node.webui_url, ray.cluster_resources()['CPU']])"
    alone = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n{DRIVER}\n{look}"],
        env={**alone, "PYTHONPATH": str(ROOT), "WSOUP_RAY_CPUS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in ("['', 1.0]", "[None, 1.0]"), "and as many CPUs as the process may use"


class Unloadable:
    """Stands for an encoder whose weights are missing on a node."""

    def __call__(self, shard: int) -> bytes:
        return square(shard)

    def __reduce__(self) -> tuple[Any, ...]:
        return _cannot, ()


def _cannot() -> None:
    raise ModelError("encoder.pretrained: weights file x.safetensors does not exist")


def test_a_worker_that_cannot_load_the_model_names_its_node():
    with pytest.raises(WsoupError, match=r"^node [\d.]+: .*weights file x.safetensors does not exist"):
        finished(Unloadable(), n=2, name="unloadable")


def test_an_error_of_the_task_keeps_its_type_and_names_the_node():
    def refused(shard: int) -> bytes:
        raise ParamsError("k0 is wrong")

    with pytest.raises(ParamsError, match=r"^node [\d.]+: k0 is wrong$"):
        finished(refused, n=2, name="refused")


def test_a_worker_with_other_packages_is_refused(monkeypatch):
    monkeypatch.setattr(code, "installed", lambda: {"numpy": "1.0"})  # where the run is started
    with pytest.raises(MismatchError, match=r"^node [\d.]+: .*numpy [\d.]+ is installed, not 1\.0.*on all nodes$"):
        finished(square, n=2, name="other")


def test_an_unknown_executor(monkeypatch):
    monkeypatch.setenv("WSOUP_EXECUTOR", "slurm")
    with pytest.raises(ParamsError, match="WSOUP_EXECUTOR=slurm: must be one of here, ray"):
        finished(square, n=1)


def test_the_bar_of_images_moves_by_the_workers_shards(capsys):
    shards = [Shard(Owner("sized", "1", {}), i, partial(square, i), size=20) for i in range(3)]
    finish_shards(shards, label="sized", unit="image", ticks=True)
    assert "60/60" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stage", "item", "out"),
    [("score", "words", "scores/words.parquet"), ("soup", "word", "soups/word"), ("finetune", "ce", "finetuned/ce")],
)
def test_stages_on_two_nodes_give_the_bytes_of_one_process(project: Project, cluster, tmp_path, stage, item, out):
    folder = tmp_path / "project"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns(".git", ".cache", "tmp"))
    before = contents(folder / "artifacts" / out)
    shutil.rmtree(folder / "artifacts" / out, ignore_errors=True)
    elsewhere = object.__new__(Project)
    elsewhere.folder = folder
    printed = elsewhere.run("python", "stages", stage, item)
    assert contents(folder / "artifacts" / out) == before, printed


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {file.name if file == path else str(file.relative_to(path)): file.read_bytes() for file in files}
