"""Shards on a Ray cluster: one machine with several GPUs, or many nodes. Chosen by ``WSOUP_EXECUTOR=ray``.

All tasks, with the small inputs that they share (pools, the source's features), go through Ray's object store once; an
encoder is sent as the files it was loaded from, and each worker loads it once. Workers read images from the same paths
as the driver and return bytes; only the driver writes. Each worker is given at most `AHEAD` shards at a time, so that
a million of them do not fill the object store.

``RAY_ADDRESS`` names a cluster (``auto``: the one on this machine); without it one is started on this machine for the
duration of the stage. ``WSOUP_RAY_GPUS`` and ``WSOUP_RAY_CPUS`` set the resources of one worker: by default one GPU if
the cluster has any, and as many CPUs as this process has threads, so that sums are added in the same order as here.
"""

import logging
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from wsoup.base.errors import MismatchError, WsoupError
from wsoup.disk import code
from wsoup.disk.files import reason_of
from wsoup.runtime.ending import keeping_handlers
from wsoup.runtime.environment import number_in
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.threads import cores

Actor: TypeAlias = Any
"""Ray's handle on a `Worker`."""
Future: TypeAlias = Any
"""Ray's handle on what an actor will return."""
AHEAD = 2
"""Shards given to a worker at a time: one that it works on, one that waits."""
TRIES = 3
"""Workers that a shard may crash before it is an error."""
START_SECONDS = 600.0
"""Time limit for the first worker to start and load its model."""


class Worker:
    """Runs on a node: loads the tasks once, then computes shards."""

    def __init__(self, folder: str, variables: Mapping[str, str]) -> None:
        if os.path.isdir(folder):  # where the folder is shared, relative paths mean the same as for the driver
            os.chdir(folder)
        os.environ.update(variables)
        keep_memory()

    def load(self, tasks: bytes, made_with: Mapping[str, str]) -> None:
        """Keep the tasks. MismatchError if this node's wsoup or packages are others."""
        import ray

        differing = code.differing(_made_with(), made_with)
        if differing:
            raise MismatchError(f"{', '.join(differing)}; install what the run was started with on all nodes")

        self.tasks = ray.cloudpickle.loads(tasks)

    def do(self, number: int) -> bytes:
        """The result of one task."""
        return self.tasks[number]()


def _made_with() -> dict[str, str]:
    """What decides numbers: a digest of this wsoup, and versions of packages."""
    return {"wsoup": code.digest(code.library()), **code.installed()}


def run(tasks: Sequence[Callable[[], bytes]], *, label: str) -> Iterator[tuple[int, bytes]]:
    """Run all tasks on the cluster; yields the number and result of each one as it is finished.

    Raises:
        WsoupError: Ray is not installed, no worker can be started, a worker cannot load the tasks, a shard crashed
            `TRIES` workers, or what a task itself raises.
    """
    ray = _connected()
    pool = _Pool(ray, tasks=tasks, label=label)
    try:
        yield from pool.work()
    finally:
        pool.stop()


