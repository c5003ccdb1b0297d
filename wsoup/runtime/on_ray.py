"""Shards on a Ray cluster: one box with several GPUs, or many nodes. Chosen by ``WSOUP_EXECUTOR=ray``.

The task, with the small inputs that it holds (pools, the source's features), goes through Ray's object store once; an
encoder travels as what it was loaded from, and each worker loads it once. Workers read images from the same places as
the driver, and return arrays; only the driver writes. At most `AHEAD` shards a worker are under way, so that a million
of them do not fill the object store.

``RAY_ADDRESS`` names a cluster (``auto``: the one on this machine); without it one is started on this machine for the
time of the stage. ``WSOUP_RAY_GPUS`` and ``WSOUP_RAY_CPUS`` say what one worker takes: by default one GPU where the
cluster has any, and as many CPUs as this process has threads, so that sums are added in the same order as here.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from wsoup.core.errors import WsoupError
from wsoup.runtime import progress as bars
from wsoup.runtime.process import add_spent, keep_memory, number_in, take_spent

AHEAD = 2
"""Shards given to a worker at a time: one that it works on, one that waits."""
TRIES = 3
"""How many workers one shard may cost before it is taken to be the reason."""
START_SECONDS = 600.0
"""How long the first worker may take to start and load its model."""

Key = tuple[int, int]
Task = Callable[[int, int], Mapping[str, np.ndarray]]


class Worker:
    """What runs on a node: it loads the task once, and does one shard after the other."""

    def __init__(self, folder: str, variables: Mapping[str, str]) -> None:
        if os.path.isdir(folder):  # relative paths mean the same as for the driver where the folder is shared
            os.chdir(folder)
        os.environ.update(variables)
        bars.silence()
        keep_memory()

    def load(self, task: Any) -> str:
        """Keep the task; the name of this node."""
        import ray

        self.task = ray.cloudpickle.loads(task)
        return str(ray.util.get_node_ip_address())

    def do(self, key: Key) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """One shard, and what it took (`wsoup.runtime.process.take_spent`)."""
        return dict(self.task(*key)), take_spent()


def run(task: Task, keys: Sequence[Key], *, label: str) -> Iterator[tuple[Key, Mapping[str, np.ndarray]]]:
    """Do all shards on the cluster; yields them as they are finished.

    Raises:
        WsoupError: Ray is not installed, no worker can be started, a worker cannot load the task, a shard crashed
            `TRIES` workers, or what the task itself raises. Everything yielded before is safe with the caller.
    """
    ray = _connected()
    pool = _Pool(ray, task=task, most=len(keys), label=label)
    try:
        yield from pool.work(keys)
    finally:
        pool.stop()


def _connected() -> Any:
    """The module ray, connected to a cluster; a local one has no dashboard, and none sends usage statistics."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise WsoupError("WSOUP_EXECUTOR=ray needs Ray: pip install 'wsoup[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        local: dict[str, Any] = {} if address else {"include_dashboard": False}
        try:
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())[:300]
            raise WsoupError(f"RAY_ADDRESS={address}: no Ray cluster can be reached ({reason})") from None
    return ray


