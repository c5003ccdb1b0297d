"""What a URL may cost, and what a list may make this machine fetch: nothing, and nothing beyond a bound."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_world import COLOURS, write_image_folder
from web import Web, serving

from wsoup.base import remote
from wsoup.base.errors import DataError, MismatchError
from wsoup.core.member import Member
from wsoup.core.soup import LARGEST, Soup
from wsoup.datasets import coop, digests, manifest, tables
from wsoup.disk.files import read_bytes
from wsoup.params.inputs import DatasetParams

MIB = 1 << 20
SOUP = Soup("chains", 1, "a {}.", {"model": "m", "pretrained": "p"}, (Member("sharp"),))


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as server:
        yield server


# ------------------------------------------------------------------------------------------- a bound on what is read


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # no length at all
        ({"Content-Length": str(400 * MIB)}, 200),
        ({"Content-Range": "bytes 0-9/10", "Accept-Ranges": "bytes"}, 206),  # says ten bytes, and goes on
    ],
)
def test_a_soup_at_a_url_that_does_not_end(web: Web, headers: dict[str, str], status: int) -> None:
    """400 MiB are there to be had; the server gets rid of little more than the largest soup."""
    web.answers["/soup.json"] = web.endless(b" " * MIB, most=400 * MIB, headers=headers, status=status)
    with pytest.raises(DataError, match=rf"soup.json has more than {LARGEST:,} bytes; is it the right file\?"):
        Soup.load(f"{web.url}/soup.json")
    assert web.n_sent < LARGEST + 64 * MIB


def test_a_soup_that_unpacks_to_more_than_it_says(web: Web) -> None:
    """100 kB on the wire are 100 MiB in memory."""
    packed = gzip.compress(b" " * 100 * MIB)
    headers = {"Content-Encoding": "gzip", "Content-Length": str(len(packed))}
    web.answers["/soup.json"] = web.endless(packed, most=1, headers=headers)
    with pytest.raises(DataError, match=r"soup.json has more than 67,108,864 bytes"):
        Soup.load(f"{web.url}/soup.json")


def test_a_soup_without_a_length_is_read(web: Web) -> None:
    text = json.dumps(SOUP.as_json()).encode()
    web.answers["/soup.json"] = web.endless(text, most=1, headers={})
    assert Soup.load(f"{web.url}/soup.json") == SOUP
    web.files["/other.json"] = text
    assert Soup.load(f"{web.url}/other.json") == SOUP


def test_exactly_the_bound_is_read(web: Web) -> None:
    web.files["/a"] = b"x" * 1000
    assert remote.read(f"{web.url}/a", largest=1000) == b"x" * 1000
    with pytest.raises(DataError, match=r"/a has more than 999 bytes"):
        remote.read(f"{web.url}/a", largest=999)
    web.files["/none"] = b""
    with pytest.raises(MismatchError, match=r"is not JSON"):
        Soup.load(f"{web.url}/none")


def test_a_local_file_is_bounded_too(tmp_path: Path) -> None:
    with (tmp_path / "soup.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(DataError, match=r"soup.json has 67,108,865 bytes, more than 67,108,864"):
        Soup.load(tmp_path / "soup.json")


# ------------------------------------------------------------------------------------- paths of a list below a URL


LEAVING = {
    "%2e%2e/up.png": "leaves the root",
    "a/%2E%2e/%2e./up.png": "leaves the root",
    "%252e%252e/up.png": "leaves the root",
    "..%2fup.png": "leaves the root",
    "..%5cup.png": "leaves the root",
    "%2fetc/up.png": "leaves the root",
    "..;/up.png": "leaves the root",
    "%2525252525252e/up.png": r"is encoded \(%25\) more than 4 times",
    "a.png?delete=1": "asks the server a question",
    "a.png#x": "asks the server a question",
    "a.png::b.zip": "is a URL of its own",
}


@pytest.mark.parametrize("path", LEAVING)
def test_a_listed_path_stays_below_a_url(web: Web, tmp_path: Path, path: str) -> None:
    """The error comes with the list, before anything is asked for."""
    (tmp_path / "list.csv").write_text(f"path,class_name\n{path},red\n")
    with pytest.raises(DataError, match=LEAVING[path]) as caught:
        tables.read(str(tmp_path / "list.csv"), root=f"{web.url}/photos", wanted=["test"])
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=LEAVING[path]):
        digests.of_images(f"{web.url}/photos", [path], origin="list.csv")
    assert web.asked == []


@pytest.mark.parametrize(
    "path", ["../up.png", "a/../../up.png", "/up.png", "..\\up.png", "a/..", "C:\\up.png", "http://x/up.png"]
)
def test_a_listed_path_that_leaves_the_root_in_plain_words(web: Web, tmp_path: Path, path: str) -> None:
    (tmp_path / "list.csv").write_text(f"path,class_name\n{path},red\n")
    with pytest.raises(DataError, match=r"list\.csv"):
        tables.read(str(tmp_path / "list.csv"), root=web.url, wanted=["test"])
    assert web.asked == []


@pytest.mark.parametrize("path", ["cat/1 2.png", "100%.png", "ca%20t.png", "..dots/x..png", "a;b.png", "a+b.png"])
def test_a_plain_name_below_a_url_is_asked_for(web: Web, path: str) -> None:
    assert remote.joined(f"{web.url}/photos/", path) == f"{web.url}/photos/{path}"


def test_a_bucket_may_have_names_that_a_web_server_may_not() -> None:
    assert remote.joined("s3://bucket", "what?#1.png") == "s3://bucket/what?#1.png"


def test_images_of_a_web_server_are_listed_and_read(web: Web, tmp_path: Path) -> None:
    here = write_image_folder(tmp_path / "photos", splits={"test": 1}, classes=COLOURS)
    lines = ["path,class_name"]
    for file in sorted(here.rglob("*.png")):
        path = file.relative_to(here).as_posix()
        web.files[f"/photos/{path}"] = file.read_bytes()
        lines.append(f"{path},{file.parent.name}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    where = {"layout": f"manifest:{tmp_path}/list.csv", "root": f"{web.url}/photos", "watch": f"{tmp_path}/list.csv"}
    params = DatasetParams(role="xd", template="a {}.", **where)
    listing = manifest.read_listing("photos", params=params)
    (first, *_) = listing.splits["test"].paths
    assert read_bytes(remote.joined(listing.root, first)) == (here / first).read_bytes()


# ---------------------------------------------------------------------------------------------- URLs in local lists


@pytest.mark.parametrize(
    "url",
    [
        "{web}/admin?delete=1",
        "HTTP://127.0.0.1/x.png",
        "zip://a.png::{web}/a.zip",
        "simplecache::{web}/a.png",
        "file:///etc/passwd",
        "s3://bucket/a.png",
        "//{web}/a.png",
        "http:\\\\127.0.0.1\\a.png",
        " {web}/a.png",
    ],
)
def test_a_manifest_of_urls_is_refused_with_their_number(web: Web, tmp_path: Path, url: str) -> None:
    url = url.format(web=web.url)
    (tmp_path / "list.csv").write_text(f"path,class_name\na.png,red\n{url},blue\n")
    with pytest.raises(DataError, match=r"list\.csv: 1 of 2 paths are URLs, such as .* nothing that a list names is"):
        tables.read("list.csv", root=str(tmp_path), wanted=["test"])
    assert web.asked == []


def test_a_url_in_a_split_file_of_coop(tmp_path: Path) -> None:
    file = tmp_path / "eurosat/split_zhou_EuroSAT.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"test": [["http://127.0.0.1:1/a.jpg", 0, "cat"]]}))
    with pytest.raises(DataError, match=r"path 'http://127.0.0.1:1/a.jpg' is a URL, which is not fetched"):
        coop.read("eurosat", root=str(tmp_path), wanted=("test",))