def _connected() -> ModuleType:
    """The module ray, connected to a cluster; without a dashboard if local, and without usage statistics."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise WsoupError("WSOUP_EXECUTOR=ray needs Ray: pip install ray") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        options: dict[str, Any] = {"address": address}
        if not address:
            # Ray itself would count cores that this process may not use.
            options = {"address": "local", "include_dashboard": False, "num_cpus": cores()}
        try:
            with keeping_handlers():
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise WsoupError(f"RAY_ADDRESS={address}: no Ray cluster can be reached ({reason_of(error)})") from None
    return ray


class _Pool:
    """Workers of one list of tasks. A lost worker is replaced as long as the cluster has room; the others continue."""

    def __init__(self, ray: ModuleType, *, tasks: Sequence[Callable[[], bytes]], label: str) -> None:
        self.ray = ray
        self.label = label
        self.gpus, self.cpus, self.threads = _worker_size(ray)
        self.tasks = ray.put(ray.cloudpickle.dumps(tasks))
        room = _room(ray.cluster_resources(), gpus=self.gpus, cpus=self.cpus)
        self.size = max(1, min(len(tasks), room))
        self.waiting = deque(range(len(tasks)))
        self.workers: set[Actor] = set()  # actors that have loaded the tasks
        self.running: dict[Future, tuple[Actor, int | None]] = {}  # what each does: a shard, or None while it loads
        self.crashes: Counter[int] = Counter()

    def work(self) -> Iterator[tuple[int, bytes]]:
        for _ in range(self.size):
            self._start()
        while self.waiting or self._computing():
            self._assign()
            # A shard may take hours; a worker that has not begun by now never will.
            timeout = None if self.workers else START_SECONDS
            ready, _ = self.ray.wait([*self.running], num_returns=1, timeout=timeout)
            if not ready:
                raise WsoupError(
                    f"{self.label}: no worker with {self.cpus} CPUs and {self.gpus} GPUs could be started in "
                    f"{START_SECONDS:.0f} s; lower WSOUP_RAY_CPUS or WSOUP_RAY_GPUS, or add nodes"
                )
            (future,) = ready
            actor, number = self.running[future]
            try:
                payload = self.ray.get(future)
            except self.ray.exceptions.RayTaskError as error:
                raise _task_error(error) from None
            except self.ray.exceptions.RayError as error:  # the worker or its node is gone
                self._replace(actor, why=_short(error))
                continue
            del self.running[future]
            if number is None:
                self.workers.add(actor)
            else:
                yield number, payload

    def _computing(self) -> bool:
        """Whether any worker has a shard."""
        return any(number is not None for _, number in self.running.values())

    def _assign(self) -> None:
        """Give every worker up to `AHEAD` shards."""
        load = Counter(actor for actor, _ in self.running.values())
        # Those with the least work first, so that the last shards spread over all.
        for actor in sorted(self.workers, key=lambda actor: load[actor]):
            while self.waiting and load[actor] < AHEAD:
                number = self.waiting.popleft()
                self.running[actor.do.remote(number)] = actor, number
                load[actor] += 1

    def _start(self) -> None:
        variables = {}
        for name, value in os.environ.items():
            # A worker that had WSOUP_EXECUTOR=ray would start a cluster of its own.
            if name.startswith("WSOUP_") and name != "WSOUP_EXECUTOR":
                variables[name] = value
        python_path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        before_imports = {"PYTHONPATH": python_path, "OMP_NUM_THREADS": str(self.threads)}
        configure = self.ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, runtime_env={"env_vars": before_imports})
        actor = configure(Worker).remote(os.getcwd(), variables)
        loading = actor.load.remote(self.tasks, _made_with())
        self.running[loading] = actor, None

    def _replace(self, actor: Actor, *, why: str) -> None:
        """Put the shards of a lost worker back in the queue, and start another worker."""
        lost: list[int | None] = []  # in their order, which is that of their futures
        running = {}
        for future, (other, number) in self.running.items():
            if other == actor:
                lost.append(number)
            else:
                running[future] = other, number
        self.running = running
        if lost[0] is None:  # it could not be started
            if not self.running:
                raise WsoupError(f"{self.label}: no worker can be started ({why})")
            return
        self.workers.remove(actor)
        self.waiting.extendleft(shard for shard in reversed(lost) if shard is not None)
        # The first is the one that the worker was busy with; the others only waited.
        self.crashes[lost[0]] += 1
        if self.crashes[lost[0]] >= TRIES:
            raise WsoupError(
                f"{self.label}: shard {lost[0]} crashed its worker {TRIES} times, last as {why}. Finished shards are "
                "kept: raise WSOUP_RAY_CPUS, so that fewer workers share a node, and run again"
            )
        print(f"{self.label}: a worker is gone ({why}); its shards are given to others", file=sys.stderr)
        self._start()

    def stop(self) -> None:
        """End all workers; the cluster stays."""
        loading = {actor for actor, _ in self.running.values()}
        for actor in self.workers | loading:
            self.ray.kill(actor)


def _task_error(error: BaseException) -> BaseException:
    """A task's own error, with the node where it was raised."""
    ip = re.search(r"\bip=([0-9a-f.:]+)", str(error))
    node = ip[1] if ip else "unknown"
    cause = getattr(error, "cause", None)
    if isinstance(cause, WsoupError):
        return type(cause)(f"node {node}: {cause}")
    return WsoupError(f"node {node}: {_short(error)}")


def _worker_size(ray: ModuleType) -> tuple[float, float, int]:
    """GPUs, CPUs and threads of one worker."""
    import torch

    # As many as here, so that sums are added in the same order.
    threads = torch.get_num_threads()
    default_gpus = 0.0
    default_cpus = float(threads)
    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    if has_gpus:
        default_gpus = 1.0
        default_cpus = 1.0
    gpus = number_in("WSOUP_RAY_GPUS", default_gpus)
    cpus = number_in("WSOUP_RAY_CPUS", default_cpus)
    if has_gpus or "WSOUP_RAY_CPUS" in os.environ:
        threads = max(1, int(cpus))
    return gpus, cpus, threads


def _room(resources: Mapping[str, float], *, gpus: float, cpus: float) -> int:
    """Number of workers that a cluster has room for."""
    rooms = []
    for name, size in (("GPU", gpus), ("CPU", cpus)):
        if size > 0:
            rooms.append(resources.get(name, 0.0) / size)
    return int(min(rooms, default=1))


def _short(error: BaseException) -> str:
    """Out of memory (Ray ends the largest worker before the system does), or the last line of an error's text."""
    text = str(error).strip() or type(error).__name__
    if "out of memory" in text.lower():
        return "out of memory"
    last_line = text.splitlines()[-1]
    return last_line.strip()[:300]
