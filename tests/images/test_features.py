"""Image features of lists of files: order, several encoders, resuming after a kill, bad and changed images."""

from __future__ import annotations

import dataclasses
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from wsoup.base.errors import ChangedError, DataError
from wsoup.disk import features as disk_features
from wsoup.disk import store
from wsoup.disk.features import ImageFeatures, read_features, write_features
from wsoup.disk.shards import Owner
from wsoup.disk.store import sha256_file
from wsoup.evaluate.testsets import TestSet
from wsoup.evaluate.training import seen_by
from wsoup.images import features
from wsoup.images.features import Encoded, ImageList, embed_images
from wsoup.search.rank.source import Run

OWNER = Owner("embed@x", {"stages/embed.py": "1"}, {"torch": "2.6"})


@pytest.fixture
def five_images(in_tmp: Path) -> list[str]:
    for i in range(5):
        Image.fromarray(np.full((16, 16, 3), 40 * i, dtype=np.uint8)).save(f"{i}.png")
    return [f"{i}.png" for i in range(5)]


@pytest.fixture
def other(tiny_encoder):
    """An encoder with the same preprocessing and other weights."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = torch.nn.Linear(3, 16)
    encode = lambda pixels: model(pixels.mean(dim=(2, 3)))  # noqa: E731
    model.encode_image = encode  # type: ignore[assignment]
    return dataclasses.replace(tiny_encoder, model=model, id={**tiny_encoder.id, "weights": "other"})


def listed(paths: list[str]) -> ImageList:
    return ImageList(".", paths, [sha256_file(path) for path in paths])


def embed(encoder, images: ImageList, *, on_bad_image: str = "stop", batch_size: int = 2, **sizes: int):
    options = {"batch_size": batch_size, "on_bad_image": on_bad_image, "label": "test", "owner": OWNER, **sizes}
    (embedded,) = embed_images({"only": encoder}, lists=[images], **options)
    return dataclasses.replace(embedded, features={"only": embedded.features["only"][:]})


def test_embedding_keeps_order_and_resumes_after_a_kill(five_images, tiny_encoder, monkeypatch):
    whole = embed(tiny_encoder, listed(five_images))
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    images, kept = listed(five_images), Path("2.png").read_bytes()
    Path("2.png").unlink()  # the third image is missing for a while; the first shard is kept
    with pytest.raises(ChangedError):
        embed(tiny_encoder, images, images_per_shard=2)
    (first,) = Path("elsewhere").rglob("*.part")
    time_ns = first.stat().st_mtime_ns
    Path("2.png").write_bytes(kept)
    again = embed(tiny_encoder, images, images_per_shard=2)
    assert first.stat().st_mtime_ns == time_ns
    assert np.array_equal(again.features["only"], whole.features["only"])
    assert again.positions.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_size_of_a_shard_changes_no_byte(five_images, tiny_encoder, monkeypatch, size):
    """A shard holds whole batches, whatever size is requested."""
    Path("1.png").write_bytes(b"broken")
    whole = embed(tiny_encoder, listed(five_images), on_bad_image="skip")
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    cut = embed(tiny_encoder, listed(five_images), on_bad_image="skip", images_per_shard=size)
    assert len(list(Path("elsewhere").rglob("*.part"))) == {1: 3, 2: 3, 3: 3, 5: 2}[size]
    assert cut.features["only"].tobytes() == whole.features["only"].tobytes()
    assert (cut.positions.tolist(), cut.skipped) == ([0, 2, 3, 4], whole.skipped)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_shard_resumes_from_its_last_saved_state(five_images, tiny_encoder, monkeypatch, capsys, damaged):
    from wsoup.images import decode

    whole = embed(tiny_encoder, listed(five_images))
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    monkeypatch.setenv("WSOUP_SAVE_SECONDS", "0")
    read, load_rgb, dying = [], decode.load_rgb, [True]

    def killed_at_the_last(path, **options):
        if dying and path.endswith("4.png"):
            raise KeyboardInterrupt
        read.append(path)
        return load_rgb(path, **options)

    monkeypatch.setattr(decode, "load_rgb", killed_at_the_last)
    with pytest.raises(KeyboardInterrupt):
        embed(tiny_encoder, listed(five_images))
    (state,) = Path("elsewhere").rglob("*.running")
    assert not list(Path("elsewhere").rglob("*.part"))
    if damaged:
        state.write_bytes(state.read_bytes()[:-1])
    read.clear()
    dying.clear()
    again = embed(tiny_encoder, listed(five_images))
    assert [Path(path).name for path in read] == (five_images if damaged else ["4.png"])
    assert ("its images are encoded again" in capsys.readouterr().err) == damaged
    assert again.features["only"].tobytes() == whole.features["only"].tobytes()
    assert again.positions.tolist() == whole.positions.tolist()
    assert not state.exists()


def test_a_cpu_splits_a_large_batch(five_images, tiny_encoder):
    """The features do not change, so the batch size may be one for GPUs."""
    images = listed(five_images * 8)
    assert [tiny_encoder.images_at_once(n) for n in (2, 32, 33, 65_536)] == [2, 32, 32, 32]
    large, small = (embed(tiny_encoder, images, batch_size=n).features["only"] for n in (64, 32))
    assert np.array_equal(large, small)


def test_several_encoders_share_one_decoding(five_images, tiny_encoder, other, monkeypatch):
    from wsoup.images import decode

    read, load_rgb = [], decode.load_rgb
    monkeypatch.setattr(decode, "load_rgb", lambda path, **options: (read.append(path), load_rgb(path, **options))[1])
    lists = [listed(five_images[:3]), listed(five_images[3:])]
    encoders = {"one": tiny_encoder, "two": other}
    embedded = embed_images(encoders, lists=lists, batch_size=2, on_bad_image="stop", label="test", owner=OWNER)
    assert sorted(Path(path).name for path in read) == five_images
    for images, both in zip(lists, embedded, strict=True):
        for name, encoder in encoders.items():
            assert np.array_equal(both.features[name][:], embed(encoder, images).features["only"])
        assert not np.allclose(both.features["one"][:], both.features["two"][:])


def test_test_sets_are_encoded_again_in_their_own_order(five_images, tiny_encoder, other, monkeypatch):
    from wsoup.disk.files import Artifacts

    images, artifacts = listed(five_images), Artifacts()
    import pyarrow as pa

    store.write_table(artifacts.manifest("x"), pa.table({"path": images.paths, "digest": images.digests}))
    rows = np.array([3, 0, 4])
    labels = torch.tensor([1, 0, 1])
    test = TestSet("x", "xd", "a {}.", ["a", "b"], torch.zeros(3, 16), labels, rows, {"root": "."})
    monkeypatch.setattr(tiny_encoder.model, "tunes_images", True, raising=False)
    run = Run(OWNER, "x", (7, 8), tiny_encoder, artifacts)
    seen = seen_by(run, {7: tiny_encoder, 8: other}, tests=[test], batch_size=2)
    whole = embed(tiny_encoder, images).features["only"]
    assert np.allclose(seen[7][0].image_features.numpy(), whole[rows], atol=1e-6)
    assert seen[8][0].labels is labels


def test_memory_grows_with_the_names_of_images_and_not_with_their_features(in_tmp, tiny_encoder, monkeypatch):
    """As it must be where a million images have 2 GiB of features."""
    n, size = 1600, 4096
    for name, rows in {"ROWS_PER_CHUNK": 50, "ROWS_PER_SHARD": 100, "ROWS_IN_ONE_FILE": 200}.items():
        monkeypatch.setattr(disk_features, name, rows)

    def encode(encoders, *, paths, **how) -> Encoded:
        numbers = np.array([int(Path(path).name) for path in paths], dtype=np.float32)
        return Encoded({"only": np.outer(numbers, np.ones(size, np.float32))}, np.arange(len(paths)), {})

    monkeypatch.setattr(features, "encode_files", encode)
    order = np.random.default_rng(0).permutation(n)
    images = ImageList(".", [str(i) for i in order], [f"{i:064x}" for i in order])
    options = {"batch_size": 10, "on_bad_image": "stop", "label": "test", "owner": OWNER, "images_per_shard": 100}
    write_features("first.zarr", ImageFeatures(np.ones((1, 1)), order[:1], order[:1], {}))  # imports its library
    tracemalloc.start()
    (embedded,) = embed_images({"only": tiny_encoder}, lists=[images], **options)
    write_features("x.zarr", ImageFeatures(embedded.features["only"], order, order, {}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * size * 4 / 2
    read = read_features("x.zarr").features
    assert np.array_equal(read[:, 0], order)


def test_skipped_images_are_listed(five_images, tiny_encoder):
    Path("3.png").write_bytes(b"broken")
    embedded = embed(tiny_encoder, listed(five_images), on_bad_image="skip")
    assert embedded.positions.tolist() == [0, 1, 2, 4]
    assert list(embedded.skipped) == [3]
    assert "3.png is not an image" in embedded.skipped[3]
    with pytest.raises(DataError, match=r"3\.png"):
        embed(tiny_encoder, listed(five_images))


def test_nothing_decodable_is_an_error(in_tmp, tiny_encoder):
    Path("x.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="none of the 1 images could be decoded"):
        embed(tiny_encoder, listed(["x.png"]), on_bad_image="skip")
