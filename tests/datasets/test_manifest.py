"""The manifest: the images it lists, their order, and digests that are computed only once."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from half_done import unused
from miniature import build_coop, draw, write_pickles
from PIL import Image
from processes import ROOT

from wsoup.base.errors import DataError, MissingError, ParamsError, WsoupError
from wsoup.datasets import hashing, layouts, manifest
from wsoup.datasets.listing import Listing, Split
from wsoup.disk import cache_folder
from wsoup.params.inputs import DatasetParams


def params(root: Path, **changes: Any) -> DatasetParams:
    section = {"role": "source", "layout": "imagefolder", "root": str(root), "watch": str(root), "template": "a {}."}
    return DatasetParams(**(section | changes))


def build(section: DatasetParams, *, shots: int = 2, seeds: tuple[int, ...] = (1, 2)) -> manifest.Manifest:
    listing = manifest.read_listing("mine", params=section)
    return manifest.build(listing, name="mine", params=section, shots=shots, seeds=list(seeds))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("ant", "bee", "cat"):
        for i in range(6):
            draw(tmp_path / "set/train" / name / f"{i}.png")
        for i in range(2):
            draw(tmp_path / "set/test" / name / f"{i}.png")
    return tmp_path / "set"


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_every_layout_is_read(layout: str, tmp_path: Path) -> None:
    """One without a branch would be refused as unknown, and named among the known ones."""
    said = ""
    try:
        manifest.read_listing("mine", params=params(tmp_path, role="xd", layout=layout.lower()))
    except WsoupError as error:
        said = str(error)
    unread = f"wsoup/datasets/layouts.py: LAYOUTS names {layout}, and `listed_by_layout` does not read it"
    assert "is not a layout" not in said, unread


def test_everything_is_used() -> None:
    assert not unused("datasets"), "\n".join(unused("datasets"))


def read_layouts() -> set[str]:
    """The texts that `listed_by_layout` compares a layout with."""
    texts = set()
    for node in ast.walk(ast.parse(inspect.getsource(layouts.listed_by_layout))):
        compared: list[ast.expr] = []
        if isinstance(node, ast.Compare) and {"kind", "layout"} & names_in(node):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            compared = [node.value]
        for part in compared:
            texts |= {inner.value for inner in ast.walk(part) if isinstance(inner, ast.Constant)}
    return texts


def names_in(node: ast.AST) -> set[str]:
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def test_every_layout_that_is_read_is_listed_and_described() -> None:
    """Whoever misspells one is shown LAYOUTS, and whoever looks for one reads docs/datasets.md."""
    listed = {layout.partition(":")[0] for layout in layouts.LAYOUTS}
    missing = sorted(read_layouts() - listed)
    assert not missing, (
        f"wsoup/datasets/layouts.py: `listed_by_layout` reads the layouts {missing}, and LAYOUTS lacks them"
    )
    page = (ROOT / "docs/datasets.md").read_text(encoding="utf-8")
    _, *described = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    rows = "docs/datasets.md: the first table has a row for each of LAYOUTS (wsoup/datasets/layouts.py), in its order"
    assert described == [*layouts.LAYOUTS], rows


def test_a_source_lists_test_images_and_the_few_shot_images_of_all_seeds(root: Path) -> None:
    table = build(params(root)).table
    rows = table.to_pylist()
    assert table.column_names == ["path", "label", "class_name", "split", "size", "digest", "seeds"]
    assert rows == sorted(rows, key=lambda row: (row["split"], row["label"], row["path"]))
    assert [row["path"] for row in rows[:2]] == ["test/ant/0.png", "test/ant/1.png"]
    assert all(row["seeds"] == [] for row in rows if row["split"] == "test")
    for seed in (1, 2):
        assert sum(seed in row["seeds"] for row in rows) == 3 * 2
    assert all(row["seeds"] for row in rows if row["split"] == "train")


def test_the_order_of_the_listing_and_of_seeds_does_not_matter(root: Path) -> None:
    section = params(root)
    listing = manifest.read_listing("mine", params=section)
    splits = {name: Split(split.paths[::-1], split.labels[::-1]) for name, split in listing.splits.items()}
    backwards = Listing(listing.root, listing.class_names, splits, origin=listing.origin)
    built = manifest.build(backwards, name="mine", params=section, shots=4, seeds=[2, 1])
    assert built.table.equals(build(section, shots=4).table)
    assert [1, 2] in built.table["seeds"].to_pylist()


def test_images_come_by_label_before_they_come_by_path(root: Path) -> None:
    section = params(root, role="dg")
    split = Split(["test/ant/0.png", "test/bee/0.png"], np.array([1, 0]))
    listing = Listing(str(root), ["bee", "ant"], {"test": split}, origin="a list")
    table = manifest.build(listing, name="mine", params=section, shots=1, seeds=[1]).table
    assert table["path"].to_pylist() == ["test/bee/0.png", "test/ant/0.png"]


def test_a_dataset_of_the_paper_may_have_any_name_in_params(tmp_path: Path) -> None:
    section = params(build_coop(tmp_path / "data"), role="xd", layout="coop:caltech101")
    assert manifest.read_listing("mine", params=section).class_names[0] == "caltech101 class 0"


def test_a_target_lists_only_test_images(root: Path) -> None:
    table = build(params(root, role="dg")).table
    assert set(table["split"].to_pylist()) == {"test"}
    assert table["class_name"].to_pylist() == ["ant", "ant", "bee", "bee", "cat", "cat"]


def test_size_and_digest_are_the_files_own(root: Path) -> None:
    row = build(params(root, role="dg")).table.to_pylist()[0]
    data = (root / "test/ant/0.png").read_bytes()
    assert (row["size"], row["digest"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_attributes_describe_the_dataset(root: Path) -> None:
    built = build(params(root)).attributes
    assert built["dataset"] == "mine"
    assert built["class_names"] == ["ant", "bee", "cat"]
    assert built["template"] == "a {}."
    assert built["fewshot_source"] == "drawn by shots and seed"
    assert (built["paper_comparable"], built["reason"]) == (False, "not one of the paper's datasets in CoOp's layout")
    assert build(params(root, role="dg")).attributes["fewshot_source"] is None


def test_a_dataset_of_the_paper_says_where_its_shots_come_from_and_how_its_test_images_differ(tmp_path: Path) -> None:
    data, pickles = build_coop(tmp_path / "data"), str(tmp_path / "pickles")
    write_pickles(tmp_path / "pickles", shots=1, seeds=(1,))
    section = params(data, layout="coop:imagenet", fewshot_pickles=pickles, test_split="train")
    built = build(section, shots=1, seeds=(1,)).attributes
    assert built["fewshot_source"] == pickles
    assert (built["paper_comparable"], built["reason"]) == (False, "test_split: train, the paper's is test")


def test_the_test_split_may_have_another_name(root: Path) -> None:
    built = build(params(root, role="dg", test_split="train"))
    assert built.table.num_rows == 18
    assert built.attributes["test_split"] == "train"


# --------------------------------------------------------------------------------------------------- digest cache


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    plain = hashing.read_bytes
    monkeypatch.setattr(hashing, "read_bytes", lambda path: read.append(path) or plain(path))
    return read


def same_size(path: Path, *, red: int) -> Path:
    """Write a BMP; all BMPs with this number of pixels have the same number of bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (red, 0, 0)).save(path)
    os.utime(path, ns=(10**18, 10**18))
    return path


