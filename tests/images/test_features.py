"""Image features of lists of files: order, several encoders, resuming after a kill, bad and changed images."""

from __future__ import annotations

import dataclasses
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from wsoup.base.errors import ChangedError, DataError
from wsoup.disk import cache_folder, store
from wsoup.disk.shards import Owner
from wsoup.disk.store import sha256_file
from wsoup.evaluate import testsets
from wsoup.evaluate.seen import plan_seen
from wsoup.evaluate.testsets import TestSet
from wsoup.images import shard, split
from wsoup.images.embed import plan_images
from wsoup.images.features import Encoded
from wsoup.images.shard import ImageList
from wsoup.towers import features as stored_features
from wsoup.towers.features import ImageFeatures, read_features, write_features
from wsoup.towers.run import Run

OWNER = Owner("embed@x", "1", {"torch": "2.6"})


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
    return ImageList(".", pa.table({"path": paths, "digest": [sha256_file(path) for path in paths]}))


def embed(encoder, images: ImageList, *, on_bad_image: str = "stop", batch_size: int = 2, **sizes: int):
    options = {"batch_size": batch_size, "on_bad_image": on_bad_image, "label": "test", "owner": OWNER, **sizes}
    (embedded,) = plan_images({"only": encoder}, lists=[images], **options).embedded()
    return dataclasses.replace(embedded, features={"only": embedded.features["only"][:]})


def test_embedding_keeps_order_and_resumes_after_a_kill(five_images, tiny_encoder, monkeypatch):
    whole = embed(tiny_encoder, listed(five_images))
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    images, kept = listed(five_images), Path("2.png").read_bytes()
    Path("2.png").unlink()  # the third image is missing for a while; the first shard is kept
    with pytest.raises(ChangedError):
        embed(tiny_encoder, images, batches_per_shard=1)
    (first,) = Path("elsewhere").rglob("*.part")
    time_ns = first.stat().st_mtime_ns
    Path("2.png").write_bytes(kept)
    again = embed(tiny_encoder, images, batches_per_shard=1)
    assert first.stat().st_mtime_ns == time_ns
    assert np.array_equal(again.features["only"], whole.features["only"])
    assert again.positions.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_size_of_a_shard_changes_no_byte(five_images, tiny_encoder, monkeypatch, size):
    Path("1.png").write_bytes(b"broken")
    whole = embed(tiny_encoder, listed(five_images), on_bad_image="skip")
    monkeypatch.setenv("WSOUP_CACHE", "elsewhere")
    cut = embed(tiny_encoder, listed(five_images), on_bad_image="skip", batches_per_shard=size)
    assert len(list(Path("elsewhere").rglob("*.part"))) == {1: 3, 2: 2, 3: 1}[size]
    assert cut.features["only"].tobytes() == whole.features["only"].tobytes()
    assert (cut.positions.tolist(), cut.skipped) == ([0, 2, 3, 4], whole.skipped)


def test_a_cpu_splits_a_large_batch(five_images, tiny_encoder):
    """The features do not change, so the batch size may be one for GPUs."""
    images = listed(five_images * 8)
    assert [tiny_encoder.images_at_once(n) for n in (2, 32, 33, 65_536)] == [2, 32, 32, 32]
    large, small = (embed(tiny_encoder, images, batch_size=n).features["only"] for n in (64, 32))
    assert np.array_equal(large, small)


def test_several_encoders_share_one_decoding(five_images, tiny_encoder, other, monkeypatch):
    from wsoup.images import batches

    read, load_rgb = [], batches.load_rgb
    monkeypatch.setattr(batches, "load_rgb", lambda path, **options: (read.append(path), load_rgb(path, **options))[1])
    lists = [listed(five_images[:3]), listed(five_images[3:])]
    encoders = {"one": tiny_encoder, "two": other}
    plan = plan_images(encoders, lists=lists, batch_size=2, on_bad_image="stop", label="test", owner=OWNER)
    embedded = plan.embedded()
    assert sorted(Path(path).name for path in read) == five_images
    for images, both in zip(lists, embedded, strict=True):
        for name, encoder in encoders.items():
            assert np.array_equal(both.features[name][:], embed(encoder, images).features["only"])
        assert not np.allclose(both.features["one"][:], both.features["two"][:])


