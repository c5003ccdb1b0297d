"""Tar archives by offset: what tarfile finds is found, and nothing in a hostile one is a path or fills the memory."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from pathlib import Path

import forms
import pytest

from wsoup.base.errors import DataError
from wsoup.disk.files import container_of, read_bytes
from wsoup.disk.tar_files import LONGEST_HEADER, entries, place_of

LONG = "a" * 120 + "/" + "b" * 130 + ".jpg"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_the_files_that_tarfile_finds_are_found_with_their_bytes(tmp_path: Path, form: int) -> None:
    names = ["a.jpg", "folder/b.jpg", "c.cls", "empty"]
    names += [] if form == tarfile.USTAR_FORMAT else [LONG, "größe.jpg"]
    with tarfile.open(tmp_path / "0.tar", "w", format=form) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for i, name in enumerate(names):
            forms.put(tar, name, b"" if name == "empty" else bytes([i]) * (500 * i + 1), mtime=1.5)
    with tarfile.open(tmp_path / "0.tar") as tar:
        expected = [(member.name, member.offset_data, member.size) for member in tar if member.isreg()]
    found = [*entries(str(tmp_path / "0.tar"))]
    assert [tuple(entry) for entry in found] == expected
    for i, entry in enumerate(found):
        path = f"{tmp_path}/0.tar/{place_of(entry)}"
        assert container_of(path) == f"{tmp_path}/0.tar"
        assert read_bytes(path) == (b"" if entry.name == "empty" else bytes([i]) * (500 * i + 1))


def test_no_name_in_an_archive_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for name in ("../secret.jpg", f"{tmp_path}/secret.jpg", "a/../../secret.jpg", "\x1b[2J@1+2.jpg"):
            forms.put(tar, name, b"inside")
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            link = tarfile.TarInfo("link.jpg")
            link.type, link.linkname = kind, f"{tmp_path}/secret.jpg"
            tar.addfile(link)
        forms.put(tar, "last.jpg", b"inside")
    found = [*entries(str(tmp_path / "0.tar"))]
    assert len(found) == 5
    for entry in found:
        place = place_of(entry)
        assert "/" not in place
        assert place.isprintable()
        assert read_bytes(f"{tmp_path}/0.tar/{place}") == b"inside"
    for place in ("../secret.jpg", "link.jpg", "x@0+99999999", "x@-1+5", "x@1", f"x@{10**17}+5"):
        with pytest.raises(DataError, match="has no image"):
            read_bytes(f"{tmp_path}/0.tar/{place}")


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            forms.put(tar, name, b"x" * 700)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (512 + 300, r"no whole tar archive after its beginning \(it is cut off within 'one.jpg'\); download it again"),
        (512 + 1024, r"after 'one.jpg' \(it has no end\)"),
        (512 + 1024 + 100, r"after 'one.jpg' \(it has no end\)"),
        (2 * 512 + 1024 + 9, r"after 'one.jpg' \(it is cut off within 'two.jpg'\)"),
    ],
)
def test_an_archive_that_is_cut_off_names_where(tmp_path: Path, cut: int, message: str) -> None:
    (tmp_path / "0.tar").write_bytes(archive("one.jpg", "two.jpg")[:cut])
    with pytest.raises(DataError, match=message):
        [*entries(str(tmp_path / "0.tar"))]


@pytest.mark.parametrize("data", [b"x" * 2000, b"PK\x03\x04" * 500, b"\x1f\x8b\x08" * 400])
def test_what_is_no_archive_is_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "0.tar").write_bytes(data)
    with pytest.raises(DataError, match=r"0\.tar is no whole tar archive after its beginning"):
        [*entries(str(tmp_path / "0.tar"))]


def test_a_flipped_bit_in_a_header_is_noticed(tmp_path: Path) -> None:
    data = bytearray(archive("one.jpg", "two.jpg"))
    data[512 + 1024 + 130] ^= 1  # in the second size
    (tmp_path / "0.tar").write_bytes(data)
    with pytest.raises(DataError, match=r"after 'one.jpg' \(bad checksum\)"):
        [*entries(str(tmp_path / "0.tar"))]


@pytest.mark.parametrize(
    "records", [b"9999999 path=x\n", b"0 path=x\n", b"x\n", b"30 size=-5\n", b"99999999999 size=9\n", b"11 size=-a\n"]
)
def test_extended_headers_that_are_damaged_are_refused(tmp_path: Path, records: bytes) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    blocks = header.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0")
    (tmp_path / "0.tar").write_bytes(blocks + archive("one.jpg"))
    with pytest.raises(DataError, match=r"0\.tar is no whole tar archive after its beginning"):
        [*entries(str(tmp_path / "0.tar"))]


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    with (tmp_path / "0.tar").open("wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(1 << 41)  # sparse
    with pytest.raises(DataError, match=r"a header of 1,099,511,627,776 bytes"):
        [*entries(str(tmp_path / "0.tar"))]
    assert LONGEST_HEADER < 1 << 21


def test_many_entries_need_no_memory(tmp_path: Path) -> None:
    one = tarfile.TarInfo("0001.cls")
    one.size = 1
    block = one.tobuf(tarfile.USTAR_FORMAT) + b"3".ljust(512, b"\0")
    (tmp_path / "0.tar").write_bytes(block * 20_000 + bytes(1024))
    tracemalloc.start()
    try:
        assert sum(1 for _ in entries(str(tmp_path / "0.tar"))) == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