CHANGES: dict[str, Callable[[Path], object]] = {
    "another size": lambda path: draw(path, size=9),
    "a new time alone": lambda path: os.utime(path, ns=(1, 1)),
    "the old size and time": lambda path: same_size(path, red=11),
    "another file": lambda path: os.replace(same_size(path.with_name("aside.bmp"), red=11), path),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("place", ["test/bee", "sky.arrow"])  # folders like any other
def test_only_a_changed_image_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, place: str
) -> None:
    image = same_size(tmp_path / "set" / place / "bee/0.bmp", red=10)
    other = draw(tmp_path / "set" / place / "cat/0.png")
    section = params(tmp_path / "set" / place, role="dg")
    before = build(section).table["digest"].to_pylist()
    folder_time = os.stat(image.parent).st_mtime_ns
    time.sleep(0.02)  # a tick of the file system's clock
    CHANGES[what](image)
    os.utime(image.parent, ns=(folder_time, folder_time))
    read = count_reads(monkeypatch)
    after = build(section).table["digest"].to_pylist()
    assert read == [str(image)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [what == "a new time alone", True]
    assert str(other) not in read


def test_digests_of_other_images_under_the_root_are_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(params(root)).table
    build(params(root, role="dg", test_split="train"))
    read = count_reads(monkeypatch)
    assert build(params(root)).table.equals(first)
    assert read == []


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: data[:-9], lambda data: data.replace(b"a", b"b")])
def test_a_damaged_digest_cache_is_reported_and_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spoil: Callable[[bytes], bytes]
) -> None:
    first = build(params(root)).table
    (cache,) = (cache_folder.cache_dir() / "digests").iterdir()
    complete = cache.read_bytes()
    cache.write_bytes(spoil(complete))
    read = count_reads(monkeypatch)
    assert build(params(root)).table.equals(first)
    assert len(read) == first.num_rows
    message = capsys.readouterr().err
    assert message.startswith(f"{cache} is damaged")
    assert message.endswith("it is dropped, and the images are read again\n")
    assert message.count("\n") == 1
    assert cache.read_bytes() == complete


