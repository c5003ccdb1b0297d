"""Pixels lie in memory that processes share, or go through a pipe where there is none."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource

import numpy as np
import pytest
import torch

from wsoup.images import places as places_module
from wsoup.images.places import Kept, Places
from wsoup.images.workers import Batch, Decoders, Images


def numbers(*shape: int, first: int = 0) -> np.ndarray:
    return (first + np.arange(np.prod(shape))).astype(np.uint8).reshape(shape)


def as_another_process_has_them(places: Places) -> Places:
    """The same places as another process has them before it uses one."""
    return Places(os.dup(places._file), count=places._count)


@pytest.fixture
def places():
    made = Places.new(3)
    if made is None:
        pytest.skip("no memfd here")
    yield made
    made.close()


def test_what_is_put_is_got_and_places_are_apart(places: Places) -> None:
    kept = [places.put(numbers(2, 3, 5, first=20 * i), place=i) for i in range(3)]
    assert kept == [Kept((2, 3, 5))] * 3
    for i in (2, 0, 1):
        assert np.array_equal(places.get(kept[i], place=i), numbers(2, 3, 5, first=20 * i))


def test_a_place_takes_larger_and_smaller_arrays_in_turn_and_gives_copies(places: Places) -> None:
    first = places.get(places.put(numbers(7), place=1), place=1)
    for size in (300_000, 5, 1):
        assert np.array_equal(places.get(places.put(numbers(size, first=1), place=1), place=1), numbers(size, first=1))
    assert np.array_equal(first, numbers(7))


def test_what_has_no_room_is_handed_back(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, array = numbers(0, 3), numbers(40)
    assert places.put(empty, place=0) is empty
    monkeypatch.setattr(places_module, "APART", 39)
    assert places.put(array, place=0) is array
    monkeypatch.undo()

    def no_memory(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(places_module.mmap, "mmap", no_memory)
    assert Places.new(3) is None
    in_a_worker = as_another_process_has_them(places)
    assert in_a_worker.put(array, place=0) is array
    in_a_worker.close()


def put_there(places: Places, sent) -> None:
    sent.send(places.put(numbers(9), place=2))


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(name, marks=pytest.mark.long) for name in ("spawn", "forkserver"))]
)
def test_a_process_that_is_started_has_the_same_places(places: Places, method: str) -> None:
    context = multiprocessing.get_context(method)
    received, sent = context.Pipe(duplex=False)
    process = context.Process(target=put_there, args=(places, sent))
    process.start()
    kept = received.recv()
    process.join()
    assert np.array_equal(places.get(kept, place=2), numbers(9))


def test_none_where_files_are_limited_or_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert Places.new(3) is None


def lengths(piece: Images) -> Batch:
    return Batch(torch.tensor([len(path) for path in piece.paths])[:, None, None, None], [*range(len(piece.paths))], {})


@pytest.mark.parametrize("shared", [True, False])
def test_all_places_are_free_again_whatever_was_given_up(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are asked for in another order than announced: pieces under way are left."""
    if not shared:
        monkeypatch.setattr(Places, "new", lambda count: None)
    lists = [Images(["x" * (n + i) for i in range(9)], None) for n in (1, 20, 40)]
    decoders = Decoders(lengths, batch_size=2, workers=2, coming=lists)
    n_places = len(decoders.free)
    for n, images in ((20, lists[1]), (1, lists[0]), (40, lists[2]), (20, lists[1])):
        got = [int(v) for piece in decoders.decoded(images) for v in piece.pixels.flatten()]
        assert got == list(range(n, n + 9))
    assert (decoders.places is not None) is shared
    assert decoders.pool is not None
    decoders.pool.shutdown()
    assert sorted(decoders.free) == list(range(n_places)), "none was lost or is there twice"
    decoders.close()


def test_places_take_memory_only_for_what_is_written() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    places = Places.new(1000)
    if places is not None:
        places.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 15