class _Pool:
    """Workers of one task. A lost one is replaced as long as the cluster has room; the others go on meanwhile."""

    def __init__(self, ray: Any, *, task: Task, most: int, label: str) -> None:
        self.ray, self.label = ray, label
        self.gpus, self.cpus, self.threads = _worker_size(ray)
        self.task = ray.put(ray.cloudpickle.dumps(task))
        self.most = max(1, min(most, _room(ray.cluster_resources(), gpus=self.gpus, cpus=self.cpus)))
        self.workers: dict[Any, str] = {}  # actor -> node
        self.starting: dict[Any, Any] = {}  # future of load -> actor
        self.running: dict[Any, tuple[Any, Key]] = {}  # future of a shard -> (actor, key)

    def work(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Mapping[str, np.ndarray]]]:
        waiting, lost = deque(keys), dict.fromkeys(keys, 0)
        for _ in range(self.most):
            self._start()
        while waiting or self.running:
            self._give(waiting)
            ready, _ = self.ray.wait([*self.starting, *self.running], num_returns=1, timeout=START_SECONDS)
            if not ready and not self.running:
                raise WsoupError(
                    f"{self.label}: no worker with {self.cpus} CPUs and {self.gpus} GPUs could be started in "
                    f"{START_SECONDS:.0f} s; lower WSOUP_RAY_CPUS or WSOUP_RAY_GPUS, or add nodes"
                )
            for future in ready:
                if future in self.starting:
                    self._started(future)
                    continue
                if future not in self.running:
                    continue  # of a worker that went while this loop looked at its other shard
                actor, key = self.running[future]
                try:
                    arrays, took = self.ray.get(future)
                except self.ray.exceptions.RayTaskError as error:
                    raise self._of_task(error) from None
                except self.ray.exceptions.RayError as error:  # the worker or its node is gone
                    self._replace(actor, waiting=waiting, lost=lost, error=error)
                    continue
                del self.running[future]
                add_spent(took)
                yield key, arrays

    def _give(self, waiting: deque[Key]) -> None:
        """Give every worker that is there up to `AHEAD` shards."""
        busy = dict.fromkeys(self.workers, 0)
        for actor, _ in self.running.values():
            busy[actor] = busy.get(actor, 0) + 1
        for actor in sorted(self.workers, key=lambda a: busy[a]):
            while waiting and busy[actor] < AHEAD:
                key = waiting.popleft()
                self.running[actor.do.remote(key)] = actor, key
                busy[actor] += 1

    def _start(self) -> None:
        variables = {k: v for k, v in os.environ.items() if k.startswith("WSOUP_") and k != "WSOUP_EXECUTOR"}
        python_path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        remote = self.ray.remote(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            runtime_env={"env_vars": {"PYTHONPATH": python_path, "OMP_NUM_THREADS": str(self.threads)}},
        )(Worker)
        actor = remote.remote(os.getcwd(), variables)
        self.starting[actor.load.remote(self.task)] = actor

    def _started(self, future: Any) -> None:
        actor = self.starting.pop(future)
        try:
            self.workers[actor] = self.ray.get(future)
        except self.ray.exceptions.RayTaskError as error:
            raise self._of_task(error) from None
        except self.ray.exceptions.RayError as error:
            if not (self.workers or self.starting):
                raise WsoupError(f"{self.label}: no worker can be started ({_short(error)})") from None

    def _replace(self, actor: Any, *, waiting: deque[Key], lost: dict[Key, int], error: Exception) -> None:
        """A worker is gone: its shards wait again, and another worker is started."""
        node = self.workers.pop(actor)
        mine = [(future, key) for future, (who, key) in self.running.items() if who == actor]  # in the order given
        for future, key in reversed(mine):
            del self.running[future]
            waiting.appendleft(key)
        working_on = mine[0][1]
        lost[working_on] += 1
        full = "out of memory" in str(error).lower()  # Ray ends the worker that takes most, before the system does
        why = "out of memory" if full else f"{_short(error)}; too little memory?"
        if lost[working_on] >= TRIES:
            raise WsoupError(
                f"{self.label}: shard {working_on[1]} crashed its worker {TRIES} times, last on node {node} ({why}). "
                "Finished shards are kept: raise WSOUP_RAY_CPUS, so that fewer workers share a node, and run again"
            )
        gone = " (out of memory)" if full else ""
        print(f"{self.label}: a worker on node {node} is gone{gone}; its shards are given to others", file=sys.stderr)
        self._start()

    def _of_task(self, error: Any) -> BaseException:
        """What the task raised, with the node where it did."""
        cause = error.cause if isinstance(getattr(error, "cause", None), WsoupError) else None
        ip = re.search(r"\bip=([0-9a-f.:]+)", str(error))
        where = f"node {ip[1] if ip else 'unknown'}"
        return type(cause)(f"{where}: {cause}") if cause is not None else WsoupError(f"{where}: {_short(error)}")

    def stop(self) -> None:
        """End all workers; the cluster stays."""
        for actor in [*self.workers, *self.starting.values()]:
            self.ray.kill(actor)


def _worker_size(ray: Any) -> tuple[float, float, int]:
    """GPUs, CPUs and threads of one worker."""
    import torch

    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    gpus = number_in("WSOUP_RAY_GPUS", 1.0 if has_gpus else 0.0)
    cpus = number_in("WSOUP_RAY_CPUS", 1.0 if has_gpus else float(torch.get_num_threads()))
    return gpus, cpus, max(1, int(cpus)) if "WSOUP_RAY_CPUS" in os.environ or has_gpus else torch.get_num_threads()


def _room(resources: Mapping[str, float], *, gpus: float, cpus: float) -> int:
    """How many workers a cluster has room for."""
    rooms = [resources.get(name, 0.0) / size for name, size in (("GPU", gpus), ("CPU", cpus)) if size > 0]
    return int(min(rooms)) if rooms else 1


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
