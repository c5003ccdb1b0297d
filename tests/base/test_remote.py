"""Images at a URL, in fsspec's memory filesystem."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest
from small_world import COLOURS, write_image_folder

from wsoup.base import remote
from wsoup.base.errors import ChangedError, DataError, MissingError
from wsoup.datasets import digests, manifest
from wsoup.disk.files import read_bytes
from wsoup.images.decode import load_rgb
from wsoup.params.inputs import DatasetParams

ROOT = "memory://bucket/photos"


@pytest.fixture
def bucket(in_tmp):
    """Eight images in the bucket, and a local list of them."""
    here = write_image_folder(in_tmp / "photos", splits={"train": 1, "test": 1}, classes=COLOURS)
    filesystem = fsspec.filesystem("memory")
    lines = ["path,class_name,split"]
    for file in sorted(here.rglob("*.png")):
        path = file.relative_to(here).as_posix()
        filesystem.pipe_file(f"/bucket/photos/{path}", file.read_bytes())
        split, name, _ = path.split("/")
        lines.append(f"{path},{name},{split}")
    (in_tmp / "list.csv").write_text("\n".join(lines))
    yield filesystem
    filesystem.rm("/bucket", recursive=True)


def params(**options: object) -> DatasetParams:
    return DatasetParams(
        role="source", layout="manifest:list.csv", root=ROOT, watch="list.csv", template="a {}.", **options
    )


def test_a_local_list_names_remote_images(bucket):
    listing = manifest.read_listing("photos", params=params())
    assert listing.root == ROOT
    assert listing.splits["test"].paths == [f"test/{name}/00.png" for name in sorted(COLOURS)]
    assert listing.class_names == sorted(COLOURS)


def test_remote_bytes_and_pixels_equal_the_local_ones(bucket, in_tmp):
    file = "test/red/00.png"
    assert read_bytes(remote.joined(ROOT, file)) == (in_tmp / "photos" / file).read_bytes()
    there, here = load_rgb(f"{ROOT}/{file}"), load_rgb(in_tmp / "photos" / file)
    assert np.array_equal(np.asarray(there), np.asarray(here))


def test_digests_are_kept_until_the_file_changes(bucket, in_tmp):
    paths = ["test/red/00.png", "test/blue/00.png"]
    first = digests.of_images(ROOT, paths, origin="list.csv")
    assert first == digests.of_images(str(in_tmp / "photos"), paths, origin="list.csv")
    assert digests.of_images(ROOT, paths, origin="list.csv") == first
    bucket.pipe_file("/bucket/photos/test/red/00.png", b"another")
    sizes, hexes = digests.of_images(ROOT, paths, origin="list.csv")
    assert [new == old for new, old in zip(hexes, first[1], strict=True)] == [False, True]
    assert sizes[0] == len(b"another")
    with pytest.raises(ChangedError, match=r"memory://bucket/photos/test/red/00.png changed"):
        load_rgb(f"{ROOT}/test/red/00.png", digest=first[1][0])


def test_missing_files_and_unknown_schemes(bucket):
    with pytest.raises(MissingError, match=r"1 of 1 images listed in list.csv do not exist under memory://bucket"):
        digests.of_images(ROOT, ["no.png"], origin="list.csv")
    with pytest.raises(MissingError, match=r"memory://bucket/no.png cannot be read \(no such file\)"):
        read_bytes("memory://bucket/no.png")
    with pytest.raises(DataError, match=r"nosuch://bucket/a.png"):
        read_bytes("nosuch://bucket/a.png")
