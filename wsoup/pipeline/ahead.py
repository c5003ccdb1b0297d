"""`wsoup ahead`: the shards of several stages as one pool of work, before DVC runs the stages one after another.

Resume keys are by content, so `dvc repro` then reads what is there. Nothing of DVC's is written: finetuned models that
evaluate_tuned needs before stage finetune has run lie in the cache folder meanwhile. Of `evaluate` and `evaluate_tuned`
the encoding of texts and images is computed, not what follows from it, such as counts.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from wsoup.base.errors import ParamsError
from wsoup.disk.cache_folder import make_cache_dir
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Shard
from wsoup.images.shard import EncodeImages
from wsoup.images.together import alone, encode_together, which_images
from wsoup.images.workers import decoding_workers
from wsoup.pipeline.ahead_stages import EVALUATE, Todo, work_of, write_outs
from wsoup.pipeline.stage import locked
from wsoup.runtime import on_processes
from wsoup.runtime.threads import cores
from wsoup.towers.encoder import loading_once

MODELS_AT_ONCE = 24
"""Finetuned models that see an image together; a worker keeps no more than 32 (`wsoup.towers.encoder.LOADED`)."""


class Job(NamedTuple):
    """What a worker does at one go: the shards that it finishes, with the stages that they belong to."""

    shards: Sequence[tuple[str, Shard]]
    compute: Callable[[], list[bytes]]


def compute(todo: Todo, *, workers: int | None) -> Iterator[str]:
    """Compute the missing shards of some stages; yields a line for each finished shard.

    On Ray with ``WSOUP_EXECUTOR=ray``, else on this machine.

    Args:
        todo: the stages.
        workers: processes on this machine; None: one for each GPU, or as many as its cores have room for.

    Raises:
        ParamsError: there are no such devices, or workers are given where Ray decides.
        WsoupError: another process runs one of the stages, or what a shard raises; finished shards are kept.
    """
    finetuned = make_cache_dir() / "ahead" / "finetuned"
    with ExitStack() as stack:
        for name in todo.stages:
            stack.enter_context(locked(name))
        stack.enter_context(loading_once())
        stack.callback(shutil.rmtree, finetuned.parent, ignore_errors=True)
        work = _Work(todo, finetuned=finetuned.absolute())
        running: dict[int, Job] = {}

        def take() -> Callable[[], list[bytes]] | None:
            job = work.next()
            if job is None:
                return None
            running[work.n_given] = job
            work.n_given += 1
            return job.compute

        began = time.monotonic()
        for number, payloads in _run(take, workers=workers):
            job = running.pop(number)
            for (name, shard), payload in zip(job.shards, payloads, strict=True):
                shard.save(payload)
                done, total = work.finished(name)
                yield f"{name}: shard {done} of {total} ({time.monotonic() - began:.0f} s)"


def _run(take: Callable[[], Any], *, workers: int | None) -> Iterator[tuple[int, Any]]:
    """Compute jobs where the environment and the command line say."""
    if os.environ.get("WSOUP_EXECUTOR", "here") == "ray":
        from wsoup.runtime import on_ray

        if workers is not None:
            raise ParamsError("--workers is for this machine; on Ray WSOUP_RAY_GPUS and WSOUP_RAY_CPUS decide")
        return on_ray.run_taken(take, label="ahead")
    n = workers or _n_workers()
    if n == 1:
        return _in_this_process(take)
    decoding = decoding_workers()
    if not os.environ.get("WSOUP_WORKERS"):
        decoding = max(1, cores() // n)
    begin = [partial(_begin, i, decoding=decoding) for i in range(n)]
    return on_processes.run(take, workers=begin, label="ahead")


def _in_this_process(take: Callable[[], Callable[[], Any] | None]) -> Iterator[tuple[int, Any]]:
    number = 0
    while (task := take()) is not None:
        yield number, task()
        number += 1


def _n_workers() -> int:
    """One worker for each GPU, or as many as this machine's cores have room for."""
    n_devices = 0 if os.environ.get("WSOUP_DEVICE") else torch.cuda.device_count()
    return n_devices or max(1, cores() // torch.get_num_threads())


def _begin(i: int, *, decoding: int) -> None:
    """In worker i, before its first task: its share of the cores, and its GPU.

    To receive this function it imports torch and open_clip, which takes seconds. It computes with as many threads as
    this process, because the order in which sums are added depends on them.
    """
    os.environ["WSOUP_WORKERS"] = str(decoding)
    n_devices = torch.cuda.device_count()
    if n_devices and not os.environ.get("WSOUP_DEVICE"):
        os.environ["WSOUP_DEVICE"] = f"cuda:{i % n_devices}"


class _Work:
    """The jobs of all stages, planned when they are asked for, so that few stages are in memory at a time.

    First everything but the evaluation of finetuned models that are not there yet; then, when a method is finetuned,
    its texts; and when all are, their images, for several methods at once.
    """

    def __init__(self, todo: Todo, *, finetuned: Path) -> None:
        self.todo = todo
        self.elsewhere = Artifacts(finetuned=finetuned)
        self.jobs: list[Job] = []
        self.n_given = 0
        self.planned: dict[str, list[int]] = {}  # by stage, how many of its shards are finished, and all of them
        waiting = [name for name in todo.stages if todo.follows(name) is not None]
        self.first = [name for name in todo.stages if name not in waiting]
        self.texts = waiting
        self.images: list[str] = []

    def next(self) -> Job | None:
        """The next job; None if there is none before another one is finished."""
        while not self.jobs:
            if self.first:
                self._plan(self.first.pop(0))
            elif self._tuned():
                self._plan(self._tuned()[0])
            elif self.images and not self.texts:
                self._plan_images()
            else:
                return None
        return self.jobs.pop(0)

    def finished(self, name: str) -> tuple[int, int]:
        """Note that a shard of a stage is finished: how many are, of how many."""
        counts = self.planned[name]
        counts[0] += 1
        done, total = counts
        return done, total

    def _tuned(self) -> list[str]:
        """Stages whose finetuned models are there by now, and whose texts are not planned."""
        ready = []
        for name in self.texts:
            done, total = self.planned.get(str(self.todo.follows(name)), (0, 1))
            if done == total:
                ready.append(name)
        return ready

    def _plan(self, name: str) -> None:
        """Plan all shards of a stage, or, of the evaluation of finetuned models, its texts."""
        if name in self.texts:
            self.texts.remove(name)
            before = str(self.todo.follows(name))
            write_outs(before, artifacts=self.elsewhere)
        shards = self._missing(name)
        self.planned[name] = [0, len(shards)]
        images = [shard for shard in shards if _is_of_tuned(name, shard)]
        if images:
            self.images.append(name)
        for shard in shards:
            if shard not in images:
                self.jobs.append(Job([(name, shard)], partial(_alone, _sendable(shard))))

    def _plan_images(self) -> None:
        """Plan the images of as many methods as can be seen at once: each image is one of a shard of all of them."""
        n_seeds = self.todo.n_seeds
        n = max(1, MODELS_AT_ONCE // n_seeds)
        together: dict[str, list[tuple[str, Shard]]] = {}
        computing: dict[str, list[EncodeImages]] = {}
        for name in self.images[:n]:
            for shard in self._missing(name):
                if isinstance(shard.compute, EncodeImages):
                    images = which_images(shard.compute)
                    together.setdefault(images, []).append((name, shard))
                    computing.setdefault(images, []).append(alone(shard.compute))
        del self.images[:n]
        for images, shards in together.items():
            self.jobs.append(Job(shards, partial(encode_together, computing[images])))

    def _missing(self, name: str) -> list[Shard]:
        artifacts = self.elsewhere if self.todo.follows(name) else None
        return [shard for shard in work_of(name, artifacts=artifacts) if not shard.done()]


def _is_of_tuned(name: str, shard: Shard) -> bool:
    return name.startswith(f"{EVALUATE}@") and isinstance(shard.compute, EncodeImages)


def _sendable(shard: Shard) -> Any:
    """What computes a shard, without more than it needs."""
    if isinstance(shard.compute, EncodeImages):
        return alone(shard.compute)
    return shard.compute


def _alone(compute: Callable[[], bytes]) -> list[bytes]:
    return [compute()]
