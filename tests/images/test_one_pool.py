"""One pool decodes for all shards of a stage, in pieces, and results do not depend on who decodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from wsoup.base.errors import DataError
from wsoup.disk.shards import Owner
from wsoup.disk.store import sha256_file
from wsoup.images import features, workers
from wsoup.images.batches import batches
from wsoup.images.embed import plan_images
from wsoup.images.features import encode_files
from wsoup.images.one_pool import lasting
from wsoup.images.shard import ImageList
from wsoup.images.workers import Batch, Decoders, Images

OWNER = Owner("embed@x", "1", {"torch": "2.6"})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of three images, and processes for any number of them."""
    monkeypatch.setattr(workers, "PIECE", 3)
    monkeypatch.setattr("wsoup.images.one_pool.FEW_IMAGES", 0)
    monkeypatch.setenv("WSOUP_WORKERS", "2")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of processes of each pool that is started."""
    numbers: list[int] = []
    start = workers._started

    def noted(decode, places, *, workers):
        numbers.append(workers)
        return start(decode, places, workers=workers)

    monkeypatch.setattr(workers, "_started", noted)
    return numbers


@pytest.fixture
def images(in_tmp: Path) -> ImageList:
    for i in range(23):
        Image.fromarray(np.full((16, 16, 3), 10 * i, dtype=np.uint8)).save(f"{i}.png")
    paths = [f"{i}.png" for i in range(23)]
    return ImageList(".", pa.table({"path": paths, "digest": [sha256_file(path) for path in paths]}))


def names(images: Images) -> Batch:
    """In place of decoding: numbers that the paths are."""
    numbers = torch.tensor([float(path) for path in images.paths])
    return Batch(numbers[:, None, None, None], list(range(len(numbers))), {})


def listed(*numbers: int) -> Images:
    return Images([str(number) for number in numbers], None)


def taken(decoders: Decoders, images: Images) -> list[int]:
    return [int(value) for piece in decoders.decoded(images) for value in piece.pixels.flatten()]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 6, 7, 100])
def test_pieces_are_small_and_have_images_of_one_batch(batch_size):
    whole = Images([str(i) for i in range(23)], [f"digest {i}" for i in range(23)])
    pieces = whole.pieces(batch_size=batch_size)
    assert [path for piece in pieces for path in piece.paths] == whole.paths
    assert [digest for piece in pieces for digest in piece.digests] == whole.digests
    for piece in pieces:
        assert 1 <= len(piece.paths) <= 3
        assert len({int(path) // batch_size for path in piece.paths}) == 1
    assert Images([], None).pieces(batch_size=2) == []


@pytest.mark.parametrize("batch_size", [1, 2, 4, 7, 50])
@pytest.mark.parametrize("n_workers", [0, 2])
def test_batches_have_their_size_whatever_the_pieces(images, batch_size, n_workers):
    Path("5.png").write_bytes(b"broken")
    transform = lambda image: torch.tensor(image.getpixel((0, 0))[0])[None, None, None]  # noqa: E731
    paths = images.files["path"].to_pylist()
    got = list(batches(paths, transform=transform, batch_size=batch_size, on_bad_image="skip", workers=n_workers))
    sizes = [len(batch.positions) + len(batch.bad) for batch in got]
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert sum(sizes) == 23
    assert [i for batch in got for i in batch.positions] == [i for i in range(23) if i != 5]
    assert [i for batch in got for i in batch.bad] == [5]
    assert [int(v) for batch in got for v in batch.pixels.flatten()] == [10 * i for i in range(23) if i != 5]


def test_a_list_that_comes_is_begun_before_the_present_one_is_used_up():
    first, second = listed(*range(6)), listed(*range(10, 16))
    decoders = Decoders(names, batch_size=3, workers=2, coming=[first, second])
    pieces = decoders.decoded(first)
    next(pieces)
    assert [whole is second for whole, *_ in decoders.pending] == [False, True, True]
    assert [int(v) for piece in pieces for v in piece.pixels.flatten()] == [3, 4, 5]
    assert taken(decoders, second) == [10, 11, 12, 13, 14, 15]
    assert not decoders.pending
    decoders.close()


def test_lists_may_be_asked_for_in_another_order_or_unannounced():
    lists = [listed(*range(start, start + 7)) for start in (0, 10, 20)]
    decoders = Decoders(names, batch_size=4, workers=2, coming=lists)
    for start in (10, 30, 20, 0, 0):
        assert taken(decoders, listed(*range(start, start + 7))) == [*range(start, start + 7)]
    decoders.close()


def embedded(images: ImageList, encoder, **sizes: int) -> np.ndarray:
    options = {"batch_size": 4, "on_bad_image": "stop", "label": "test", "owner": OWNER, **sizes}
    (whole,) = plan_images({"only": encoder}, lists=[images], **options).embedded()
    return whole.features["only"][:]


def test_all_shards_of_a_stage_have_one_pool_and_the_same_bytes(images, tiny_encoder, started, monkeypatch):
    whole = embedded(images, tiny_encoder, batches_per_shard=1)
    assert started == [2]
    assert len(list(Path(".cache").rglob("*.part"))) == 6
    # Some shards are lost, one is damaged.
    for i, part in enumerate(sorted(Path(".cache").rglob("*.part"))):
        if i in (1, 4):
            part.unlink()
        if i == 2:
            part.write_bytes(part.read_bytes()[:-1])
    assert embedded(images, tiny_encoder, batches_per_shard=1).tobytes() == whole.tobytes()
    assert started == [2, 2]
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    monkeypatch.setenv("WSOUP_WORKERS", "0")
    assert embedded(images, tiny_encoder, batches_per_shard=2).tobytes() == whole.tobytes()
    assert started == [2, 2]


def test_another_preprocessing_has_processes_of_its_own(images, started):
    paths = images.files["path"].to_pylist()
    with lasting([], n=len(paths)):
        for value in (1, 1, 2):
            transform = constant(value)
            got = [*batches(paths, transform=transform, batch_size=4)]
            assert {int(v) for batch in got for v in batch.pixels.flatten()} == {value}
    assert len(started) == 3, "each function is another one"


def constant(value: int):
    return lambda image: torch.full((1, 1, 1), value)


def test_features_are_fetched_while_the_next_batch_is_computed(images, tiny_encoder, monkeypatch):
    """As on a GPU; a CPU fetches each batch at once. Order and bytes are the same."""
    paths = images.files["path"].to_pylist()
    events: list[str] = []
    for name in ("encode_pixels", "check_finite"):
        work = getattr(features, name)
        monkeypatch.setattr(features, name, noting(events, name, work))
    options = {"paths": paths, "digests": None, "batch_size": 10, "on_bad_image": "stop"}
    usual = encode_files({"only": tiny_encoder}, **options)
    assert events == ["encode_pixels", "check_finite"] * 3
    events.clear()
    monkeypatch.setattr(features, "BATCHES_AHEAD", {"cpu": 1})
    ahead = encode_files({"only": tiny_encoder}, **options)
    assert events == ["encode_pixels", *["encode_pixels", "check_finite"] * 2, "check_finite"]
    assert ahead.features["only"].tobytes() == usual.features["only"].tobytes()
    assert ahead.positions.tolist() == usual.positions.tolist() == list(range(23))


def noting(events: list[str], name: str, work):
    def noted(*arguments, **options):
        events.append(name)
        return work(*arguments, **options)

    return noted


def test_the_first_bad_image_stops_and_no_process_is_left(images, tiny_encoder):
    Path("7.png").write_bytes(b"broken")
    paths = images.files["path"].to_pylist()
    with pytest.raises(DataError, match=r"7\.png is not an image"), lasting([Images(paths, None)], n=23):
        encode_files({"only": tiny_encoder}, paths=paths, digests=None, batch_size=4, on_bad_image="stop")
    import multiprocessing

    assert not multiprocessing.active_children()