def test_a_listed_image_that_is_not_a_file(root: Path) -> None:
    os.mkfifo(root / "fifo.png")
    rows = Split(["test/ant/0.png", "fifo.png"], np.array([0, 0]))
    listing = Listing(str(root), ["ant"], {"test": rows}, origin="list.csv")
    with pytest.raises(DataError, match=r"/fifo.png is a FIFO, expected a file; rename or remove it"):
        manifest.build(listing, name="mine", params=params(root, role="dg"), shots=1, seeds=[1])


def test_listed_images_that_do_not_exist(root: Path) -> None:
    rows = Split(["test/ant/0.png", "no.png", "nor this.png"], np.array([0, 0, 0]))
    listing = Listing(str(root), ["ant"], {"test": rows}, origin="list.csv")
    text = r"2 of 3 images listed in list.csv do not exist under .*: 'no.png', 'nor this.png'; unpack the dataset again"
    with pytest.raises(MissingError, match=text):
        manifest.build(listing, name="mine", params=params(root, role="dg"), shots=1, seeds=[1])


# -------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"test_split": "val"},
            DataError,
            r"set has no split 'val', only train; name one of these in test_split, or add",
        ),
        (
            {"layout": "folders"},
            ParamsError,
            r"datasets.mine.layout: 'folders' is not a layout; expected imagefolder, ",
        ),
        ({"layout": "manifest:"}, ParamsError, r"datasets.mine.layout: 'manifest:' is not a layout"),
        (
            {"verify": True, "watch": "list.txt"},
            ParamsError,
            r"verify: true needs `watch` to be the folder of the images, not list.txt",
        ),
    ],
)
def test_a_section_that_is_refused(root: Path, changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build(params(root, **changes))


# ------------------------------------------------------------------------ changes that are hard to notice


def test_images_are_read_every_time_on_a_file_system_without_inodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ant = same_size(tmp_path / "set/ant/1.bmp", red=10)
    section = params(tmp_path / "set", role="dg")
    status = SimpleNamespace(st_size=246, st_mtime_ns=1, st_ctime_ns=1, st_ino=0)
    monkeypatch.setattr(hashing, "regular_file", lambda path: status)
    before = build(section).table["digest"].to_pylist()
    same_size(ant, red=11)
    assert build(section).table["digest"].to_pylist() != before


def test_a_class_that_is_a_link_to_a_folder_elsewhere_is_refused(tmp_path: Path) -> None:
    """DVC does not follow such links, so a changed image behind one would be "up to date"."""
    draw(tmp_path / "elsewhere/1.png")
    draw(tmp_path / "set/test/ant/1.png")
    (tmp_path / "set/test/bee").symlink_to(tmp_path / "elsewhere")
    message = (
        rf"/set/test/bee is, or lies below, a link to a folder outside of .*/set \({tmp_path}/elsewhere\): DVC would"
    )
    with pytest.raises(DataError, match=message):
        build(params(tmp_path / "set", role="dg"))


def test_an_image_from_after_the_year_2262_is_listed(tmp_path: Path) -> None:
    """A clock that is wrong; its nanoseconds have more than 63 bits."""
    draw(tmp_path / "set/test/ant/1.png")
    os.utime(tmp_path / "set/test/ant/1.png", ns=(10**19, 10**19))
    assert len(build(params(tmp_path / "set", role="dg")).table) == 1


def test_links_that_dvc_follows_or_need_not_follow_are_allowed(tmp_path: Path) -> None:
    draw(tmp_path / "elsewhere/test/ant/1.png")
    draw(tmp_path / "note.txt.png")
    (tmp_path / "set").symlink_to(tmp_path / "elsewhere")  # the root itself: DVC hashes what it leads to
    (tmp_path / "elsewhere/test/bee").symlink_to(tmp_path / "elsewhere/test/ant")
    assert len(build(params(tmp_path / "set", role="dg")).table) == 2
    (tmp_path / "apart/test").mkdir(parents=True)
    (tmp_path / "apart/test/ant").symlink_to(tmp_path / "elsewhere/test/ant")
    assert len(build(params(tmp_path / "apart", role="dg", watch=str(tmp_path / "note.txt.png"))).table) == 1
