"""Only added images are encoded; features of the others are reused, with the bytes of a fresh run."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_world import COLOURS, write_image_folder

from wsoup.base.errors import ChangedError
from wsoup.disk.files import PRETRAINED
from wsoup.disk.shards import Owner
from wsoup.images import batches
from wsoup.images.embed import plan_images
from wsoup.images.features import Encoded
from wsoup.images.shard import ImageList
from wsoup.params.inputs import EmbedParams

OWNER = Owner("embed@x", "1", {"torch": "2.6"})
PARAMS = EmbedParams(batch_size=4, on_bad_image="stop")


@pytest.fixture
def photos(in_tmp: Path) -> Path:
    """Nineteen images, and two more in a folder that is not listed."""
    root = write_image_folder(Path("photos"), splits={"test": 6}, classes=COLOURS)
    (root / "later").mkdir()
    for number, name in enumerate(("blue/03", "green/02")):
        (root / f"test/{name}.png").rename(root / f"later/{number}.png")
    for name in ("03", "04", "05"):
        (root / f"test/white/{name}.png").unlink()
    return root


def embed(
    root: Path, encoder, *, owner: Owner = OWNER, params: EmbedParams = PARAMS, **sizes: int
) -> tuple[Encoded, int]:
    """Features of the images in the folder now, and how many of them were reused."""
    paths = sorted(str(path) for path in (root / "test").rglob("*.png"))
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths]
    options = {"batch_size": params.batch_size, "on_bad_image": params.on_bad_image, "label": "test", **sizes}
    images = ImageList(".", pa.table({"path": paths, "digest": digests}))
    owner = dataclasses.replace(owner, used=set())  # of this run
    (embedded,) = plan_images({PRETRAINED: encoder}, lists=[images], owner=owner, **options).embedded()
    embedded = dataclasses.replace(embedded, features={PRETRAINED: embedded.features[PRETRAINED][:]})
    owner.finished()
    return embedded, embedded.n_known


def same_as_fresh(embedded: Encoded, root: Path, encoder, monkeypatch: pytest.MonkeyPatch, **options) -> bool:
    """Whether a run without a cache gives the same bytes."""
    with monkeypatch.context() as patch:
        patch.setenv("WSOUP_CACHE", "fresh")
        fresh, _ = embed(root, encoder, **options)
    assert fresh.skipped == embedded.skipped
    assert np.array_equal(fresh.positions, embedded.positions)
    return fresh.features[PRETRAINED].tobytes() == embedded.features[PRETRAINED].tobytes()


def move_in(root: Path) -> None:
    """Move the two images to two of the classes."""
    (root / "later/0.png").rename(root / "test/blue/03.png")
    (root / "later/1.png").rename(root / "test/green/02.png")


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Paths of the images that are decoded."""
    names, load_rgb = [], batches.load_rgb
    monkeypatch.setattr(batches, "load_rgb", lambda path, **options: (names.append(path), load_rgb(path, **options))[1])
    return names


def test_only_added_images_are_encoded_and_the_bytes_equal_a_fresh_run(photos, tiny_encoder, read, monkeypatch):
    embed(photos, tiny_encoder)
    move_in(photos)
    read.clear()
    again, reused = embed(photos, tiny_encoder)
    assert [path.removeprefix("photos/test/") for path in read] == ["blue/03.png", "green/02.png"]
    assert reused == 21 - 2
    assert same_as_fresh(again, photos, tiny_encoder, monkeypatch)


def test_after_removing_and_renaming_images_the_others_are_reused(photos, tiny_encoder, monkeypatch):
    embed(photos, tiny_encoder)
    (photos / "test/blue/00.png").unlink()
    (photos / "test/red/05.png").rename(photos / "test/blue/99.png")
    again, reused = embed(photos, tiny_encoder)
    assert reused == 18
    assert same_as_fresh(again, photos, tiny_encoder, monkeypatch)


@pytest.mark.parametrize("what", ["code", "package", "encoder", "preprocessing", "batch size", "damage"])
def test_a_change_of_what_decides_features_encodes_all_again(what: str, photos, tiny_encoder, monkeypatch):
    embed(photos, tiny_encoder)
    owner, params, encoder = OWNER, PARAMS, tiny_encoder
    if what == "code":
        owner = dataclasses.replace(OWNER, code={"stages/embed.py": "2"})
    elif what == "package":
        owner = dataclasses.replace(OWNER, packages={"torch": "2.7"})
    elif what == "encoder":
        encoder = dataclasses.replace(encoder, id={**encoder.id, "precision": "reference"})
    elif what == "preprocessing":
        encoder = dataclasses.replace(encoder, preprocessing={**encoder.preprocessing, "interpolation": "bilinear"})
    elif what == "batch size":
        params = EmbedParams(batch_size=8, on_bad_image="stop")
    else:
        (file,) = Path(".cache/wsoup/embed@x").rglob("*.part")
        file.write_bytes(file.read_bytes()[:-1])
    again, reused = embed(photos, encoder, owner=owner, params=params)
    assert reused == 0
    assert same_as_fresh(again, photos, encoder, monkeypatch, owner=owner, params=params)


def test_a_killed_run_goes_on_though_images_were_added_meanwhile(photos, tiny_encoder, monkeypatch):
    load_rgb = batches.load_rgb

    def away(path, **options):
        if path.endswith("white/00.png"):
            raise ChangedError("away")
        return load_rgb(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(batches, "load_rgb", away)
        with pytest.raises(ChangedError):
            embed(photos, tiny_encoder, batches_per_shard=1)
    move_in(photos)
    again, reused = embed(photos, tiny_encoder, batches_per_shard=1)
    assert reused == 16, "four finished shards"
    assert same_as_fresh(again, photos, tiny_encoder, monkeypatch)


def test_a_skipped_file_does_not_change_the_size_of_its_batch(photos, tiny_encoder, monkeypatch):
    skip = EmbedParams(batch_size=4, on_bad_image="skip")
    (photos / "test/green/01.png").write_bytes(b"broken")
    embed(photos, tiny_encoder, params=skip)
    move_in(photos)
    again, reused = embed(photos, tiny_encoder, params=skip)
    assert reused > 0
    assert list(again.skipped) == [7]
    assert same_as_fresh(again, photos, tiny_encoder, monkeypatch, params=skip)
