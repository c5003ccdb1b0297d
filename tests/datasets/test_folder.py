"""ImageFolder: which images are listed, their order and class names, and errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from miniature import draw

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import folder
from wsoup.datasets.listing import Listing, Split, relative, validated


def test_labels_follow_sorted_folders_and_paths_are_relative(tmp_path: Path) -> None:
    for name in (
        "train/red_fox/b.png",
        "train/red_fox/a.PNG",
        "train/ant/1.jpeg",
        "test/red_fox/9.png",
        "test/ant/x/2.png",
    ):
        draw(tmp_path / name)
    listing = folder.read(str(tmp_path))
    assert listing.class_names == ["ant", "red fox"]
    assert listing.splits["train"].paths == ["train/ant/1.jpeg", "train/red_fox/a.PNG", "train/red_fox/b.png"]
    assert listing.splits["train"].labels.tolist() == [0, 1, 1]
    assert listing.splits["test"].paths == ["test/ant/x/2.png", "test/red_fox/9.png"]


def test_without_split_folders_everything_is_a_test_image_also_in_a_class_called_train(tmp_path: Path) -> None:
    names = [f"bus/{i:02d}.png" for i in range(30)] + ["train/1.png"]
    for name in names[::2] + names[1::2]:
        draw(tmp_path / name)
    listing = folder.read(str(tmp_path))
    assert listing.class_names == ["bus", "train"]
    assert {name: split.paths for name, split in listing.splits.items()} == {"test": names}


def test_links_are_followed_and_hidden_and_other_files_ignored(tmp_path: Path) -> None:
    draw(tmp_path / "elsewhere/1.png")
    (tmp_path / "set/test/cat").mkdir(parents=True)
    (tmp_path / "set/test/dog").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set/test/cat/x.jpg").symlink_to(tmp_path / "elsewhere/1.png")
    for name in ("test/cat/.DS_Store", "test/cat/notes.txt", "test/README.md"):
        (tmp_path / "set" / name).write_text("x")
    (tmp_path / "set/test/.git").mkdir()
    assert folder.read(str(tmp_path / "set")).splits["test"].paths == ["test/cat/x.jpg", "test/dog/1.png"]


@pytest.mark.parametrize(
    "text",
    [
        "n01440764 tench\nn01443537 gold_fish\nn9 not here\n",
        "\ufeffn01440764 tench\r\nn01443537 gold fish",  # as Notepad writes it
        "n01440764 tench\rn01443537 gold  fish\r",
        "\nn01443537\tgold\u2028fish\n\n n01440764\ttench\n",
    ],
)
def test_classnames_txt_renames_folders(tmp_path: Path, text: str) -> None:
    for name in ("test/n01440764/1.png", "test/n01443537/1.png"):
        draw(tmp_path / name)
    (tmp_path / "classnames.txt").write_bytes(text.encode())
    assert folder.read(str(tmp_path)).class_names == ["tench", "gold fish"]


def test_a_class_names_file_may_lie_elsewhere(tmp_path: Path) -> None:
    draw(tmp_path / "set/test/a b/1.png")
    names = tmp_path / "names.tsv"
    names.write_text("a b\tbumble bee\n")
    assert folder.read(str(tmp_path / "set"), class_names=str(names)).class_names == ["bumble bee"]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], r"has no class folders; expected .*train/<class>/<image>"),
        (["1.png"], r"has no class folders; expected .*train/<class>/<image>"),
        (["test/1.png"], r"/test has no class folders; expected .*/test/<class>/<image>"),
        (["test/1.png", "train/cat/1.png"], r"/test has no class folders; expected .*/test/<class>/<image>"),
        (["test/1.png", "train/1.png"], r"/train has no class folders; expected .*/train/<class>/<image>"),
        (["test/dog/notes.md"], r"no class folder of .* holds an image \('.*/test/dog'\); add .*\.jpg .* files"),
    ],
)
def test_folders_without_classes_or_images(tmp_path: Path, images: list[str], message: str) -> None:
    for name in images:
        draw(tmp_path / name) if name.endswith("png") else (tmp_path / name).parent.mkdir(parents=True)
    with pytest.raises(DataError, match=message):
        folder.read(str(tmp_path))
    with pytest.raises(MissingError, match=r"nowhere does not exist or is not a folder; correct the dataset's root"):
        folder.read(str(tmp_path / "nowhere"))


def test_a_split_that_is_not_wanted_may_be_empty(tmp_path: Path) -> None:
    for name in ("test/cat/1.png", "val/1.png"):
        draw(tmp_path / name)
    assert list(folder.read(str(tmp_path), wanted=("test",)).splits) == ["test"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (os.mkfifo, "is a FIFO"),
        (os.mkdir, "is a folder"),
        (lambda path: os.symlink("/dev/zero", path), "is a device"),
    ],
)
def test_something_named_like_an_image_that_is_not_a_file(
    tmp_path: Path, make: Callable[[str], object], text: str
) -> None:
    draw(tmp_path / "test/cat/1.png")
    make(str(tmp_path / "test/cat/x.jpg"))
    with pytest.raises(DataError, match=rf"test/cat/x.jpg {text}"):
        folder.read(str(tmp_path))


@pytest.mark.parametrize("loop", [True, False])
def test_folders_too_deep(tmp_path: Path, loop: bool) -> None:
    draw(tmp_path / "test/cat" / "/".join("d" * 28) / "1.png")
    assert folder.read(str(tmp_path)).splits["test"].paths[0].count("/d") == 28
    draw(tmp_path / "test/dog/1.png")
    if loop:
        (tmp_path / "test/dog/again").symlink_to(tmp_path / "test/dog")
    else:
        draw(tmp_path / "test/dog" / "/".join("d" * 33) / "1.png")
    with pytest.raises(DataError, match="lies more than 32 folders deep; move the images up, or remove a link"):
        folder.read(str(tmp_path))


@pytest.mark.parametrize("name", ["do\ng", "dog\tx", "dog\r"])
def test_a_class_folder_whose_name_breaks_a_line(tmp_path: Path, name: str) -> None:
    draw(tmp_path / f"test/{name}/1.png")
    draw(tmp_path / "test/cat/1.png")
    with pytest.raises(DataError, match=re.escape(f"class folder {name!r} holds a control character; rename it")):
        folder.read(str(tmp_path))


@pytest.mark.parametrize("name", [b"test/cat/caf\xe9.png", b"test/caf\xe9/1.png"])
def test_a_name_that_is_not_utf8(tmp_path: Path, name: bytes) -> None:
    good = draw(tmp_path / "test/cat/1.png")
    odd = os.path.join(os.fsencode(tmp_path), name)
    os.makedirs(os.path.dirname(odd), exist_ok=True)
    os.link(good, odd)
    with pytest.raises(DataError, match=r"b'test/cat/caf\\xe9.png' is not a UTF-8 name|'caf\\udce9' holds a control"):
        validated(folder.read(str(tmp_path)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a ant\n", "classnames.txt has no line for folder 'b'; add one"),
        (b"a ant\nb\n", "classnames.txt, line 2: 'b' should be: folder, a space, class name"),
        (b"a ant\nb bee\na ape\n", "classnames.txt, line 3: folder 'a' is named twice; keep one line"),
        (b"a caf\xe9\n", r"classnames.txt is not UTF-8 text \(byte 5\); save it as UTF-8"),
    ],
)
def test_faulty_class_names(tmp_path: Path, text: bytes, message: str) -> None:
    for name in ("test/a/1.png", "test/b/1.png"):
        draw(tmp_path / name)
    (tmp_path / "classnames.txt").write_bytes(text)
    with pytest.raises(DataError, match=message):
        folder.read(str(tmp_path))


def test_a_broken_link_to_class_names_is_an_error_and_not_taken_for_none(tmp_path: Path) -> None:
    draw(tmp_path / "set/ant/1.png")
    (tmp_path / "set/classnames.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(MissingError, match=r"classnames.txt does not exist; expected one line per class"):
        folder.read(str(tmp_path / "set"))


def test_where_no_wanted_split_is_there_all_are_listed_for_the_error_to_name(tmp_path: Path) -> None:
    draw(tmp_path / "train/ant/1.png")
    listing = folder.read(str(tmp_path), wanted={"test"})
    assert set(listing.splits) == {"train"}
    with pytest.raises(DataError, match=r"has no split 'test', only train"):
        listing.split("test")


def test_labels_follow_the_names_as_they_are_capitals_first(tmp_path: Path) -> None:
    for name in ("ant", "Zebra", "bee"):
        draw(tmp_path / name / "1.png")
    assert folder.read(str(tmp_path)).class_names == ["Zebra", "ant", "bee"]


def test_class_folders_without_images_count_as_if_they_were_not_there(tmp_path: Path) -> None:
    for name in ("train/ant/1.png", "train/bee/1.png", "test/bee/2.png"):
        draw(tmp_path / name)
    for name in ("test/ant", "test/cat", "train/cat/more", "val/ant"):
        (tmp_path / name).mkdir(parents=True)
    listing = folder.read(str(tmp_path))
    assert (listing.class_names, listing.splits["test"].labels.tolist()) == (["ant", "bee"], [1])
    assert [*listing.splits] == folder.splits_with_images(str(tmp_path)) == ["train", "test"]
    assert folder.class_folders(str(tmp_path)) == ["ant", "bee"]
    assert folder.class_folders(str(tmp_path), wanted=["test"]) == ["bee"]


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_are_those_of_the_classes(label: int) -> None:
    split = Split(["a.png", "b.png", "c.png"], np.array([0, 1, label]))
    listing = Listing("root", ["ant", "bee"], {"test": split}, origin="a list")
    with pytest.raises(DataError, match=rf"c.png \(test\) has label {label}, out of range for 2 classes \(0 to 1\)"):
        validated(listing)


@pytest.mark.parametrize("path", ["..", "a/../..", "a\\..\\..", "../a.png"])
def test_a_listed_path_stays_inside_the_root(path: str) -> None:
    with pytest.raises(DataError, match="leaves the dataset's root"):
        relative(path, origin="a list")