def test_test_sets_are_encoded_again_in_their_own_order(five_images, tiny_encoder, other, monkeypatch):
    from wsoup.disk.files import Artifacts

    images, artifacts = listed(five_images), Artifacts()
    store.write_table(artifacts.manifest("x"), images.files)
    rows = np.array([3, 0, 4])
    labels = torch.tensor([1, 0, 1])
    test = TestSet("x", "xd", "a {}.", ["a", "b"], torch.zeros(3, 16), labels, rows, {"root": "."})
    monkeypatch.setattr(tiny_encoder.model, "tunes_images", True, raising=False)
    run = Run(OWNER, "x", (7, 8), tiny_encoder, artifacts)
    seen = plan_seen(run, {7: tiny_encoder, 8: other}, tests=[test], batch_size=2).seen()
    whole = embed(tiny_encoder, images).features["only"]
    assert np.allclose(seen[7][0].image_features.numpy(), whole[rows], atol=1e-6)
    assert seen[8][0].labels is labels
    monkeypatch.setattr(testsets, "HELD_BYTES", 0)
    again = plan_seen(run, {7: tiny_encoder}, tests=[test], batch_size=2).seen()
    ((block, features),) = again[7][0].blocks()
    assert torch.equal(features[block], seen[7][0].image_features)


def test_memory_grows_neither_with_features_nor_with_an_object_for_each_image(in_tmp, tiny_encoder, monkeypatch):
    """A million images have 2 GiB of features, and 300 MiB of names and digests where each is a Python string."""
    n, size = 10_000, 64
    for name, rows in {"ROWS_PER_CHUNK": 50, "ROWS_PER_SHARD": 200, "ROWS_IN_ONE_FILE": 400}.items():
        monkeypatch.setattr(stored_features, name, rows)

    def encode(encoders, *, paths, **how) -> Encoded:
        numbers = np.array([int(Path(path).name) for path in paths], dtype=np.float32)
        return Encoded({"only": np.outer(numbers, np.ones(size, np.float32))}, np.arange(len(paths)), {})

    monkeypatch.setattr(shard, "encode_files", encode)
    monkeypatch.setattr(split, "DIGESTS_AT_ONCE", 200)
    order = np.random.default_rng(0).permutation(n)
    digests = pa.array([2 * f"{i:032x}" for i in order])

    def run(rows: int, *, folder: str, known: int) -> None:
        """Encode the first rows, or take the known ones from an earlier run, and write them."""
        images = ImageList(folder, pa.table({"path": order[:rows].astype(str), "digest": digests[:rows]}))
        options = {"batch_size": 20, "on_bad_image": "stop", "label": "test", "owner": OWNER}
        (embedded,) = plan_images({"only": tiny_encoder}, lists=[images], **options).embedded()
        attributes = {"images": split._fingerprint(images.files["digest"])}
        written = ImageFeatures(embedded.features["only"], order[:rows], order[:rows], attributes)
        write_features(f"{folder}.zarr", written)
        assert embedded.n_known == known

    # What is imported or cached on first use, by whichever test came first, is not what is measured.
    for known in (0, 500):
        run(500, folder="small", known=known)
    shutil.rmtree(cache_folder.cache_dir())
    tracemalloc.start()
    for known in (0, n):
        run(n, folder="large", known=known)
        _, peak = tracemalloc.get_traced_memory()
        assert peak / n < (450 if known else 200), "bytes an image"
    tracemalloc.stop()
    read = read_features("large.zarr")
    assert np.array_equal(read.features[:, 0], order)
    assert read.attributes["images"] == store.fingerprint(digests.to_pylist())


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
